from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from client_app import state as state_module
from client_app.state import ClientState, ClientStateError
from fedcomp.errors import FedcompError
from tests.support.client_states import filled, opened, rounds, same


def damage(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        content = bytearray(path.read_bytes())
        place = content.index(b"3") if path.suffix == ".json" else len(content) - 1
        content[place] ^= 1
        path.write_bytes(content)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "one bit"])
def test_a_damaged_state_gives_way_to_an_older_one(name: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = opened()
    store.save(filled(2))
    damage(store.save(filled(3)) / name, how)
    with caplog.at_level(logging.WARNING):
        assert same(store.before(4), filled(2))
    assert "round-00003 cannot be read, an older one is used" in caplog.text
    assert rounds(store) == ["round-00002"]


@pytest.mark.parametrize("text", ["[]", "5", '"text"', "null", "{}", "[[1, 2]]"])
def test_json_of_another_kind_is_damage(text: str) -> None:
    store = opened()
    (store.save(filled(3)) / "state.json").write_text(text)
    assert store.before(4) == ClientState()


def test_a_state_under_another_rounds_name_is_damage() -> None:
    store = opened()
    store.save(filled(3)).rename(store.folder / "round-00004")
    assert store.before(5) == ClientState()


def test_every_field_is_covered_by_the_checksum() -> None:
    store = opened()
    for name, value in (("version", 1), ("seed", "5")):
        path = store.save(filled(3)) / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
        assert store.before(4) == ClientState()


class Killed(BaseException):
    """Stands for kill -9: no handler of the product runs."""


STEPS: list[tuple[Any, str]] = [
    (tempfile, "mkdtemp"),
    (state_module, "_write"),
    (os, "fsync"),
    (Path, "rename"),
    (shutil, "rmtree"),
    (os, "utime"),
]


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the ``step``-th call of what touches the disk before it does anything."""
    count = 0

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                raise Killed
            return call(*args, **kwargs)

        return wrapped

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, wrap(getattr(owner, name)))


@pytest.mark.parametrize("again", [False, True])
def test_killed_at_any_moment(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    new = ClientState(3, torch.ones(7))
    outcomes = []
    for step in range(1, 100):
        store = opened()
        shutil.rmtree(store.folder, ignore_errors=True)
        store.save(filled(2))
        if again:
            store.save(filled(3))
        finished = False
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            try:
                store.save(new)
                finished = True
            except Killed:
                pass
        found = opened().before(4)
        assert all(name.startswith("round-") for name in rounds(store))
        outcomes.append(next(index for index, state in enumerate((filled(2), filled(3), new)) if same(found, state)))
        if finished:
            break
    # The old state, then for a moment the one before it (a round written twice), then the new one.
    assert outcomes == sorted(outcomes, key=[1, 0, 2].index)
    assert outcomes[0] == (1 if again else 0)
    assert len(outcomes) == (11 if again else 10)
    assert outcomes[-3:] == [2, 2, 2]


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_killed_in_the_middle_of_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    store.save(filled(2))
    write = state_module._write

    def half(path: Path, data: bytes) -> None:
        write(path, data[: len(data) // 2] if path.name == name else data)
        if path.name == name:
            raise Killed

    monkeypatch.setattr(state_module, "_write", half)
    with pytest.raises(Killed):
        store.save(filled(3))
    (draft,) = store.folder.glob(".draft*")
    assert draft.is_dir()
    assert same(opened().before(4), filled(2))
    assert rounds(store) == ["round-00002"]


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """Make the system refuse to write files of more than ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_says_what_to_do_and_keeps_what_is_there() -> None:
    store = opened()
    store.save(filled(2))
    store.save(filled(3))
    with (
        pytest.raises(
            ClientStateError, match=r"round-00003 could not be written: .*File too large; make room, or set FED"
        ),
        small_disk(1000),
    ):
        store.save(filled(3, dim=10_000))
    assert issubclass(ClientStateError, FedcompError)
    assert rounds(store) == ["round-00002", "round-00003"]
    assert same(store.before(4), filled(3))


def test_a_folder_that_cannot_be_made_is_told(fedcomp_home: Path) -> None:
    store = opened()
    (fedcomp_home / "clients").write_text("a file in the way")
    with pytest.raises(ClientStateError, match="could not be written"):
        store.save(filled(1))


def test_a_state_that_cannot_be_removed_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    for index in (1, 2, 3):
        store.save(filled(index))

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    for use in (lambda: store.before(3), lambda: store.before(4, void=[(2, 2)]), lambda: store.prune(3)):
        with pytest.raises(ClientStateError, match=r"could not be removed: .*Permission denied.*; remove it by hand"):
            use()
