"""LAMB on the mean update: Adam's direction, its length set tensor by tensor by the length of the weights.

You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedcomp.optim.layers import Layers, norm, trust_ratio


class Lamb:
    """LAMB with the mean update Δ as the negative gradient.

    For a tensor w at step t since the start or the last reset::

        m ← β₁·m + (1−β₁)·Δ,  v ← β₂·v + (1−β₂)·Δ²
        r = (m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + τ)
        u = r − λ·w,  w ← w + rate · ‖w‖/‖u‖ · u

    The ratio is 1 where a norm is zero; for tensors with fewer than two dimensions it is 1 too and λ is 0, unless
    ``adapt_vectors``. The paper's φ is the identity here, as in its experiments. So a rate of 0.01 moves every matrix
    by one percent of its length.

    Parameters
    ----------
    shapes
        The tensors of the vector in order, as ``VectorSpec.shapes``.
    learning_rate
        For steps that name none.
    beta_1, beta_2, tau
        Decay of the moments, and what is added to the root (ε in the paper). The defaults are the paper's; a
        mean update comes once a round, so that the second moment of a short run wants a smaller β₂.
    weight_decay
        λ; the paper has 0.01.
    adapt_vectors
        Whether biases and other 1-d tensors are treated as the matrices are.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        *,
        learning_rate: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        tau: float = 1e-6,
        weight_decay: float = 0.0,
        adapt_vectors: bool = False,
    ) -> None:
        self._layers = Layers.of(shapes, adapt_vectors=adapt_vectors)
        self._rate, self._weight_decay = learning_rate, weight_decay
        self._beta_1, self._beta_2, self._tau = beta_1, beta_2, tau
        self._m, self._v, self._steps = torch.empty(0), torch.empty(0), 0

    def step(
        self, model: Tensor, mean_update: Tensor, *, weight: float, round_index: int, learning_rate: float | None = None
    ) -> Tensor:
        """Return the next model vector; ``model`` is unchanged.

        Parameters
        ----------
        model, mean_update
            float32 vectors of shape (dim,).
        weight, round_index
            As the other server optimizers have them; neither changes the step.
        learning_rate
            Of this step; the one configured by default.

        Raises
        ------
        VectorSpecError
            When a vector has another dim than the shapes.
        """
        rate = self._rate if learning_rate is None else learning_rate
        layers = self._layers
        weights, updates = layers.split(model), layers.split(mean_update)
        if self._steps == 0:
            self._m, self._v = torch.zeros_like(model), torch.zeros_like(model)
        moments = zip(layers.split(self._m), layers.split(self._v), strict=True)
        self._steps += 1
        steps: list[Tensor] = []
        for w, delta, (m, v), adapted in zip(weights, updates, moments, layers.adapted, strict=True):
            m.mul_(self._beta_1).add_(delta, alpha=1 - self._beta_1)
            v.mul_(self._beta_2).addcmul_(delta, delta, value=1 - self._beta_2)
            u = self._direction(m, v)
            ratio = 1.0
            if adapted:
                u = u - self._weight_decay * w
                ratio = trust_ratio(norm(w), norm(u))
            steps.append((w + rate * ratio * u.double()).float())
        return torch.cat(steps) if steps else model.clone()

    def state(self) -> dict[str, Tensor]:
        """Return copies of the moments and the number of steps, by name; empty before the first step."""
        if self._steps == 0:
            return {}
        return {"m_t": self._m.clone(), "v_t": self._v.clone(), "steps": torch.tensor(self._steps)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Become what ``state`` was called on."""
        self.reset()
        if state:
            self._m, self._v, self._steps = state["m_t"].clone(), state["v_t"].clone(), int(state["steps"])

    def reset(self) -> None:
        """Forget the moments, as before the first step."""
        self._m, self._v, self._steps = torch.empty(0), torch.empty(0), 0

    def _direction(self, m: Tensor, v: Tensor) -> Tensor:
        first, second = 1 - self._beta_1**self._steps, 1 - self._beta_2**self._steps
        return (m / first) / (v.sqrt() / math.sqrt(second) + self._tau)
