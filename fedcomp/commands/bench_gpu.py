"""``fedcomp bench gpu``: EDEN's kernels on a GPU against a copy in its memory."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from fedcomp.commands.bench_output import print_repeat
from fedcomp.commands.tables import print_table

RATES = (1, 2, 4)
_COLUMNS = ("operation", "bits", "ms", "GB/s", "share of a copy's")


def gpu(
    dim: Annotated[int, typer.Option(min=1, help="Coordinates, in whole blocks of 16384.")] = 2**28,
    repeats: Annotated[int, typer.Option(min=1, help="Times each is measured; the median counts.")] = 20,
) -> None:
    """Measure the memory bandwidth that encoding, decoding and accumulating reach on a CUDA device."""
    from fedcomp.bench.gpu_bandwidth import BLOCK, require_cuda, sweep
    from fedcomp.kernels import gpu as kernels
    from fedcomp.transforms.hadamard import rotation_signs

    device = require_cuda()
    signs = rotation_signs(1, BLOCK, rounds=2, device=device)
    results = list(sweep(kernels, signs, bits=RATES, dim=dim, repeats=repeats, device=device))
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "operation" else "right")
    for item in results:
        cells = (f"{item.ms:.3f}", f"{item.gigabytes_per_s:,.0f}", f"{100 * item.share_of_copy:.0f} %")
        table.add_row(item.operation, str(item.bits), *cells)
    print_table(table)
    typer.echo(f"device: {results[0].device}; {results[0].dim:,} coordinates; medians of {repeats}")
    print_repeat()
