"""Keeps generated examples on disk, so that a client makes them once."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images of shape (n, height, width) and labels of shape (n,)."""

_log = logging.getLogger(__name__)
_DIGEST_SIZE = 32


def load_or_make(path: Path, make: Callable[[], Labelled]) -> Labelled:
    """Return what ``path`` holds; if it is absent or damaged, call ``make`` and write the result there.

    A file begins with a digest of what follows, two arrays in numpy's own format; one damaged byte is noticed.
    Several processes may ask for the same path at once: each gets whole arrays, and the file is replaced in one step.
    A disk that cannot be written costs time, not the run: a warning is logged.
    """
    found = _read(path)
    if found is not None:
        return found
    made = make()
    try:
        _write(path, made)
    except OSError as error:
        _log.warning("cannot keep generated examples in %s (%s): they are made again next time", path, error)
    return made


def _read(path: Path) -> Labelled | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("cannot read %s (%s): making its examples again", path, error)
        return None
    digest, body = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    if digest != _digest(body):
        _log.warning("%s is damaged: making its examples again", path)
        return None
    stream = io.BytesIO(body)
    return np.load(stream, allow_pickle=False), np.load(stream, allow_pickle=False)


def _write(path: Path, arrays: Labelled) -> None:
    stream = io.BytesIO()
    for array in arrays:
        np.save(stream, array, allow_pickle=False)
    body = stream.getvalue()
    descriptor, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_digest(body) + body)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_SIZE).digest()
