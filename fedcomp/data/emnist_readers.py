"""The forms in which EMNIST and FEMNIST are published."""

from __future__ import annotations

from fedcomp.data import emnist_idx, femnist, leaf
from fedcomp.data.reader import Reader

READERS = {
    "idx": Reader(emnist_idx.EXPECTS, emnist_idx.is_idx, emnist_idx.read_emnist_idx),
    "leaf": Reader(leaf.EXPECTS, lambda path: leaf.find_leaf_files(path) is not None, femnist.read_leaf),
    "tff-hdf5": Reader(
        "TensorFlow Federated's earlier fed_emnist_train.h5 and fed_emnist_test.h5", femnist.is_hdf5, femnist.read_hdf5
    ),
    "tff-sqlite": Reader(
        "TensorFlow Federated's emnist_all.sqlite.lzma, which tff.simulation.datasets.emnist.load_data downloads",
        femnist.is_sqlite,
        femnist.read_sqlite,
    ),
    "hub": Reader(f"the word hub for Hugging Face's {femnist.HUB_NAME}", lambda _: False, femnist.read_hub),
}
"""Readers by the form's name."""
