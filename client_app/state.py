"""What a client keeps between rounds: its residual, the payload it sent last, and its copy of the model.

It lies on disk by run and client name, since a SuperNode forgets its own state when it restarts. Every round has a
folder of its own: a round that the server plays again starts from the state before it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedcomp.compressors.registry import decode
from fedcomp.errors import FedcompError
from fedcomp.home import client_state_dir, clients_dir

log = logging.getLogger("fedcomp.client")

_TENSORS, _POSITION, _DRAFT = "state.safetensors", "state.json", ".draft-"
_ROUND = re.compile(r"round-(\d{5,})")
_UNTOUCHED_SECONDS = 30 * 24 * 3600

RoundRange = tuple[int, int]
"""First and last round, both included."""


class ClientStateError(FedcompError):
    """A client's state could not be written or removed; earlier states are untouched."""


@dataclass(frozen=True)
class PendingPayload:
    """The payload a client sent last, kept until it knows whether the server used it.

    Attributes
    ----------
    payload, seed
        The bytes, and what they were encoded with.
    """

    payload: bytes
    seed: int


@dataclass(frozen=True)
class ClientState:
    """What a client knew after one round.

    Attributes
    ----------
    round_index
        Which round; 0 before the first.
    residual
        What error feedback has not yet sent, given that the pending payload is used; float32 of shape (dim,).
    pending
        The payload sent in that round, where there is error feedback.
    version, model
        The client's copy of the model, float32 of shape (dim,), and its version.
    """

    round_index: int = 0
    residual: Tensor | None = None
    pending: PendingPayload | None = None
    version: int | None = None
    model: Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing worth a write."""
        return self.residual is None and self.pending is None and self.model is None


class ClientStore:
    """The states of one client in one run, a folder each.

    One process at a time may use it. Nothing is created before the first ``save``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(cls, *, run: str, client: str) -> Self:
        """Return the store of a client; leftovers of killed processes and runs untouched for 30 days are removed."""
        store = cls(client_state_dir(run, client))
        # A run is touched when it is used, so that one look at its folder tells its age.
        with contextlib.suppress(OSError):
            os.utime(store.folder.parent)
        remove_old_runs(now=time.time())
        for draft in store.folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft, ignore_errors=True)
        return store

    def before(self, round_index: int, void: Iterable[RoundRange] = ()) -> ClientState:
        """Return the newest state of an earlier round that counts, or an empty one.

        Removes the states of ``round_index`` and later, which is about to be played (again), and those of void rounds.
        A state that cannot be read is logged and removed, and the next older one is used.

        Parameters
        ----------
        round_index
            The round that begins.
        void
            Ranges of rounds whose outcome the server has given up.

        Raises
        ------
        ClientStateError
            When a state that must not be used again cannot be removed.
        """
        ranges = list(void)
        for index, path in self._rounds():
            if index >= round_index or any(first <= index <= last for first, last in ranges):
                _remove(path)
        for index, path in reversed(self._rounds()):
            try:
                return _read(path, index)
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                log.warning("client state %s cannot be read, an older one is used: %s", path, error)
                _remove(path)
        return ClientState()

    def save(self, state: ClientState) -> Path:
        """Write a state as ``round-00012`` and return its path; both files are on disk before the folder has its name.

        Guarantee: it comes back with the same bits.

        Raises
        ------
        ClientStateError
            When it cannot be written, on a full disk for instance; the states of other rounds are untouched.
        """
        target = self.folder / f"round-{state.round_index:05d}"
        draft = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.folder))
            tensors = save(_tensors(state))
            _write(draft / _TENSORS, tensors)
            _write(draft / _POSITION, json.dumps(_position(state, tensors), indent=2).encode() + b"\n")
            _sync_folder(draft)
            if target.exists():
                shutil.rmtree(target)
            draft.rename(target)
            _sync_folder(self.folder)
            os.utime(self.folder.parent)
        except OSError as error:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)
            raise ClientStateError(
                f"client state {target} could not be written: {error}; make room, or set FEDCOMP_HOME to another disk; "
                "earlier states are kept"
            ) from error
        return target

    def prune(self, replay_from: int) -> None:
        """Remove states that no replay can need: all before the newest one of round ``replay_from`` or earlier.

        Raises
        ------
        ClientStateError
            When one cannot be removed.
        """
        settled = [path for index, path in self._rounds() if index <= replay_from]
        for path in settled[:-1]:
            _remove(path)

    def _rounds(self) -> list[tuple[int, Path]]:
        """Return the finished states, oldest first."""
        matches = [(_ROUND.fullmatch(path.name), path) for path in self.folder.glob("round-*")]
        return sorted((int(match[1]), path) for match, path in matches if match)


