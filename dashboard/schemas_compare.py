"""What the pages that compare runs ask for and get back; all frozen, all valid JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from dashboard.schemas import RunSummary, ShownStatus, UtcTime

XAxis = Literal["round", "uplink_mb", "total_mb", "seconds"]
YAxis = Literal["accuracy", "loss", "train_loss", "vnmse", "nmse", "bits", "downlink_bits"]
Cost = Literal["bits", "uplink_mb", "total_mb"]
Value = Literal["final", "best"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class RunFilter(_Frozen):
    """Which runs; what is None (or, for `archived`, both kinds) does not limit them.

    Attributes
    ----------
    task, tag
        Exactly this.
    compressor
        A part of the spec string, in any case.
    min_bits, max_bits
        Limits, included, of the measured mean bits per coordinate; runs that sent nothing yet are left out.
    status
        As shown: ``running`` leaves orphaned runs out.
    name_prefix
        How the name begins.
    archived
        False: only those that are not; True: only those that are; None: both.
    created_after, created_before
        Limits of the time of creation; the first is included, the second is not.
    """

    task: str | None = None
    compressor: str | None = None
    min_bits: float | None = None
    max_bits: float | None = None
    tag: str | None = None
    status: ShownStatus | None = None
    name_prefix: str | None = None
    archived: bool | None = False
    created_after: UtcTime | None = None
    created_before: UtcTime | None = None


class RunPage(_Frozen):
    """Some runs, the newest first; `next_cursor` asks for those after them and is None at the end."""

    runs: tuple[RunSummary, ...]
    next_cursor: str | None
    total: int


class Choices(_Frozen):
    """What filters can be set to: what occurs among all runs, each sorted."""

    tasks: tuple[str, ...]
    compressors: tuple[str, ...]
    tags: tuple[str, ...]
    config_keys: tuple[str, ...]


class Curve(_Frozen):
    """One run's measurements in order of rounds; rounds without the measurement are left out, NaN is kept.

    `round_indices`, `xs` and `ys` are equally long. MB are 10^6 bytes of payloads, seconds are wall time of rounds,
    both summed from the run's beginning.
    """

    run_id: str
    name: str
    compressor: str
    round_indices: tuple[int, ...]
    xs: tuple[float, ...]
    ys: tuple[float, ...]


class GroupCurve(_Frozen):
    """Mean and sample standard deviation over the curves of a group, where at least one curve has a value.

    `std` is None where only one curve counts. Between a curve's points the value is interpolated linearly.
    """

    label: str
    run_ids: tuple[str, ...]
    xs: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float | None, ...]
    count: tuple[int, ...]


class ParetoPoint(_Frozen):
    """The runs of one group: means and sample standard deviations (None with one run) of cost and accuracy.

    `on_frontier`: no other group costs at most as much and is at least as accurate, and better in one of the two.
    """

    label: str
    run_ids: tuple[str, ...]
    cost: float
    cost_std: float | None
    value: float
    value_std: float | None
    on_frontier: bool


class ConfigDifference(_Frozen):
    """A setting in which runs differ; a run that lacks it is not in `values`."""

    key: str
    values: Mapping[str, JsonValue]


class ClientSummary(_Frozen):
    """One client over the rounds of some runs; rates and times are means over accepted updates, None without any."""

    client: str
    runs: int
    rounds: int
    applied: int
    rejected: int
    late: int
    payload_bytes: int
    mean_bits_per_coordinate: float | None
    mean_bits_asked: float | None
    mean_train_seconds: float | None
    max_train_seconds: float | None
    mean_encode_seconds: float | None
    mean_uplink_mbps: float | None
    devices: tuple[str, ...]
    reject_reasons: Mapping[str, int]
