"""What a reader is: one published form of a data set, how to recognise it and how to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedcomp.data.dataset import Dataset


@dataclass(frozen=True)
class Reader:
    """One form in which a data set is published.

    Attributes
    ----------
    expects
        What lies in a folder of this form, and where to get it; for the message when nothing is recognised.
    found_in
        Maps a folder or file to whether it is of this form, by names alone.
    read
        Maps a folder or file, and an empty folder for intermediate files, to the data set. Its arrays may lie in the
        second folder, so that memory never holds all of them.
    """

    expects: str
    found_in: Callable[[Path], bool]
    read: Callable[[Path, Path], Dataset]
