from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedcomp.tasks import cache
from fedcomp.tasks.cache import Labelled, load_or_make


class Maker:
    """Makes the same two arrays at each call and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Labelled:
        self.calls += 1
        return np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2), np.arange(3, dtype=np.int64)


def check(found: Labelled) -> None:
    expected = Maker()()
    assert [array.dtype for array in found] == [np.uint8, np.int64]
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_makes_once(tmp_path: Path) -> None:
    make = Maker()
    for _ in range(3):
        check(load_or_make(tmp_path / "x", make))
    assert make.calls == 1
    assert [file.name for file in tmp_path.iterdir()] == ["x"]


def test_several_processes_at_once(tmp_path: Path) -> None:
    # Each removes the file now and then, so that others make and replace it while it is read.
    code = """
import sys
from pathlib import Path
import numpy as np
from fedcomp.tasks.cache import load_or_make
path = Path(sys.argv[1])
for step in range(60):
    images, labels = load_or_make(path, lambda: (np.full((2000, 28, 28), 7, np.uint8), np.full(2000, 3)))
    assert (images == 7).all() and images.shape == (2000, 28, 28) and (labels == 3).all()
    if step % 3 == 0:
        path.unlink(missing_ok=True)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "x")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=100)[1] for process in processes] == [""] * 3
    assert {file.name for file in tmp_path.iterdir()} <= {"x"}


def test_any_damaged_byte_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, make = tmp_path / "x", Maker()
    load_or_make(path, make)
    whole = path.read_bytes()
    flipped = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    damaged = [b"", whole[:10], whole[:-1], whole + b"x", bytes(len(whole)), *flipped]
    with caplog.at_level(logging.WARNING):
        for content in damaged:
            path.write_bytes(content)
            check(load_or_make(path, make))
            assert path.read_bytes() == whole
    assert make.calls == 1 + len(damaged)
    assert "is damaged" in caplog.text


def test_pickled_content_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="pickle"):
        cache._write(path, (np.array([{}], dtype=object), np.arange(1)))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_costs_only_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, make = tmp_path / "missing" / "x", Maker()
    check(load_or_make(path, make))
    check(load_or_make(path, make))
    assert make.calls == 2
    assert "cannot keep" in caplog.text
    (tmp_path / "folder").mkdir()
    check(load_or_make(tmp_path / "folder", make))
    assert "cannot read" in caplog.text
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]