def settle(state: ClientState, *, last_applied_round: int) -> Tensor | None:
    """Return the residual to start from, float32 of shape (dim,), now that the server has told what it used.

    When the pending payload was not used (late, rejected, more clients asked than needed) what it held is added back to
    the residual. When a later one was used, the state is older than the client itself, the newer one having been lost:
    all that this one holds was part of what the server used, so nothing is left to send.

    Parameters
    ----------
    state
        From ``ClientStore.before``.
    last_applied_round
        The last round whose payload of this client the server used; 0 for none.

    Raises
    ------
    PayloadError
        When the pending payload cannot be decoded, as after a change of release.
    """
    if state.residual is None and state.pending is None:
        return None
    if last_applied_round > state.round_index:
        log.warning(
            "the server used a payload of round %d, the state kept is of round %d: its residual is dropped",
            last_applied_round,
            state.round_index,
        )
        return None
    if state.pending is None or last_applied_round == state.round_index:
        return state.residual
    expected = None if state.residual is None else state.residual.numel()
    decoded = decode(state.pending.payload, seed=state.pending.seed, expected_dim=expected)
    return decoded if state.residual is None else state.residual + decoded


def remove_old_runs(*, now: float) -> None:
    """Remove what clients kept for runs that nobody has touched for 30 days; ``now`` in seconds since 1970.

    Cost: one look at the folder of each run. What cannot be removed is left for the next time.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(clients_dir()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False) and now - entry.stat().st_mtime > _UNTOUCHED_SECONDS:
                    log.info("client states of run %s are removed: untouched for 30 days", entry.name)
                    shutil.rmtree(entry.path)


def _tensors(state: ClientState) -> dict[str, Tensor]:
    tensors = {}
    for name, vector in (("residual", state.residual), ("model", state.model)):
        if vector is not None:
            # A copy, since safetensors refuses two tensors that share memory.
            tensors[name] = vector.detach().to("cpu", torch.float32, copy=True)
    if state.pending is not None:
        tensors["payload"] = torch.frombuffer(bytearray(state.pending.payload), dtype=torch.uint8)
    return tensors


def _position(state: ClientState, tensors: bytes) -> dict[str, Any]:
    position: dict[str, Any] = {
        "round_index": state.round_index,
        "version": state.version,
        # As text: a seed has 64 bits, and many readers of JSON keep 53.
        "seed": None if state.pending is None else str(state.pending.seed),
    }
    return {**position, "checksum": _checksum(position, tensors)}


def _checksum(position: dict[str, Any], tensors: bytes) -> int:
    return zlib.crc32(tensors, zlib.crc32(json.dumps(position, sort_keys=True).encode()))


def _read(path: Path, round_index: int) -> ClientState:
    """Read a state; raises OSError, ValueError, KeyError, TypeError or SafetensorError when it is not whole."""
    position = dict(json.loads((path / _POSITION).read_bytes()))
    data = (path / _TENSORS).read_bytes()
    if position.pop("checksum") != _checksum(position, data) or position["round_index"] != round_index:
        raise ValueError("its files were damaged, or are of another round")
    tensors = load(data)
    pending = None
    if position["seed"] is not None:
        pending = PendingPayload(tensors["payload"].numpy().tobytes(), int(position["seed"]))
    return ClientState(round_index, tensors.get("residual"), pending, position["version"], tensors.get("model"))


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise ClientStateError(
            f"client state {path} could not be removed: {error}; remove it by hand, it must not be used again"
        ) from error
