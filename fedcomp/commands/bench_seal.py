"""``fedcomp bench seal``: the time that sealing adds to encoding."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from fedcomp.commands.bench_output import collect, print_json, print_repeat
from fedcomp.commands.tables import print_table
from fedcomp.seeds import SEED_LIMIT

DEFAULT_SCHEMES = ("eden:bits=1,allocation=adaptive", "eden:bits=1", "eden:bits=2", "identity")
DEFAULT_DIMS = (1_206_590, 2**24)
_COLUMNS = ("scheme", "dim", "payload bytes", "encode ms", "seal ms", "open ms", "seal/encode")


def seal(
    scheme: Annotated[list[str] | None, typer.Option(help="Compressor spec; may be given several times.")] = None,
    dim: Annotated[list[int] | None, typer.Option(min=1, help="Coordinates; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Times each is measured; the least counts.")] = 15,
    seed: Annotated[int, typer.Option(min=0, max=SEED_LIMIT - 1, help="Fixes vector and rotations.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure how long sealing a payload takes, and what share of the time to encode it that is."""
    from fedcomp.bench.sealing import sweep

    specs, dims = scheme or list(DEFAULT_SCHEMES), dim or list(DEFAULT_DIMS)
    results = collect(sweep(specs, dims=dims, repeats=repeats, seed=seed), len(specs) * len(dims))
    if json:
        print_json(results)
        return
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "scheme" else "right")
    for item in results:
        cells = (
            f"{item.encode_ms:.2f}",
            f"{item.seal_ms:.2f}",
            f"{item.open_ms:.2f}",
            f"{100 * item.seal_share:.1f} %",
        )
        table.add_row(item.spec, f"{item.dim:,}", f"{item.payload_bytes:,}", *cells)
    print_table(table)
    typer.echo(f"X25519, HKDF-SHA256, ChaCha20-Poly1305 on one CPU thread; the least of {repeats} times")
    print_repeat()
