"""What a run's writer tells a dashboard over HTTP, and what that does to the dashboard's own store.

A writer sends every event of a run in order, and sends again what it got no answer for. So each event may come twice,
and whatever follows it then comes again too; in the end the store is as if each had come once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from dashboard.schemas import ClientResult, Count, FinalStatus, RoundResult, RunStart, UtcTime
from dashboard.store import RunNotFound, RunStore
from fedcomp.errors import FedcompError

PATH = "/api/v1/ingest"
MOST_EVENTS = 1000
_RunId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class RunConflict(FedcompError):
    """Another run has this id already; the message names it."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    run_id: _RunId


class CreateRun(_Event):
    """A run was created."""

    kind: Literal["create-run"] = "create-run"
    start: RunStart


class StartRun(_Event):
    """A run began or goes on."""

    kind: Literal["start-run"] = "start-run"
    at: UtcTime
    flower_run_id: str | None = None
    num_rounds: Count | None = None
    config: Mapping[str, JsonValue] | None = None


class RecordRound(_Event):
    """A round ended; it replaces an earlier one of that index."""

    kind: Literal["record-round"] = "record-round"
    result: RoundResult
    clients: tuple[ClientResult, ...]


class DeleteRounds(_Event):
    """The rounds above an index will be run again."""

    kind: Literal["delete-rounds"] = "delete-rounds"
    after: int


class SetCheckpoint(_Event):
    """Where the latest checkpoint lies, on the server's own disk."""

    kind: Literal["set-checkpoint"] = "set-checkpoint"
    path: str


class SetStopReason(_Event):
    """Why the run ends before its last round."""

    kind: Literal["set-stop-reason"] = "set-stop-reason"
    reason: str


class Beat(_Event):
    """The writer is alive."""

    kind: Literal["beat"] = "beat"


class FinishRun(_Event):
    """The run ended."""

    kind: Literal["finish-run"] = "finish-run"
    status: FinalStatus
    error: str | None = None
    at: UtcTime


Event = Annotated[
    CreateRun | StartRun | RecordRound | DeleteRounds | SetCheckpoint | SetStopReason | Beat | FinishRun,
    Field(discriminator="kind"),
]


class IngestBatch(BaseModel):
    """Events in the order in which they happened."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    events: Annotated[tuple[Event, ...], Field(max_length=MOST_EVENTS)]


class Refusal(BaseModel):
    """An event that changed nothing: its place in the batch, from 0 on, and why; sending it again will not help."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: int
    reason: str


class IngestReply(BaseModel):
    """What became of a batch, all of which is done with; and which of its runs somebody asked to end."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    applied: int
    refused: tuple[Refusal, ...] = ()
    stop_requested: tuple[str, ...] = ()


def apply(store: RunStore, batch: IngestBatch) -> IngestReply:
    """Apply events in order, each in a transaction of its own; one that is refused does not hold up the others.

    What the database itself raises goes through: the batch is then to be sent again, whole.
    """
    refused = []
    for index, event in enumerate(batch.events):
        try:
            _apply(store, event)
        except FedcompError as error:
            refused.append(Refusal(index=index, reason=f"{type(error).__name__}: {error}"))
    return IngestReply(
        applied=len(batch.events) - len(refused),
        refused=tuple(refused),
        stop_requested=tuple(
            run_id for run_id in sorted({e.run_id for e in batch.events}) if _is_to_stop(store, run_id)
        ),
    )


def _apply(store: RunStore, event: Event) -> None:
    match event:
        case CreateRun():
            _create(store, event)
        case StartRun():
            store.start_run(
                event.run_id,
                flower_run_id=event.flower_run_id,
                num_rounds=event.num_rounds,
                config=event.config,
                at=event.at,
            )
        case RecordRound():
            store.record_round(event.run_id, event.result, event.clients)
        case DeleteRounds():
            store.delete_rounds_after(event.run_id, event.after)
        case SetCheckpoint():
            store.set_checkpoint(event.run_id, event.path)
        case SetStopReason():
            store.set_stop_reason(event.run_id, event.reason)
        case Beat():
            store.beat(event.run_id)
        case FinishRun():
            store.finish_run(event.run_id, event.status, event.error, at=event.at)


def _create(store: RunStore, event: CreateRun) -> None:
    if store.add_run(event.run_id, event.start):
        return
    there = store.summary(event.run_id)
    # What nobody changes afterwards: people may rename a run, and a resumed one has another Flower id.
    kept, given = ((run.created_at, run.task, run.seed, run.dim) for run in (there, event.start))
    if kept != given:
        raise RunConflict(f"run {event.run_id} is another one here, of {there.created_at:%Y-%m-%d %H:%M:%S} UTC")


def _is_to_stop(store: RunStore, run_id: str) -> bool:
    try:
        return store.stop_requested(run_id)
    except RunNotFound:
        return False
