"""One round: pick a cohort, send the model, take the updates as they come, form the mean.

A client that fails, is late or sends anything wrong is rejected by name with the reason in the records; the round goes
on with the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message, MessageType
from flwr.serverapp import Grid
from torch import Tensor

import fedcomp
from fedcomp.aggregation import MeanEstimate, MeanEstimator
from fedcomp.errors import EmptyMean, PayloadError
from fedcomp.flower.messages import TrainReply, TrainRequest, message_bytes
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed, permutation
from fedcomp.vectors import VectorSpec
from server_app.buffers import RawMean
from server_app.exchange import Failure, exchange
from server_app.roster import Client

log = logging.getLogger("fedcomp.server")


@dataclass(frozen=True)
class ClientOutcome:
    """What one client did in one round.

    Attributes
    ----------
    client
        Who.
    reply
        Its reply without payload and raw tensors, or None when none could be read.
    payload_bytes, envelope_bytes
        Bytes of the payload, and of everything Flower sends around it.
    decode_seconds
        Time the server took to check, decode and add it.
    reject_reason
        Why it was not used; None when it was.
    """

    client: Client
    reply: TrainReply | None = None
    payload_bytes: int = 0
    envelope_bytes: int = 0
    decode_seconds: float = 0.0
    reject_reason: str | None = None


@dataclass
class RoundOutcome:
    """What one round brought.

    Attributes
    ----------
    outcomes
        One entry a client asked.
    mean
        The mean update, or None when no update could be used.
    raw
        The model's integer and bool tensors after the round.
    downlink_payload_bytes, downlink_envelope_bytes
        Sum over the clients asked.
    """

    outcomes: list[ClientOutcome] = field(default_factory=list)
    mean: MeanEstimate | None = None
    raw: Mapping[str, Tensor] = field(default_factory=dict)
    downlink_payload_bytes: int = 0
    downlink_envelope_bytes: int = 0


@dataclass(frozen=True)
class RoundPlan:
    """What stays the same over all rounds of a run.

    Attributes
    ----------
    layout
        Layout of the model's state dict.
    secret
        The run secret.
    compressor
        Spec string of the uplink's compressor.
    timeout
        Seconds until a round ends without the missing replies.
    """

    layout: VectorSpec
    secret: bytes
    compressor: str
    timeout: float


def choose_cohort(clients: Sequence[Client], count: int, *, secret: bytes, round_index: int) -> list[Client]:
    """Return ``count`` clients (all when 0) drawn uniformly without replacement, in the order of their ids."""
    ordered = sorted(clients, key=lambda client: client.client_id)
    if count == 0 or count >= len(ordered):
        return ordered
    seed = derive_seed(secret, round_index, COHORT_CLIENT_ID, "cohort")
    return [ordered[index] for index in sorted(permutation(seed, len(ordered))[:count])]


def run_round(
    grid: Grid,
    cohort: Sequence[Client],
    plan: RoundPlan,
    *,
    model: Tensor,
    raw: Mapping[str, Tensor],
    round_index: int,
) -> RoundOutcome:
    """Send ``model`` to the cohort and return the mean of the updates that came back in time and in order."""
    result = RoundOutcome(raw=raw)
    codec = fedcomp.compressor(plan.compressor)
    downlink_seed = derive_seed(plan.secret, round_index, COHORT_CLIENT_ID, "downlink")
    downlink = fedcomp.compressor("identity").encode(model, seed=downlink_seed, shapes=plan.layout.shapes)
    requests = {
        client.node_id: TrainRequest(
            payload=downlink,
            raw=raw,
            payload_seed=downlink_seed,
            layout=plan.layout.fingerprint,
            client=client.name,
            round_index=round_index,
            compressor=str(codec.for_member(rank, len(cohort)).spec),
            encode_seed=derive_seed(
                plan.secret, round_index, COHORT_CLIENT_ID if codec.shares_seed else client.client_id, "rotation"
            ),
            training_seed=derive_seed(plan.secret, round_index, client.client_id, "training"),
        )
        for rank, client in enumerate(cohort)
    }
    deadline = time.monotonic() + plan.timeout
    messages = {
        node: Message(
            request.to_record(),
            dst_node_id=node,
            message_type=MessageType.TRAIN,
            group_id=str(round_index),
            ttl=plan.timeout,
        )
        for node, request in requests.items()
    }
    if messages:
        # The messages differ in their short config record only, so one tells the size of all.
        size = message_bytes(next(iter(messages.values())))
        result.downlink_payload_bytes = len(downlink) * len(messages)
        result.downlink_envelope_bytes = (size - len(downlink)) * len(messages)
    estimator = MeanEstimator(plan.layout.dim)
    raw_mean = RawMean(raw)
    by_node = {client.node_id: client for client in cohort}
    for node, reply in exchange(grid, messages, deadline=deadline):
        outcome = _take(reply, by_node[node], requests[node], estimator, raw_mean)
        if outcome.reject_reason is not None:
            log.warning("round %d: %s rejected: %s", round_index, outcome.client.name, outcome.reject_reason)
        result.outcomes.append(outcome)
    try:
        result.mean = estimator.result()
        result.raw = raw_mean.result()
    except (EmptyMean, PayloadError) as error:
        log.warning("round %d: no update could be used, the model is kept: %s", round_index, error)
    return result


def _take(
    message: Message | Failure, client: Client, request: TrainRequest, estimator: MeanEstimator, raw_mean: RawMean
) -> ClientOutcome:
    if isinstance(message, Failure):
        return ClientOutcome(client, reject_reason=message.reason)
    total_bytes = message_bytes(message)
    started = time.perf_counter()
    try:
        reply = TrainReply.from_record(message.content)
    except PayloadError as error:
        return ClientOutcome(client, envelope_bytes=total_bytes, reject_reason=f"{type(error).__name__}: {error}")
    size = len(reply.payload)
    reason = None
    try:
        if (reply.client, reply.round_index) != (request.client, request.round_index):
            reason = (
                f"reply is of {reply.client}, round {reply.round_index}, not {request.client}, {request.round_index}"
            )
        else:
            checked = raw_mean.check(reply.raw)
            estimator.add(reply.payload, weight=reply.num_examples, seed=request.encode_seed)
            raw_mean.add(checked, weight=reply.num_examples)
    except PayloadError as error:
        reason = f"{type(error).__name__}: {error}"
    return ClientOutcome(
        client,
        reply=_without_tensors(reply),
        payload_bytes=size,
        envelope_bytes=total_bytes - size,
        decode_seconds=time.perf_counter() - started,
        reject_reason=reason,
    )


def _without_tensors(reply: TrainReply) -> TrainReply:
    # What is kept for the records must not hold on to a payload, or memory would grow with the cohort.
    return TrainReply(**{**vars(reply), "payload": b"", "raw": {}})
