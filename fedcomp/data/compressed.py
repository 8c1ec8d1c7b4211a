"""Opens files that may be compressed, and says plainly what is wrong with a file that cannot be read to its end."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from fedcomp.data.errors import DamagedData, MissingData, TruncatedData

_GZIP = b"\x1f\x8b"
_XZ = b"\xfd7zXZ\x00"
_LZMA = b"\x5d\x00\x00"


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a plain, gzip or xz file by its first bytes; what goes wrong within the block names the file.

    A gzip or xz file carries a checksum, which is compared where its end is reached.

    Raises
    ------
    MissingData
        When there is no such file.
    TruncatedData
        When a compressed file ends too early.
    DamagedData
        When its content was changed.
    """
    if not path.is_file():
        raise MissingData(f"{path} is not there; get it where the others of its folder came from")
    with path.open("rb") as file:
        first = file.read(len(_XZ))
    try:
        if first.startswith(_GZIP):
            with gzip.open(path) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif first.startswith((_XZ, _LZMA)):
            with lzma.open(path) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            with path.open("rb") as file:
                yield file
    except EOFError as error:
        raise TruncatedData(
            f"{path} ends too early ({path.stat().st_size} bytes are there, its compressed data go on); get it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DamagedData(f"{path} is damaged ({error}): its checksum or code is wrong; get it again") from error
