"""Reads data sets of Hugging Face through flwr-datasets."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from fedcomp.data.errors import MalformedData, MissingData, MissingReader

_BATCH = 1000


def hub_batches(name: str, columns: Sequence[str], *, split: str = "train", **options: Any) -> Iterator[dict[str, Any]]:
    """Yield batches of rows, each a dict from column to a list of its values; memory: one batch.

    Parameters
    ----------
    name
        The data set, such as ``"flwrlabs/femnist"``, or ``"parquet"`` with ``data_files`` among the options.
    columns
        The columns wanted.
    split
        The split wanted.
    options
        Passed on to ``datasets.load_dataset``.

    Raises
    ------
    MissingReader
        When flwr-datasets is not installed.
    MissingData
        When the data set can neither be downloaded nor found in Hugging Face's cache.
    MalformedData
        When a column is not there.
    """
    try:
        flwr_datasets = importlib.import_module("flwr_datasets")
        exceptions = importlib.import_module("datasets.exceptions")
    except ImportError as error:
        raise MissingReader(
            f"reading {name} from Hugging Face needs flwr-datasets; run: pip install 'fedcomp[data]'"
        ) from error
    try:
        rows = flwr_datasets.FederatedDataset(dataset=name, partitioners={}, shuffle=False, **options).load_split(split)
    except (OSError, exceptions.DatasetsError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MissingData(
            f"cannot get {name} from Hugging Face ({first_line}); is there a connection? "
            "With HF_HUB_OFFLINE=1 only what was downloaded before is found"
        ) from error
    absent = [column for column in columns if column not in rows.column_names]
    if absent:
        raise MalformedData(f"{name} has no column {', '.join(absent)}; it has {', '.join(rows.column_names)}")
    yield from rows.select_columns(list(columns)).iter(batch_size=_BATCH)
