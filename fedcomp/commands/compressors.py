"""``fedcomp compressors``: what there is to choose from."""

from __future__ import annotations

from rich.table import Table

from fedcomp.commands.tables import number, print_table
from fedcomp.compressors.catalogue import SCHEMES

COLUMNS = ("spec", "bits/\ncoordinate", "vNMSE", "unbiased", "entropy-\ncoded", "needs error\nfeedback", "sends")


def compressors() -> None:
    """List the compressors with their rate and their error on a million normal coordinates."""
    table = Table()
    for column in COLUMNS:
        table.add_column(column)
    for scheme in SCHEMES:
        for example in scheme.examples:
            table.add_row(
                example.spec,
                number(example.nominal_bits, ".4g"),
                number(example.vnmse, ".3g"),
                "yes" if scheme.unbiased else "no",
                "yes" if example.entropy_coded else "no",
                "no" if scheme.unbiased else "yes",
                scheme.summary,
            )
    print_table(table)
