from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fedcomp.site.errors import NotWritten
from fedcomp.site.files import is_private, private_folder, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(private_folder(tmp_path / "a" / "b") / "key", b"secret")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "key") == 0o600
    assert is_private(tmp_path / "a" / "b" / "key")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["key"]


def test_a_folder_that_is_there_is_tightened_and_a_link_refused(tmp_path: Path) -> None:
    (tmp_path / "wide").mkdir(mode=0o755)
    assert mode(private_folder(tmp_path / "wide")) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "wide")
    with pytest.raises(NotWritten, match="is a link; choose another"):
        private_folder(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(NotWritten, match="is no folder"):
        private_folder(tmp_path / "file")
    with pytest.raises(NotWritten, match="cannot be made"):
        private_folder(tmp_path / "file" / "below")


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_private(file, b"old")
    with pytest.raises(NotWritten, match="is there already and was left as it is"):
        write_private(file, b"new")
    assert file.read_bytes() == b"old"
    file.chmod(0o644)
    write_private(file, b"new", replace=True)
    assert (file.read_bytes(), mode(file)) == (b"new", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_a_link_is_never_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_bytes(b"victim")
    link = tmp_path / "key"
    link.symlink_to(tmp_path / target)
    with pytest.raises(NotWritten, match="is there already"):
        write_private(link, b"secret")
    write_private(link, b"secret", replace=True)
    assert not link.is_symlink()
    assert (tmp_path / "victim").read_bytes() == b"victim"
    assert not (tmp_path / "nowhere").exists()


def test_a_disk_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritten, match="cannot be written: No space left"):
        write_private(tmp_path / "key", b"secret")
    assert not list(tmp_path.iterdir())
