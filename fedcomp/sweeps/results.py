"""What the runs database holds of a sweep, run by run and arm by arm."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.schemas import RoundDetail, RunDetail
from dashboard.store import RunStore
from fedcomp.sweeps.cells import RunKey, parse_run_name
from fedcomp.sweeps.spec import Sweep, SweepError

_ALL = 1_000_000
_RATE = re.compile(r"-[0-9]+(\.[0-9]+)?$")


@dataclass(frozen=True)
class Point:
    """A run after one round.

    Attributes
    ----------
    round_index, accuracy
        The round, and the accuracy on held-out data after it; None when it was not tested.
    uplink_mb
        Payload that all clients have sent until then, in megabytes.
    nmse
        Error of the round's mean; see :func:`round_nmse`.
    """

    round_index: int
    accuracy: float | None
    uplink_mb: float
    nmse: float | None


@dataclass(frozen=True)
class RunResult:
    """One finished run of a sweep."""

    key: RunKey
    compressor: str
    data_label: str
    dim: int
    bits: float
    points: tuple[Point, ...]

    @property
    def accuracy(self) -> float:
        """Accuracy after the last round that was tested; NaN without one."""
        known = [point.accuracy for point in self.points if point.accuracy is not None]
        return known[-1] if known else math.nan

    @property
    def nmse(self) -> float:
        """Mean over the rounds; NaN where none is known."""
        known = [point.nmse for point in self.points if point.nmse is not None]
        return statistics.fmean(known) if known else math.nan


@dataclass(frozen=True)
class ArmResult:
    """One arm on one task: the runs with its seeds."""

    task: str
    arm: str
    runs: tuple[RunResult, ...]

    @property
    def family(self) -> str:
        """The arm's name without the rate at its end: arms of one family are points of one line."""
        return _RATE.sub("", self.arm)

    @property
    def accuracy(self) -> float:
        """Mean over the seeds of the final accuracy."""
        return statistics.fmean(run.accuracy for run in self.runs)

    @property
    def accuracy_deviation(self) -> float | None:
        """Standard deviation over the seeds; None with one seed."""
        return statistics.stdev(run.accuracy for run in self.runs) if len(self.runs) > 1 else None

    @property
    def bits(self) -> float:
        """Measured bits per coordinate of the uplink."""
        return statistics.fmean(run.bits for run in self.runs)

    @property
    def nmse(self) -> float:
        """Mean over seeds and rounds of the error of the mean update; NaN where it is not known."""
        return statistics.fmean(run.nmse for run in self.runs)

    @property
    def nmse_deviation(self) -> float | None:
        """Standard deviation over the seeds; None with one seed."""
        return statistics.stdev(run.nmse for run in self.runs) if len(self.runs) > 1 else None

    @property
    def uplink_mb(self) -> float:
        """Payload of a whole run, in megabytes."""
        return statistics.fmean(run.points[-1].uplink_mb for run in self.runs)

    def curve(self) -> tuple[Point, ...]:
        """Return the mean over the seeds, round by round, as far as all of them went."""
        return tuple(_mean_point(points) for points in zip(*(run.points for run in self.runs), strict=False))


