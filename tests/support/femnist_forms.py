"""Writes a few characters in each form in which FEMNIST and EMNIST are published."""

from __future__ import annotations

import gzip
import importlib
import json
import lzma
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Characters = dict[str, tuple[NDArray[np.uint8], NDArray[np.uint8]]]
"""Images (n, 28, 28), ink 255 on 0, and labels (n,) by writer."""


def characters(sizes: Mapping[str, int], *, seed: int = 1) -> Characters:
    """Return random images that are mostly background."""
    rng = np.random.default_rng(seed)
    found = {}
    for writer, n in sizes.items():
        ink = rng.integers(1, 256, (n, 28, 28)) * (rng.random((n, 28, 28)) < 0.2)
        found[writer] = ink.astype(np.uint8), rng.integers(0, 62, n).astype(np.uint8)
    return found


def light(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return ink on 0 as FEMNIST has it: strokes 0 on background 1."""
    return (255 - images.astype(np.float64)) / 255


def write_leaf(path: Path, made: Characters) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(made),
        "num_samples": [len(labels) for _, labels in made.values()],
        "user_data": {
            writer: {"x": light(images).reshape(-1, 784).tolist(), "y": labels.tolist()}
            for writer, (images, labels) in made.items()
        },
    }
    path.write_text(json.dumps(content))


def write_hdf5(path: Path, made: Characters) -> None:
    with importlib.import_module("h5py").File(path, "w") as file:
        for writer, (images, labels) in made.items():
            group = file.create_group(f"examples/{writer}")
            group.create_dataset("pixels", data=light(images).astype(np.float32))
            group.create_dataset("label", data=labels.astype(np.int32))


def write_sqlite(path: Path, train: Characters, test: Characters, *, claims: int = 0) -> None:
    """Write TFF's tables, compressed when the name ends with .lzma; ``claims`` more examples than there are."""
    plain = path.with_suffix("") if path.suffix == ".lzma" else path
    with closing(sqlite3.connect(plain)) as database, database:
        database.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        database.execute("CREATE INDEX of_split ON examples (split_name, client_id)")
        database.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
        for split, made in (("train", train), ("test", test)):
            for writer, (images, labels) in made.items():
                rows = [
                    (split, writer, tf_example(pixels=image.ravel(), label=[int(label)]))
                    for image, label in zip(light(images), labels, strict=True)
                ]
                database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
                database.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (writer, split, len(rows) + claims))
    if plain != path:
        path.write_bytes(lzma.compress(plain.read_bytes()))
        plain.unlink()


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_idx(folder: Path, prefix: str, split: str, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> None:
    """Write a pair of gzipped idx files, images transposed as NIST has them."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = np.ascontiguousarray(images.swapaxes(1, 2))
    (folder / f"{prefix}-{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(stored)))
    (folder / f"{prefix}-{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))


def tf_example(**features: Any) -> bytes:
    """Serialize a tf.train.Example with protobuf: floats from arrays, integers or bytes from lists."""
    example = example_class()()
    for name, values in features.items():
        feature = example.features.feature[name]
        if isinstance(values, np.ndarray):
            feature.float_list.value.extend(values.tolist())
        elif values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    serialized: bytes = example.SerializeToString()
    return serialized


@cache
def example_class() -> Any:
    """Return protobuf's class for tf.train.Example, from its description in TensorFlow's .proto files."""
    descriptor = importlib.import_module("google.protobuf.descriptor_pb2")
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    factory = importlib.import_module("google.protobuf.message_factory")
    kinds = descriptor.FieldDescriptorProto
    file = descriptor.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, Any, bool], parent: Any = file.message_type) -> Any:
        made = parent.add(name=name)
        for field, number, kind, repeated in fields:
            added = made.field.add(name=field, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".tensorflow.{kind}"
            else:
                added.type = kind
        return made

    message("BytesList", ("value", 1, kinds.TYPE_BYTES, True))
    message("FloatList", ("value", 1, kinds.TYPE_FLOAT, True))
    message("Int64List", ("value", 1, kinds.TYPE_INT64, True))
    feature = message(
        "Feature",
        ("bytes_list", 1, "BytesList", False),
        ("float_list", 2, "FloatList", False),
        ("int64_list", 3, "Int64List", False),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message("Features", ("feature", 1, "Features.FeatureEntry", True))
    entry = message(
        "FeatureEntry",
        ("key", 1, kinds.TYPE_STRING, False),
        ("value", 2, "Feature", False),
        parent=features.nested_type,
    )
    entry.options.map_entry = True
    message("Example", ("features", 1, "Features", False))
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))
