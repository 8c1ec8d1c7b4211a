"""The divergence guard: tells when a round went so wrong that the model should go back to the last good one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

REMEMBERED = 20
LEAST_KNOWN = 3
NO_BETTER = 0.99


class Guard:
    """Compares a round's loss with the untrained model's, and its update's norm with those of the last good rounds.

    Parameters
    ----------
    loss_factor
        A loss above this many times the untrained model's is divergence; 0 = off.
    norm_factor
        An update longer than this many times the median of the last 20 good rounds is divergence, once 3 are known;
        0 = off.
    """

    def __init__(self, loss_factor: float = 2.0, norm_factor: float = 20.0) -> None:
        self._loss_factor = loss_factor
        self._norm_factor = norm_factor
        self._initial_loss: float | None = None
        self._norms: list[float] = []

    def set_initial_loss(self, loss: float) -> None:
        """Take the untrained model's loss; one that is not a positive number is nothing to compare with."""
        self._initial_loss = float(loss) if math.isfinite(loss) and loss > 0 else None

    def check(self, loss: float | None, update_norm: float | None) -> str | None:
        """Return why the round must be taken back, or None; only then it is remembered as good.

        Parameters
        ----------
        loss
            On held-out data, after the round; None when it was not evaluated.
        update_norm
            L2 norm of the mean update; None when there was none. NaN and infinity are always divergence.
        """
        reason = self._loss_reason(loss) or self._norm_reason(update_norm)
        if reason is None and update_norm is not None:
            self._norms = [*self._norms, float(update_norm)][-REMEMBERED:]
        return reason

    def has_not_learned(self, loss: float | None) -> str | None:
        """Say so when a model's loss is no better than the untrained model's; going back would not help it."""
        initial = self._initial_loss
        if initial is None or loss is None or not loss > NO_BETTER * initial:
            return None
        return f"the model is no better than untrained (loss {loss:.4g}, untrained {initial:.4g})"

    def state(self) -> dict[str, Any]:
        """Return what has been seen, ready for JSON."""
        return {"initial_loss": self._initial_loss, "norms": list(self._norms)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` returned."""
        initial = state["initial_loss"]
        self._initial_loss = None if initial is None else float(initial)
        self._norms = [float(norm) for norm in state["norms"]]

    def _loss_reason(self, loss: float | None) -> str | None:
        if loss is None:
            return None
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if self._loss_factor > 0 and self._initial_loss is not None and loss > self._loss_factor * self._initial_loss:
            return f"the loss is {loss:.6g}, above {self._loss_factor:g} times the untrained {self._initial_loss:.6g}"
        return None

    def _norm_reason(self, norm: float | None) -> str | None:
        if norm is None:
            return None
        if not math.isfinite(norm):
            return f"the update's norm is {norm}"
        if self._norm_factor <= 0 or len(self._norms) < LEAST_KNOWN:
            return None
        usual = median(self._norms)
        # Rounds that changed nothing say nothing of how long an update may be.
        if usual > 0 and norm > self._norm_factor * usual:
            return f"the update's norm is {norm:.6g}, above {self._norm_factor:g} times the usual {usual:.6g}"
        return None
