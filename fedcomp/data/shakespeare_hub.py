"""Hugging Face's copy of LEAF's Shakespeare: windows of 80 characters by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fedcomp.data.collect import Collector
from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.errors import DataError, MalformedData
from fedcomp.data.hold_out import hold_out
from fedcomp.data.hub import hub_batches
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import KIND, label_of
from fedcomp.data.shakespeare_windows import window_tokens, with_following
from fedcomp.data.snippets import LENGTH

HUB_NAME = "flwrlabs/shakespeare"


def read_hub(_: Path, scratch: Path) -> Dataset:
    """Read ``flwrlabs/shakespeare``; some of each role's windows are held out.

    Raises
    ------
    DataError
        When flwr-datasets is not installed, the data cannot be had, or are not of this form.
    """
    train, test, rule = hold_out(hub_split(HUB_NAME, scratch), scratch)
    what = f"Shakespeare, windows of {HUB_NAME} on Hugging Face, roles as owners"
    return Dataset(KIND, label_of(what, train, test, rule), "hub", train, test)


def hub_split(name: str, scratch: Path, **options: Any) -> Split:
    """Return all rows of a data set with the columns ``character_id``, ``x`` and ``y``, those of one role together.

    ``options`` are passed to :func:`fedcomp.data.hub.hub_batches`, whose errors this raises.
    """
    collector = Collector(scratch, "all", inputs_shape=(LENGTH,), targets_shape=(LENGTH,))
    try:
        for batch in hub_batches(name, ("character_id", "x", "y"), **options):
            _collect(name, batch, collector)
    except DataError:
        collector.finish()  # closes its files
        raise
    return collector.finish()


def _collect(name: str, batch: Mapping[str, Sequence[Any]], collector: Collector) -> None:
    try:
        windows = with_following([window_tokens(text) for text in batch["x"]], batch["y"])
    except MalformedData as error:
        raise MalformedData(f"{name}: {error}") from error
    start = 0
    for role, rows in groupby(batch["character_id"]):
        end = start + len(list(rows))
        collector.add(windows.inputs[start:end], windows.targets[start:end], owner=str(role))
        start = end


READER = Reader(
    expects=f"the word hub for Hugging Face's {HUB_NAME}",
    found_in=lambda _: False,
    read=read_hub,
)
