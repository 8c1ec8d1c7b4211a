"""Which clients others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from dashboard.schemas_compare import ClientSummary

_FACTOR = 2.0
_FEWEST = 3


def slow_clients(clients: Sequence[ClientSummary]) -> frozenset[str]:
    """Return the names of clients that train more than twice as long as the median one; none of fewer than three.

    A client's longest round does not count: the first one loads and compiles what the others find ready.
    """
    usual = {client.client: seconds for client in clients if (seconds := _usual_seconds(client)) is not None}
    if len(usual) < _FEWEST:
        return frozenset()
    limit = _FACTOR * median(usual.values())
    return frozenset(name for name, seconds in usual.items() if seconds > limit)


def _usual_seconds(client: ClientSummary) -> float | None:
    mean, longest, rounds = client.mean_train_seconds, client.max_train_seconds, client.applied
    if mean is None or longest is None or rounds < 1:
        return None
    return mean if rounds == 1 else max(0.0, (mean * rounds - longest) / (rounds - 1))
