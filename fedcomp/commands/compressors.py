"""``fedcomp compressors``: what there is to choose from."""

from __future__ import annotations

from rich.table import Table

from fedcomp.commands.tables import number, print_table
from fedcomp.compressors.catalogue import SCHEMES

EXAMPLES = (
    "identity",
    "float16",
    "bfloat16",
    *(f"eden:bits={bits}" for bits in ("0.1", "0.5", "1", "1.5", "2", "3", "4", "8")),
    "drive",
    *(f"hadamard:bits={bits}" for bits in (1, 2, 4)),
    *(f"qsgd:bits={bits}" for bits in (2, 4)),
    "terngrad",
    "sign",
    "topk:fraction=0.01",
    "randk:fraction=0.05",
)


def compressors() -> None:
    """List the compressors with their rate and expected error on a vector of a million coordinates."""
    from fedcomp.compressors.registry import compressor  # loads torch, which the other commands can do without

    summaries = {scheme.name: scheme.summary for scheme in SCHEMES}
    table = Table()
    for column in ("spec", "bits/coordinate", "unbiased", "expected vNMSE", "sends"):
        table.add_column(column)
    for spec in EXAMPLES:
        codec = compressor(spec)
        table.add_row(
            spec,
            number(codec.nominal_bits, ".4g"),
            "yes" if codec.is_unbiased else "no: use error feedback",
            number(codec.expected_vnmse(10**6), ".3g"),
            summaries[codec.spec.name],
        )
    print_table(table)
