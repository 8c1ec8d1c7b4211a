"""Takes replies one at a time into a mean; what cannot be used is rejected by name, with the reason."""

from __future__ import annotations

import logging
import math
import statistics
import time
from dataclasses import replace

from flwr.app import Message, RecordDict

import fedcomp
from fedcomp.aggregation import MeanEstimator, check_weight, l2_norm
from fedcomp.downlink import ASK_FOR_WHOLE
from fedcomp.errors import EmptyMean, PayloadError
from fedcomp.flower.mailbox import Failure, failure_of
from fedcomp.flower.messages import ClientFailure, TrainReply, message_bytes, take_exact
from server_app.assignments import Assignment
from server_app.buffers import RawMean
from server_app.error_meter import ErrorMeter
from server_app.ledger import ClientRecord
from server_app.outcomes import ClientOutcome, RoundOutcome
from server_app.outliers import OutlierReport
from server_app.plan import RunPlan
from server_app.run_state import RunState
from server_app.sealing import ServerSeals
from server_app.weights import aggregation_weight

log = logging.getLogger("fedcomp.server")


class Intake:
    """The mean of one round's usable replies.

    Parameters
    ----------
    plan, state
        The run; what its clients are known for is updated in ``state.ledger``.
    outcome
        Gets an entry for each reply taken and, at the end, the mean.
    """

    def __init__(self, plan: RunPlan, state: RunState, outcome: RoundOutcome) -> None:
        self._plan, self._state, self._outcome = plan, state, outcome
        self._estimator = MeanEstimator(plan.layout.dim)
        self._raw = RawMean(state.raw)
        self._outliers: OutlierReport | None = None
        if plan.config.outlier_report:
            seed = plan.cohort_seed(outcome.round_index, "outliers")
            self._outliers = OutlierReport(plan.layout.dim, seed=seed)
        self._meter = ErrorMeter(plan.layout.dim) if plan.config.measure_nmse else None
        self._limit = _norm_limit(plan, state)
        self._norms: list[float] = []
        self._applied: list[Assignment] = []

    @property
    def accepted(self) -> int:
        """Number of replies that are part of the mean."""
        return len(self._applied)

    def take(self, message: Message | Failure, asked: Assignment, *, staleness: int = 0) -> ClientOutcome:
        """Add one reply when it can be used; note and return what became of it."""
        found = read_reply(message, asked, self._state, self._plan.seals)
        item = replace(found.outcome, staleness=staleness)
        if found.reply is not None:
            started = time.perf_counter()
            try:
                weight = self._weight(found.reply, asked) / math.sqrt(1 + staleness)
                raw = self._raw.check(found.reply.raw)
                norm, factor = self._add(found.reply, asked, weight)
            except PayloadError as error:
                item = replace(item, verdict="rejected", reject_reason=f"{type(error).__name__}: {error}")
            else:
                self._raw.add(raw, weight=weight)
                if self._meter is not None:
                    self._meter.add(found.reply.exact, weight=weight, seed=asked.request.encode_seed)
                self._applied.append(asked)
                known = self._state.ledger[asked.client.name]
                known.replied += 1
                known.examples = found.reply.num_examples
                item = replace(item, weight=weight, norm=norm, clip_factor=factor)
            item = replace(item, decode_seconds=time.perf_counter() - started)
        self.note(item)
        return item

    def note(self, item: ClientOutcome) -> None:
        """Add an entry to the round's outcome; say so when a client was not used."""
        if item.reject_reason is not None:
            what = f"{item.client.name} {item.verdict}: {item.reject_reason}"
            log.warning("round %d: %s", self._outcome.round_index, what)
        (self._outcome.late if item.verdict == "late" else self._outcome.outcomes).append(item)

    def finish(self) -> None:
        """Put the mean into the outcome, or the reason why there is none."""
        outcome, wanted = self._outcome, self._plan.config.min_replies
        outcome.raw = self._state.raw
        if self._outliers is not None:
            outcome.outliers = {item.name: item for item in self._outliers.report()}
        if self.accepted < wanted:
            outcome.note = f"{self.accepted} usable replies, min-replies is {wanted}: the model is kept"
        else:
            try:
                outcome.mean, outcome.raw = self._estimator.result(), self._raw.result()
            except (EmptyMean, PayloadError) as error:
                outcome.note = f"{type(error).__name__}: {error}; the model is kept"
        if outcome.mean is None:
            log.warning("round %d: %s", outcome.round_index, outcome.note)
            outcome.reject_applied("the round had no mean")
            return
        if self._meter is not None:
            outcome.nmse = self._meter.nmse(outcome.mean.mean)
        for asked in self._applied:
            self._state.ledger[asked.client.name].last_applied_round = asked.request.round_index
        self._state.remember_norms(self._norms)

    def _weight(self, reply: TrainReply, asked: Assignment) -> float:
        examples = check_weight(reply.num_examples)
        return aggregation_weight(self._plan.config.weights, examples=examples, vnmse=reply.vnmse, chance=asked.chance)

    def _add(self, reply: TrainReply, asked: Assignment, weight: float) -> tuple[float | None, float | None]:
        """Add the payload; return the update's norm and what it was scaled with, when it was looked at."""
        seed = asked.request.encode_seed
        if not self._plan.decodes_each_update:
            self._estimator.add(reply.payload, weight=weight, seed=seed)
            return None, None
        vector = fedcomp.decode(reply.payload, seed=seed, expected_dim=self._plan.layout.dim)
        size = len(reply.payload)
        self._estimator.add_vector(vector, weight=weight, payload_bytes=size, max_norm=self._limit)
        if self._outliers is not None:
            expected = fedcomp.compressor(asked.request.compressor).expected_vnmse(self._plan.layout.dim)
            self._outliers.add(asked.client.name, vector, weight, expected_vnmse=expected or 0.0)
        norm = l2_norm(vector)
        self._norms.append(norm)
        return norm, self._limit / norm if self._limit is not None and norm > self._limit else 1.0


