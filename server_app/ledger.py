"""What the server remembers of each client, by name, over rounds and restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class ClientRecord:
    """One client's history.

    Attributes
    ----------
    held_version
        The model version it last said it keeps; None when unknown.
    last_applied_round
        The last round whose payload of this client became part of the model; 0 for none.
    asked, replied
        How often it was asked to train, and how often a usable reply came in time.
    examples
        Its weight in its last usable reply; None before one.
    """

    held_version: int | None = None
    last_applied_round: int = 0
    asked: int = 0
    replied: int = 0
    examples: float | None = None


class Ledger:
    """The records of all clients that were ever seen, made on first use."""

    def __init__(self) -> None:
        self._records: dict[str, ClientRecord] = {}

    def __getitem__(self, name: str) -> ClientRecord:
        return self._records.setdefault(name, ClientRecord())

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def state(self) -> dict[str, Any]:
        """Return all records as JSON values."""
        return {name: asdict(record) for name, record in self._records.items()}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace all records by those of ``state``."""
        self._records = {name: ClientRecord(**values) for name, values in state.items()}
