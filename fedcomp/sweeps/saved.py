"""Runs of a sweep in a file of their own, so that a report can show runs of several machines together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedcomp.sweeps.results import RunResult
from fedcomp.sweeps.spec import SweepError

FILE = "runs.jsonl"

_RUN = TypeAdapter(RunResult)


def save_runs(runs: Iterable[RunResult], path: Path) -> None:
    """Write runs to a file, one a line as JSON."""
    # Python's own JSON keeps NaN, of which a model that diverged has many.
    path.write_text("".join(json.dumps(asdict(run)) + "\n" for run in runs), encoding="utf-8")


def load_runs(path: Path) -> list[RunResult]:
    """Read what :func:`save_runs` wrote.

    Raises
    ------
    SweepError
        When the file cannot be read, naming the line that is wrong.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise SweepError(f"{path}: {error}; give a {FILE} that `fedcomp report` wrote") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_RUN.validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise SweepError(
                f"{path}, line {number}: {where} {first['msg']}; give a {FILE} that `fedcomp report` wrote"
            ) from error
    return found
