"""What the benchmarks print and write: a bar while they measure, then a table, JSON or CSV."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from fedcomp.commands.program import program

if TYPE_CHECKING:
    from dashboard.benchmark import Timing
    from fedcomp.bench.dme import DmeResult
    from fedcomp.bench.sealing import SealingResult
    from fedcomp.bench.speed import SpeedResult

    Result = TypeVar("Result", DmeResult, SealingResult, SpeedResult, Timing)


def collect(measured: Iterable[Result], total: int) -> list[Result]:
    """Return all results; a terminal shows meanwhile how many are done."""
    progress = Console(stderr=True)
    return list(track(measured, "measuring", total=total, console=progress, disable=not progress.is_interactive))


def write_csv(path: Path, results: Sequence[Result]) -> None:
    """Write one line a result under the names of its fields."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(results[0])])
        writer.writeheader()
        writer.writerows(asdict(item) for item in results)


def print_json(results: Sequence[Result]) -> None:
    """Print a list of objects with the names of the results' fields."""
    typer.echo(json.dumps([asdict(item) for item in results], indent=1))


def print_repeat() -> None:
    """Print the command line that measures the same again."""
    typer.echo(f"repeat with: {program()} {shlex.join(sys.argv[1:])}")
