"""Writing files that hold secrets: owner only, never through a link, never over what is there unless asked."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fedcomp.site.errors import NotWritten

PRIVATE, FOLDER = 0o600, 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, parents included, and return it; one that is there is tightened.

    Raises
    ------
    NotWritten
        When the path is a link or no folder, or cannot be made.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise NotWritten(f"{path} is {'a link' if path.is_symlink() else 'no folder'}; choose another folder")
    try:
        path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        path.chmod(FOLDER)
    except OSError as error:
        raise NotWritten(f"folder {path} cannot be made: {error.strerror}; choose another folder") from error
    return path


def write_private(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file that only its owner may read.

    The file appears whole or not at all. With ``replace`` it takes the place of what has its name, also of a link,
    whose target stays as it is.

    Raises
    ------
    NotWritten
        When something of that name is there and ``replace`` is not set, or the disk cannot be written.
    """
    if not replace and (path.exists() or path.is_symlink()):
        raise NotWritten(f"{path} is there already and was left as it is; move it away, or use --force to replace it")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            # A link to the draft, unlike a rename, fails when the name was taken meanwhile.
            os.link(draft, path, follow_symlinks=False)
            draft.unlink()
    except FileExistsError as error:
        draft.unlink(missing_ok=True)
        raise NotWritten(f"{path} is there already and was left as it is; use --force to replace it") from error
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise NotWritten(f"{path} cannot be written: {error.strerror}; make room or choose another folder") from error


def is_private(path: Path) -> bool:
    """Return whether nobody but the owner may read or write the file."""
    return path.stat().st_mode & 0o077 == 0
