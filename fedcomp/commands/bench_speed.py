"""``fedcomp bench speed``: the time of encoding and decoding against a copy of the vector."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedcomp.commands.bench_output import collect, print_json, print_repeat, write_csv
from fedcomp.commands.tables import print_table
from fedcomp.compressors.catalogue import available_compressors
from fedcomp.seeds import SEED_LIMIT

DEFAULT_DIM = 2**22
LARGE_DIM = 2**24
"""Where ``eden`` alone is measured by default: the vector is then longer than any cache."""

SECONDS = 3.0
"""For the repeats of one line of the table; one repeat is always made."""

EDEN = ("eden:bits=1", "eden:bits=2", "eden:bits=4")
_COLUMNS = (
    "scheme",
    "dim",
    "encode ms",
    "decode ms",
    "encode/copy",
    "decode/copy",
    "add/copy",
    "encode memory",
    "× textbook",
    "bits/coordinate",
)


def default_schemes() -> list[str]:
    """Return eden at three rates and every other scheme as its name alone gives it."""
    return [*EDEN, *(name for name in available_compressors() if name != "eden")]


def speed(
    scheme: Annotated[list[str] | None, typer.Option(help="Compressor spec; may be given several times.")] = None,
    dim: Annotated[list[int] | None, typer.Option(min=1, help="Coordinates; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Times each is measured; the median counts.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of torch; by default torch decides.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU when there is one), cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=SEED_LIMIT - 1, help="Fixes vector and rotations.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    csv_path: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file.")] = None,
) -> None:
    """Measure how long each compressor encodes and decodes, in ms and in copies of the vector's memory."""
    from fedcomp.bench.speed import choose_device, cpu_threads, sweep

    parts = [(scheme or default_schemes(), dim or [DEFAULT_DIM])]
    if scheme is None and dim is None:
        parts.append((list(EDEN), [LARGE_DIM]))
    place = choose_device(device)
    with cpu_threads(threads):
        measured = chain.from_iterable(
            sweep(specs, dims=dims, repeats=repeats, seed=seed, device=place, seconds=SECONDS) for specs, dims in parts
        )
        results = collect(measured, sum((1 + len(specs)) * len(dims) for specs, dims in parts))
    if csv_path:
        write_csv(csv_path, results)
    if json:
        print_json(results)
        return
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "scheme" else "right")
    for item in results:
        copies = (item.encode_per_copy, item.decode_per_copy, item.add_per_copy)
        figures = (item.encode_ms, item.decode_ms, *copies, item.encode_memory, item.times_textbook)
        cells = ("–" if value is None else _three_digits(value) for value in figures)
        table.add_row(item.spec, f"{item.dim:,}", *cells, f"{item.bits_per_coordinate:.4f}")
    print_table(table)
    first = results[0]
    typer.echo(
        f"device: {first.device}; CPU threads: {first.threads}; torch {first.torch_version}; "
        f"medians of up to {repeats} in {SECONDS:g} s; a copy is one of the vector's memory, timed in between"
    )
    typer.echo(
        "add: a payload added to a MeanEstimator; encode memory: its peak beside the vector, in vectors; "
        "× textbook: encoding and decoding, how many times faster"
    )
    print_repeat()


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
