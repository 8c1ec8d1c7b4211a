"""Checks files against a ``SHA256SUMS`` that lies beside them, as the command sha256sum writes it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fedcomp.data.errors import DamagedData, MalformedData, MissingData

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


def check_listed_files(path: Path) -> int:
    """Check a file, or all files of a folder, that ``SHA256SUMS`` lists; without that file nothing is checked.

    Returns how many files were checked.

    Raises
    ------
    MissingData
        When a listed file is not there, and a whole folder was asked for.
    DamagedData
        When a checksum differs.
    MalformedData
        When a line is not a checksum and a name.
    """
    folder = path if path.is_dir() else path.parent
    sums = folder / SUMS
    if not sums.is_file():
        return 0
    checked = 0
    for number, line in enumerate(sums.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise MalformedData(f"{sums}, line {number}: {line[:80]!r}; expected 64 hexadecimal digits and a file name")
        expected, name = parts.group(1).lower(), parts.group(2)
        listed = folder / name
        if listed != path and folder != path:
            continue
        if not listed.is_file():
            raise MissingData(f"{listed} is not there, but {sums} lists it; get it again or remove the line")
        with listed.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise DamagedData(f"{listed} has SHA-256 {found}, expected {expected} ({sums}); get the file again")
        checked += 1
    return checked
