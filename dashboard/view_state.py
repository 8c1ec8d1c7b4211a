"""What the Compare page shows, as it stands in the URL."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from dashboard.schemas import ShownStatus
from dashboard.schemas_compare import Cost, RunFilter, Value, XAxis, YAxis

MOST_RUNS = 200  # that are drawn at once


def _blank_is_none(value: object) -> object:
    # A browser sends the empty fields of a form too.
    return None if value == "" else value


Text = Annotated[Annotated[str, Field(max_length=200)] | None, BeforeValidator(_blank_is_none)]
Number = Annotated[FiniteFloat | None, BeforeValidator(_blank_is_none)]
_Date = Annotated[date, Field(ge=date(1970, 1, 1), le=date(9000, 1, 1))]
Day = Annotated[_Date | None, BeforeValidator(_blank_is_none)]


class Filters(BaseModel):
    """Which runs; blanks do not limit them. Days are in UTC and both included."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task: Annotated[str, Field(max_length=200)] | None = None
    compressor: Text = None
    name: Text = None
    tag: Text = None
    status: Annotated[ShownStatus | None, BeforeValidator(_blank_is_none)] = None
    min_bits: Number = None
    max_bits: Number = None
    since: Day = None
    until: Day = None
    archived: bool = False

    def run_filter(self) -> RunFilter:
        """Return what the database is asked for."""
        return RunFilter(
            task=self.task or None,
            compressor=self.compressor,
            name_prefix=self.name,
            tag=self.tag,
            status=self.status,
            min_bits=self.min_bits,
            max_bits=self.max_bits,
            archived=self.archived,
            created_after=None if self.since is None else datetime.combine(self.since, time(), UTC),
            created_before=None
            if self.until is None
            else datetime.combine(self.until + timedelta(days=1), time(), UTC),
        )


class ViewState(Filters):
    """The filters, the runs picked among them, and how they are drawn.

    Attributes
    ----------
    run
        Ids of the picked runs; none picked means all that fit, the newest 200 at most.
    group
        Config key, or ``compressor``, ``name`` and the like: runs with the same value are one group.
    lines
        Whether a line is a group's mean or one run.
    smooth
        Percent of the value before that stays in each smoothed one; 0 for none.
    target
        Accuracy whose price is asked for; by default 95 % of the best one reached.
    """

    run: Annotated[tuple[Annotated[str, Field(max_length=100)], ...], Field(max_length=MOST_RUNS)] = ()
    group: Annotated[str, Field(max_length=200)] = "compressor"
    lines: Literal["mean", "runs"] = "mean"
    x: XAxis = "total_mb"
    y: YAxis = "accuracy"
    smooth: Annotated[int, Field(ge=0, le=99)] = 0
    logx: bool = False
    logy: bool = False
    cost: Cost = "bits"
    value: Value = "best"
    costaxis: Literal["log", "linear"] = "log"
    target: Number = None
