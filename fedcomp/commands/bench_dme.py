"""``fedcomp bench dme``: error against bits on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedcomp.commands.bench_output import collect, print_json, print_repeat, write_csv
from fedcomp.commands.tables import print_table

_BITS = ("0.25", "0.5", "1", "2", "3", "4")
DEFAULT_SCHEMES = (
    *(f"eden:bits={bits}" for bits in _BITS),
    *(f"eden:bits={bits},quantizer=trellis" for bits in _BITS),
    *(f"eden:bits={bits},quantizer=trellis,coding=entropy" for bits in _BITS),
    *(f"eden:bits={bits},quantizer=trellis,coding=entropy,allocation=adaptive" for bits in _BITS),
    *(f"hadamard:bits={bits}" for bits in (1, 2, 3, 4)),
    *(f"kashin:bits={bits}" for bits in (1, 2)),
    *(f"quicfl:bits={bits}" for bits in (1, 2, 3, 4)),
    *(f"correlated:bits={bits}" for bits in (1, 2, 3, 4)),
    *(f"qsgd:bits={bits},bucket=128" for bits in (2, 3, 4)),
    *(f"qsgd:levels={levels},bucket=128,coding=entropy" for levels in (1, 3, 7, 20)),
    "terngrad",
    "randk:fraction=0.05",
)


def dme(
    scheme: Annotated[list[str] | None, typer.Option(help="Compressor spec; may be given several times.")] = None,
    dim: Annotated[list[int] | None, typer.Option(min=1, help="Coordinates; may be given several times.")] = None,
    dist: Annotated[
        list[str] | None, typer.Option(help="normal, shifted, lognormal or sparse; several allowed.")
    ] = None,
    update: Annotated[Path | None, typer.Option(help="A safetensors file whose tensors are the vector.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="Clients whose mean is estimated.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions with new vectors and seeds.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Fixes vectors and rotations.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    csv_path: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a PNG of error against bits.")] = None,
) -> None:
    """Measure the error of each compressor against its bits on the wire."""
    from fedcomp.bench.distributions import load_update
    from fedcomp.bench.dme import sweep

    specs, dims, distributions = scheme or list(DEFAULT_SCHEMES), dim or [65536], dist or ["lognormal"]
    total = len(specs) * (1 if update else len(dims) * len(distributions))
    measured = sweep(
        specs,
        distributions=distributions,
        dims=dims,
        clients=clients,
        repeats=repeats,
        seed=seed,
        update=load_update(update) if update else None,
    )
    results = collect(measured, total)
    if csv_path:
        write_csv(csv_path, results)
    if plot:
        from fedcomp.bench.plots import plot_errors

        plot_errors(results, plot)
    if json:
        print_json(results)
        return
    table = Table()
    for column in ("scheme", "dist", "dim", "clients", "bits/coordinate", "vNMSE", "NMSE of the mean"):
        table.add_column(column, justify="left" if column in ("scheme", "dist") else "right")
    for item in results:
        cells = (f"{item.bits_per_coordinate:.4f}", f"{item.vnmse:.4g}", f"{item.nmse:.4g}")
        table.add_row(item.spec, item.distribution, f"{item.dim:,}", str(item.clients), *cells)
    print_table(table)
    print_repeat()
