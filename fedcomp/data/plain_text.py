"""A play as plain text: a line with the speaker's name and a colon, the speech, an empty line."""

from __future__ import annotations

from pathlib import Path

from fedcomp.data.dataset import Dataset
from fedcomp.data.errors import MalformedData
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import dataset_of_roles, speeches_by_owner
from fedcomp.data.speeches import speech_files
from fedcomp.data.text_files import lines_of

_ENDINGS = (".txt", ".txt.gz")
_LONGEST_NAME = 60


def text_files(path: Path) -> list[Path]:
    """Return the text files of a folder, sorted, or the file itself if it is one; judged by names."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if file.name.endswith(_ENDINGS) and not file.name.startswith(".")]


def read_plain_text(path: Path, _: Path) -> Dataset:
    """Read a text in the layout of "tiny Shakespeare"; owners are speakers, in whatever play they speak.

    A paragraph whose first line is at most 60 characters and a colon begins a speech; one without such a line goes on
    with the speech before. What comes before the first speaker is left out.

    Raises
    ------
    MalformedData
        When there is no speaker in it, or it is not UTF-8.
    """
    roles = speeches_by_owner(speech for file in text_files(path) for speech in _speeches(file))
    if not roles:
        raise MalformedData(
            f"{path} has no speaker; expected paragraphs that begin with a line like 'ROMEO:', with empty lines between"
        )
    return dataset_of_roles(roles, source="text", what="plain text of plays, speakers as owners")


def _speeches(path: Path) -> list[tuple[str, str]]:
    speeches: list[tuple[str, list[str]]] = []
    begins = True  # whether this line begins a paragraph
    for line in lines_of(path):
        name = line.strip().removesuffix(":")
        if begins and line.rstrip().endswith(":") and 0 < len(name) <= _LONGEST_NAME:
            speeches.append((name, []))
        elif line.strip() and speeches:
            speeches[-1][1].append(line)
        begins = not line.strip()
    return [(speaker, "\n".join(lines)) for speaker, lines in speeches if lines]


def _found_in(path: Path) -> bool:
    # Speeches beside a text say more: they know the plays.
    return bool(text_files(path)) and not (path.is_dir() and speech_files(path))


READER = Reader(
    expects="one *.txt of plays, paragraphs 'NAME:' and the speech below",
    found_in=_found_in,
    read=read_plain_text,
)
