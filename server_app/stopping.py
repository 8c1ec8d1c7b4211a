"""When a run is done before its last round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BYTES_PER_MB = 1e6


class Stopper:
    """Stops at a target accuracy, after a number of uplink bytes, or when the loss no longer falls.

    Parameters
    ----------
    target_accuracy
        Stop once the test accuracy is this high; 0 = off.
    max_uplink_mb
        Stop once the clients have sent this many megabytes (10^6 bytes) in all; 0 = off.
    patience
        Stop after this many evaluated rounds in a row without a lower loss; 0 = off.
    min_improvement
        A loss is lower when it is lower than the lowest so far by more than this.
    """

    def __init__(
        self,
        target_accuracy: float = 0.0,
        max_uplink_mb: float = 0.0,
        patience: int = 0,
        min_improvement: float = 0.0,
    ) -> None:
        self._target_accuracy = target_accuracy
        self._max_uplink_mb = max_uplink_mb
        self._patience = patience
        self._min_improvement = min_improvement
        self._lowest_loss: float | None = None
        self._without = 0

    def update(self, accuracy: float | None, loss: float | None, total_uplink_bytes: int) -> str | None:
        """Take one round's results; return why the run should end, or None.

        Parameters
        ----------
        accuracy, loss
            On held-out data; None when the round was not evaluated, which neither feeds nor tries the patience. A NaN
            is no improvement.
        total_uplink_bytes
            Sent by all clients since the run began.
        """
        self._watch(loss)
        if self._target_accuracy > 0 and accuracy is not None and accuracy >= self._target_accuracy:
            return f"accuracy {accuracy:.4f} has reached the target of {self._target_accuracy:g}"
        if self._max_uplink_mb > 0 and total_uplink_bytes >= self._max_uplink_mb * BYTES_PER_MB:
            sent = total_uplink_bytes / BYTES_PER_MB
            return f"{sent:.3f} MB of uplink have reached the limit of {self._max_uplink_mb:g} MB"
        if 0 < self._patience <= self._without:
            lowest = "none was finite" if self._lowest_loss is None else f"the lowest is {self._lowest_loss:.6g}"
            return f"the loss has not fallen for {self._without} rounds ({lowest})"
        return None

    def state(self) -> dict[str, Any]:
        """Return what has been seen, ready for JSON."""
        return {"lowest_loss": self._lowest_loss, "rounds_without": self._without}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` returned."""
        lowest = state["lowest_loss"]
        self._lowest_loss = None if lowest is None else float(lowest)
        self._without = int(state["rounds_without"])

    def _watch(self, loss: float | None) -> None:
        if loss is None:
            return
        lower = self._lowest_loss is None or loss < self._lowest_loss - self._min_improvement
        if math.isfinite(loss) and lower:
            self._lowest_loss, self._without = loss, 0
        else:
            self._without += 1
