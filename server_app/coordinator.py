"""One run at the server: its state, and what follows each round's mean.

Step, test, guard, record, checkpoint, stop: the same for rounds and for asynchronous steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import torch
from flwr.serverapp import Grid
from torch import Tensor, nn

from fedcomp.aggregation import l2_norm
from fedcomp.errors import FedcompError
from fedcomp.flower.mailbox import Mailbox
from fedcomp.home import checkpoints_dir
from fedcomp.tasks.base import Task
from server_app.checkpoint import (
    Checkpoint,
    CheckpointState,
    load_newest,
    save_checkpoint,
)
from server_app.evaluation import evaluate
from server_app.guard import Guard
from server_app.outcomes import RoundOutcome
from server_app.plan import RunPlan
from server_app.reporting import Reporter, RoundTest
from server_app.roster import Roster
from server_app.run_state import RunState
from server_app.stopping import Stopper

log = logging.getLogger("fedcomp.server")

_SHOULD_HAVE_LEARNED = 5
_WHAT_HELPS = "try another learning-rate, or clip-gradients = 1.0; docs/recipe.md says more"


class Diverged(FedcompError):
    """The model diverged more often than `max-rollbacks` allows."""


class Coordinator:
    """A run that is going on.

    Attributes
    ----------
    grid, roster, mailbox
        The way to the clients, who they are, and the requests that wait for a reply.
    plan, state
        What stays and what changes.
    stop_reason
        Why no further round is to begin; None while the run goes on.
    """

    def __init__(
        self, grid: Grid, plan: RunPlan, task: Task, model: nn.Module, reporter: Reporter, *, device: torch.device
    ) -> None:
        config = plan.config
        self.grid, self.plan, self.reporter = grid, plan, reporter
        self._task, self._model, self._device = task, model, device
        self._test = task.test_examples(seed=config.seed)
        self._folder = checkpoints_dir(plan.run_id)
        start = model.state_dict()
        self.state = RunState(
            vector=plan.layout.flatten(start),
            raw=plan.layout.raw(start),
            optimizer=plan.new_optimizer(),
            broadcaster=plan.new_broadcaster(),
            guard=Guard(loss_factor=config.guard_loss_factor, norm_factor=config.guard_norm_factor),
            stopper=Stopper(
                target_accuracy=config.target_accuracy, max_uplink_mb=config.max_uplink_mb, patience=config.patience
            ),
        )
        self.roster = Roster(grid, plan.run_id, self.state.ledger, seals=plan.seals)
        self.mailbox = Mailbox(grid)
        self.stop_reason: str | None = None

    def begin(self) -> None:
        """Test the initial model, publish it and write the first checkpoint."""
        _, loss = self._evaluate()
        self.state.guard.set_initial_loss(loss)
        if not self.plan.config.checkpoint_every:
            log.warning("checkpoint-every is 0: a model that diverges cannot be rolled back, a run not be resumed")
        self._publish()
        self._checkpoint(0)

    def resume(self) -> None:
        """Go on from the newest checkpoint that can be read; raises CheckpointError when there is none."""
        found = load_newest(self._folder, self.plan.layout)
        self.state.restore(*self._unpack(found))
        self.roster = Roster(
            self.grid, self.plan.run_id, self.state.ledger, found.position.num_partitions, seals=self.plan.seals
        )
        log.info("resumed after round %d", self.state.round_index)

    def finish(self, outcome: RoundOutcome) -> None:
        """Apply a round's mean, then test, guard, record, checkpoint and see whether to stop.

        Raises
        ------
        Diverged
            When the model diverged once more than the settings allow.
        CheckpointError
            When the checkpoint cannot be written.
        """
        config, state = self.plan.config, self.state
        state.round_index = outcome.round_index
        state.uplink_bytes += sum(item.payload_bytes for item in outcome.all_items)
        own = time.perf_counter()
        norm = None
        if outcome.mean is not None:
            norm = l2_norm(outcome.mean.mean)
            if self.plan.recipe.restarts(outcome.round_index):
                state.optimizer.reset()
            state.vector = state.optimizer.step(
                state.vector,
                outcome.mean.mean,
                weight=outcome.mean.weight,
                round_index=outcome.round_index,
                learning_rate=self.plan.recipe.server_rate(outcome.round_index, cohort=outcome.wanted),
            )
            state.raw = outcome.raw
        own = time.perf_counter() - own
        tested = time.perf_counter()
        accuracy, loss = self._evaluate()
        evaluate_seconds = time.perf_counter() - tested
        started = time.perf_counter()
        diverged = None
        if outcome.mean is not None and config.checkpoint_every:
            diverged = state.guard.check(loss, norm)
        if diverged:
            self._roll_back(outcome, diverged)
        else:
            self._publish()
            self._tell_what_is_not_learned(outcome, loss)
        seconds = own + sum(item.decode_seconds for item in outcome.outcomes) + time.perf_counter() - started
        self.reporter.record(outcome, RoundTest(accuracy, loss, norm, bool(diverged), seconds, evaluate_seconds))
        if diverged and state.rollbacks > config.max_rollbacks:
            raise Diverged(
                f"round {outcome.round_index}: {diverged}; max-rollbacks is {config.max_rollbacks}: lower "
                "learning-rate or server-learning-rate, or set clip-norm"
            )
        last = outcome.round_index == config.num_server_rounds
        self.stop_reason = None if diverged else state.stopper.update(accuracy, loss, state.uplink_bytes)
        if self.stop_reason is None and self.reporter.stop_requested():
            self.stop_reason = f"stopped by request after round {outcome.round_index}"
        every = config.checkpoint_every
        if every and (last or self.stop_reason or outcome.round_index % every == 0 or diverged):
            self._checkpoint(outcome.round_index)
        if self.stop_reason:
            log.info("%s", self.stop_reason)

    def done(self) -> bool:
        """Whether no further round is to begin."""
        return self.stop_reason is not None or self.state.round_index >= self.plan.config.num_server_rounds

    def model_state(self) -> dict[str, Tensor]:
        """Return the model's state dict."""
        return self.plan.layout.unflatten(self.state.vector, self.state.raw)

    def _evaluate(self) -> tuple[float, float]:
        self._model.load_state_dict(self.model_state())
        return evaluate(self._model, self._task, self._test, device=self._device)

    def _publish(self) -> None:
        """Make the model's next version; of a model that did not change, what earlier payloads lost of it."""
        version = self.state.round_index
        self.state.broadcaster.publish(
            self.state.vector, version=version, seed=self.plan.cohort_seed(version, "downlink")
        )

    def _checkpoint(self, round_index: int) -> None:
        config = self.plan.config
        if not config.checkpoint_every:
            return
        self.state.remember_checkpoint(config.checkpoint_keep)
        tensors, values = self.state.to_checkpoint()
        model = self.model_state()
        if any(entry.dtype != "float32" for entry in self.plan.layout.floats):
            tensors["vector"] = self.state.vector  # the model's own dtype is narrower than what the server adds up in
        position = CheckpointState(
            run_id=self.plan.run_id,
            round_index=round_index,
            seed=str(config.seed),
            layout=self.plan.layout.fingerprint,
            config=config.to_mapping(),
            num_partitions=self.roster.num_partitions,
            server=values,
        )
        path = save_checkpoint(self._folder, Checkpoint(model, tensors, position), keep=config.checkpoint_keep)
        self.reporter.checkpoint(str(path))

    def _tell_what_is_not_learned(self, outcome: RoundOutcome, loss: float) -> None:
        """Note once, early enough to stop the run, that the settings lead nowhere."""
        if outcome.note is None and outcome.round_index == _SHOULD_HAVE_LEARNED:
            outcome.note = self.state.guard.has_not_learned(loss)
            if outcome.note:
                log.warning("round %d: %s: %s", outcome.round_index, outcome.note, _WHAT_HELPS)

    def _roll_back(self, outcome: RoundOutcome, reason: str) -> None:
        found = load_newest(self._folder, self.plan.layout)
        self.state.roll_back(*self._unpack(found))
        outcome.note = f"{reason}: rolled back to round {found.position.round_index}"
        outcome.reject_applied("the round was rolled back")
        log.warning("round %d: %s", outcome.round_index, outcome.note)

    def _unpack(
        self, found: Checkpoint
    ) -> tuple[Tensor, Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, object]]:
        layout = self.plan.layout
        vector = found.tensors.get("vector", layout.flatten(found.model))
        return vector, layout.raw(found.model), found.tensors, found.position.server