class Read:
    """A reply as far as it could be read: its outcome and, when it answers the request, the reply."""

    def __init__(self, outcome: ClientOutcome, reply: TrainReply | None = None) -> None:
        self.outcome = outcome
        self.reply = reply


def read_reply(
    message: Message | Failure, asked: Assignment, state: RunState, seals: ServerSeals | None = None
) -> Read:
    """Check that a message is the reply to a request, and learn which model its client holds now."""
    item, known = asked.outcome, state.ledger[asked.client.name]
    failure = failure_of(message)
    if failure is not None or isinstance(message, Failure):
        return _failed(item, known, str(failure))
    total_bytes = 0
    try:
        content, exact, total_bytes = _opened(message, asked, seals)
        told = ClientFailure.find(content)
        if told is not None:
            return _failed(replace(item, envelope_bytes=total_bytes), known, f"client error: {told.reason}")
        reply = TrainReply.from_record(content)
    except PayloadError as error:
        known.held_version = None
        reason = f"{type(error).__name__}: {error}"
        total_bytes = total_bytes or message_bytes(message)
        return Read(replace(item, envelope_bytes=total_bytes, verdict="rejected", reject_reason=reason))
    void = state.is_void(asked.request.round_index)
    if not void:  # what a client kept of a void round it will remove
        known.held_version = None if reply.holds_version < 0 else reply.holds_version
    size = len(reply.payload)
    # What is kept for the records must not hold on to a payload, or memory would grow with the cohort.
    kept = replace(reply, payload=b"", raw={})
    item = replace(item, reply=kept, payload_bytes=size, envelope_bytes=total_bytes - size)
    request = asked.request
    if (reply.client, reply.round_index) != (request.client, request.round_index):
        reason = f"reply is of {reply.client}, round {reply.round_index}, not {request.client}, {request.round_index}"
        return Read(replace(item, verdict="rejected", reject_reason=reason))
    if void:
        return Read(replace(item, verdict="rejected", reject_reason="the round that asked was rolled back"))
    return Read(item, replace(reply, exact=exact))


def _failed(item: ClientOutcome, known: ClientRecord, reason: str) -> Read:
    if ASK_FOR_WHOLE in reason:
        known.held_version = None  # next time it gets a whole model
    return Read(replace(item, verdict="rejected", reject_reason=reason))


def _opened(message: Message, asked: Assignment, seals: ServerSeals | None) -> tuple[RecordDict, bytes, int]:
    """Return a reply's content, opened; the update as it is, taken out of it; the bytes that travelled without that."""
    sealed = message.content
    content = sealed if seals is None else seals.open_reply(sealed, asked.request, asked.request_id)
    exact = b""
    if asked.request.wants_exact:
        exact = take_exact(content)
        take_exact(sealed)
    return content, exact, message_bytes(message)


def _norm_limit(plan: RunPlan, state: RunState) -> float | None:
    """Return the norm beyond which an update is scaled down; None for none."""
    limits = [plan.config.clip_norm] if plan.config.clip_norm else []
    if plan.config.clip_factor and state.norms:
        usual = statistics.median(state.norms)
        # Where all updates so far were zero there is nothing to compare with.
        limits += [plan.config.clip_factor * usual] if usual > 0 else []
    return min(limits, default=None)