@dataclass(frozen=True)
class SweepResult:
    """All that is there of a sweep.

    Attributes
    ----------
    arms
        With at least one finished run, in the order of the sweep's file or, without one, of their runs.
    unfinished
        Runs that are not completed, by name, with their status.
    """

    name: str
    arms: tuple[ArmResult, ...]
    unfinished: Mapping[str, str]

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks."""
        return list(dict.fromkeys(arm.task for arm in self.arms))

    def of_task(self, task: str) -> list[ArmResult]:
        """Return the arms of one task."""
        return [arm for arm in self.arms if arm.task == task]


def collect(store: RunStore, name: str, sweep: Sweep | None = None, *, saved: Sequence[RunResult] = ()) -> SweepResult:
    """Read a sweep from the store: of each name the newest run, and of the file's cells only, when one is given.

    Saved runs fill the places that the store has no finished run for.

    Raises
    ------
    SweepError
        When there is no finished run; names the sweeps that are there.
    """
    newest: dict[str, tuple[RunKey, str, str]] = {}
    others: set[str] = set()
    for run in store.list_runs(_ALL):
        key = parse_run_name(run.name)
        if key is not None and key.sweep == name:
            newest.setdefault(run.name, (key, run.id, run.status))
        elif key is not None:
            others.add(key.sweep)
    if sweep is not None:
        newest = {run: found for run, found in newest.items() if _belongs(found[0], sweep)}
    found = [(key, _result(key, store.find_run(run_id))) for key, run_id, status in newest.values() if _done(status)]
    there = {key for key, _ in found}
    found += [
        (run.key, run)
        for run in reversed(saved)
        if run.key.sweep == name and run.key not in there and (sweep is None or _belongs(run.key, sweep))
    ]
    if not found:
        known = ", ".join(sorted(others)) or "none"
        raise SweepError(f"sweep {name!r} has no finished run; sweeps with runs here: {known}; see `fedcomp sweep`")
    there = {key for key, _ in found}
    unfinished = {name: status for name, (key, _, status) in newest.items() if key not in there}
    order = _order(sweep, [key for key, _ in reversed(found)])
    groups: dict[tuple[str, str], list[RunResult]] = {place: [] for place in order}
    for key, result in sorted(found, key=lambda item: item[0].seed):
        groups[key.task, key.arm].append(result)
    arms = tuple(ArmResult(task, arm, tuple(runs)) for (task, arm), runs in groups.items() if runs)
    return SweepResult(name, arms, unfinished)


def round_nmse(item: RoundDetail) -> float | None:
    """Return the error of a round's mean, ‖mean x̂ − mean x‖² / mean ‖x‖²: as the server measured it, else estimated."""
    return item.nmse if item.nmse is not None else nmse_from_clients(item)


def nmse_from_clients(item: RoundDetail) -> float | None:
    """Return the error of a round's mean as it follows from those that its clients measured; None where one did not.

    Exact for updates of like length with independent, unbiased errors: Σ w²·vNMSE / (Σ w)².
    """
    used = [client for client in item.client_results if client.outcome == "applied" and client.weight]
    parts = [(client.weight, client.vnmse) for client in used if client.weight and client.vnmse is not None]
    total = sum(weight for weight, _ in parts)
    if not parts or len(parts) < len(used):
        return None
    return sum(weight**2 * error for weight, error in parts) / total**2


def _done(status: str) -> bool:
    return status == "completed"


def _belongs(key: RunKey, sweep: Sweep) -> bool:
    clients = {task.name: task.clients for task in sweep.tasks}
    arms = {arm.name for arm in sweep.arms}
    return clients.get(key.task) == key.clients and key.arm in arms and key.seed in sweep.seeds


def _order(sweep: Sweep | None, keys: Sequence[RunKey]) -> list[tuple[str, str]]:
    if sweep is not None:
        return [(task.name, arm.name) for task in sweep.tasks for arm in sweep.arms]
    return list(dict.fromkeys((key.task, key.arm) for key in keys))


def _result(key: RunKey, run: RunDetail) -> RunResult:
    points, sent = [], 0
    for item in run.rounds:
        sent += item.uplink_payload_bytes
        points.append(Point(item.round_index, item.accuracy, sent / 1e6, round_nmse(item)))
    bits = math.nan if run.mean_bits_per_coordinate is None else run.mean_bits_per_coordinate
    return RunResult(key, run.compressor, run.data_label, run.dim, bits, tuple(points))


def _mean_point(points: Sequence[Point]) -> Point:
    known = [point.accuracy for point in points if point.accuracy is not None]
    errors = [point.nmse for point in points if point.nmse is not None]
    return Point(
        points[0].round_index,
        statistics.fmean(known) if known else None,
        statistics.fmean(point.uplink_mb for point in points),
        statistics.fmean(errors) if errors else None,
    )
