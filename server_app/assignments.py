"""Who is asked for what: the model it gets, the bits it may send, the seeds it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flwr.app import Message, MessageType

import fedcomp
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import TrainRequest, message_bytes
from fedcomp.seeds import COHORT_CLIENT_ID
from server_app.budgets import Budget, choose_budget, keep_to_cap, spec_with_bits
from server_app.outcomes import ClientOutcome
from server_app.plan import RunPlan
from server_app.roster import Client
from server_app.run_state import RunState
from server_app.sealing import ServerSeals


@dataclass(frozen=True)
class Assignment:
    """One client's request.

    Attributes
    ----------
    client, request
        Who is asked for what.
    chance
        How much likelier than others the client was to be drawn; its weight is divided by it.
    outcome
        What the records hold if nothing comes back: budget and bytes of the request.
    request_id
        Where messages are sealed, what the reply must name.
    """

    client: Client
    request: TrainRequest
    chance: float
    outcome: ClientOutcome
    request_id: bytes = b""

    def message(self, *, ttl: float, seals: ServerSeals | None = None) -> Message:
        """Return the Flower message, sealed by ``seals`` where there are some."""
        return Message(
            self.request.to_record() if seals is None else seals.request(self.request, self.request_id),
            dst_node_id=self.client.node_id,
            message_type=MessageType.TRAIN,
            group_id=str(self.request.round_index),
            ttl=ttl,
        )


def assign(
    drawn: Sequence[tuple[Client, float]], plan: RunPlan, state: RunState, *, round_index: int
) -> tuple[dict[int, Assignment], list[ClientOutcome]]:
    """Map drawn clients with their chances to one assignment a node, and outcomes of those that cannot be asked.

    Parameters
    ----------
    round_index
        The number that seeds and client state go by: the round's, in asynchronous mode the request's.
    """
    budgets: dict[str, tuple[Budget, str]] = {}
    refused: list[ClientOutcome] = []
    for client, _ in drawn:
        try:
            budgets[client.name] = _budget(client, plan, state)
        except ConfigError as error:  # what the site asks for is wrong, or too little for the scheme
            reason = f"{type(error).__name__}: {error}"
            refused.append(ClientOutcome(client, "rejected", reason))
    asked = [(client, chance) for client, chance in drawn if client.name in budgets]
    assignments: dict[int, Assignment] = {}
    for rank, (client, chance) in enumerate(asked):
        budget, spec = budgets[client.name]
        known = state.ledger[client.name]
        known.asked += 1
        codec = fedcomp.compressor(spec).for_member(rank, len(asked))
        request = TrainRequest(
            parts=tuple(state.broadcaster.parts_for(known.held_version)),
            raw=state.raw,
            layout=plan.layout.fingerprint,
            run=plan.run_id,
            client=client.name,
            round_index=round_index,
            version=state.broadcaster.version or 0,
            compressor=str(codec.spec),
            encode_seed=plan.seed(round_index, COHORT_CLIENT_ID if codec.shares_seed else client.client_id, "rotation"),
            training_seed=plan.seed(round_index, client.client_id, "training"),
            learning_rate=plan.recipe.learning_rate(state.round_index + 1),
            batch_size=plan.recipe.batch_size(state.round_index + 1),
            feedback=plan.uses_feedback,
            last_applied_round=known.last_applied_round,
            void_rounds=tuple(state.void_rounds),
            replay_from=state.replay_from,
            keeps_model=plan.compresses_downlink,
            wants_exact=plan.config.measure_nmse,
        )
        outcome = ClientOutcome(
            client,
            budget=budget,
            downlink_payload_bytes=sum(len(part.payload) for part in request.parts),
            uplink_mbps=None if client.simulated else state.uplinks.get(client.name),
        )
        request_id = b"" if plan.seals is None else plan.seals.new_id()
        assignments[client.node_id] = Assignment(client, request, chance, outcome, request_id)
    return assignments, refused


def _budget(client: Client, plan: RunPlan, state: RunState) -> tuple[Budget, str]:
    """Return what a client may send, and the spec string of the compressor that sends so much."""
    dim = plan.layout.dim
    budget = choose_budget(
        name=client.name,
        device=client.device,
        profile_bits=client.bits,
        profile_uplink_mbps=client.uplink_mbps,
        rules=plan.rules,
        target_upload_seconds=plan.config.target_upload_seconds,
        estimated_mbps=None if client.simulated else state.uplinks.get(client.name),
        dim=dim,
    )
    budget = keep_to_cap(budget, client.max_bits, plan.config.compressor)
    return budget, spec_with_bits(plan.config.compressor, budget.bits, budget.source, dim=dim)


def measured(assignments: Mapping[int, Assignment], messages: Mapping[int, Message]) -> dict[int, Assignment]:
    """Return the assignments with the bytes that Flower sends around each request's payloads."""
    # Messages with the same parts differ in their short config record only, so one tells the size of all.
    sizes: dict[tuple[tuple[int, int | None], ...], int] = {}
    found: dict[int, Assignment] = {}
    for node, asked in assignments.items():
        route = tuple((part.version, part.base) for part in asked.request.parts)
        payload = asked.outcome.downlink_payload_bytes
        if route not in sizes:
            sizes[route] = message_bytes(messages[node]) - payload
        found[node] = replace(asked, outcome=replace(asked.outcome, downlink_envelope_bytes=sizes[route]))
    return found
