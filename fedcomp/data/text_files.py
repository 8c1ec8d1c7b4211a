"""Lines of a text file that may be compressed, with errors that name the file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from fedcomp.data.compressed import reading
from fedcomp.data.errors import MalformedData


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text without their ends.

    Raises
    ------
    MissingData, TruncatedData, DamagedData
        When the file is absent, ends too early or has a wrong checksum.
    MalformedData
        When the text is not UTF-8.
    """
    with reading(path) as binary, io.TextIOWrapper(binary, encoding="utf-8") as text:
        try:
            for line in text:
                yield line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise MalformedData(f"{path} is not UTF-8 text (it has a byte {byte:#04x} where none may be)") from error
