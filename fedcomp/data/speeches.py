"""Speeches as JSON lines: one object a line with ``play``, ``speaker`` and ``text``."""

from __future__ import annotations

import json
from pathlib import Path

from fedcomp.data.dataset import Dataset
from fedcomp.data.errors import MalformedData
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import dataset_of_roles, speeches_by_owner
from fedcomp.data.text_files import lines_of

_ENDINGS = (".jsonl", ".jsonl.gz")
_KEYS = ("play", "speaker", "text")


def speech_files(path: Path) -> list[Path]:
    """Return the files of speeches in a folder, sorted, or the file itself if it is one; judged by names."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if file.name.endswith(_ENDINGS) and not file.name.startswith(".")]


def read_speeches(path: Path, _: Path) -> Dataset:
    """Read all speeches of a file or folder; an owner is a role, ``play/speaker``, with its speeches in their order.

    Keys other than ``play``, ``speaker`` and ``text`` are ignored, empty lines too.

    Raises
    ------
    MalformedData
        When a line is no such object, or no file has any; names file and line.
    TruncatedData, DamagedData
        When a gzipped file cannot be unpacked.
    """
    roles = speeches_by_owner(
        _speech(line, f"{file}, line {number}")
        for file in speech_files(path)
        for number, line in enumerate(lines_of(file), start=1)
        if line.strip()
    )
    if not roles:
        raise MalformedData(f"{path} holds no speeches; expected JSON objects with {', '.join(_KEYS)}, one a line")
    return dataset_of_roles(roles, source="speeches", what="Shakespeare, speeches as JSON lines, roles as owners")


def _speech(line: str, where: str) -> tuple[str, str]:
    """Return the speech's role and text."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedData(f"{where} is not JSON ({error}); expected an object with {', '.join(_KEYS)}") from error
    values = [found.get(key) for key in _KEYS] if isinstance(found, dict) else []
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(_KEYS):
        raise MalformedData(f"{where}: {line[:80]!r}; expected an object with {', '.join(_KEYS)}, all of them text")
    play, speaker, text = texts
    return f"{play}/{speaker}", text


READER = Reader(
    expects="one *.jsonl or *.jsonl.gz with a speech a line, {play, speaker, text}",
    found_in=lambda path: bool(speech_files(path)),
    read=read_speeches,
)
