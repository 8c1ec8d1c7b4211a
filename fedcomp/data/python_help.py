"""English that every Python brings along: the help texts of ``pydoc``, for runs that need no download."""

from __future__ import annotations

import hashlib
import importlib
import platform
from collections.abc import Mapping
from dataclasses import replace

from fedcomp.data.dataset import Dataset
from fedcomp.data.errors import MissingData
from fedcomp.data.shakespeare_roles import dataset_of_roles

_MODULE = "pydoc_data.topics"


def help_texts() -> Dataset:
    """Return Python's help texts in the form of the Shakespeare data; owners are its topics, about 80.

    A snippet is a paragraph. Texts and their number differ between versions of Python, so results of two versions are
    not to be compared; the label names the version.

    Raises
    ------
    MissingData
        When this Python comes without the texts, as some reduced ones do.
    """
    try:
        topics: Mapping[str, str] = importlib.import_module(_MODULE).topics
    except (ImportError, AttributeError) as error:
        raise MissingData(
            f"this Python ({platform.python_version()}) has no help texts ({_MODULE}), which data=embedded is; install "
            "Python's standard library in full, or prepare texts of your own: fedcomp data prepare shakespeare --from …"
        ) from error
    paragraphs = {topic: [part for part in text.split("\n\n") if part.strip()] for topic, text in topics.items()}
    dataset = dataset_of_roles(
        paragraphs,
        source="embedded",
        what=f"English help texts of Python {platform.python_version()} (this is not Shakespeare), topics as owners",
    )
    digest = hashlib.blake2b(digest_size=16)
    for split in (dataset.train, dataset.test):
        for array in (*split.arrays.values(), split.offsets):
            digest.update(array.tobytes())
    return replace(dataset, digest=digest.hexdigest())
