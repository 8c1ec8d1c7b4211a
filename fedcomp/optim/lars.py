"""LARS on the mean update: momentum whose steps are as long as the weights, tensor by tensor.

You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017 (arXiv 1708.03888), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedcomp.optim.layers import Layers, norm, trust_ratio


class Lars:
    """LARS with the mean update Δ as the negative gradient.

    For a tensor w with velocity p::

        local = trust · ‖w‖ / (‖Δ‖ + λ·‖w‖)
        p ← momentum·p + rate · local · (Δ − λ·w),  w ← w + p

    ``local`` is 1 where ‖w‖ or ‖Δ‖ is zero; for tensors with fewer than two dimensions it is 1 too and λ is 0, unless
    ``adapt_vectors``: they then move as under FedAvgM. The rate is inside the velocity, as in the paper: a new rate
    does not change what earlier steps left there.

    Parameters
    ----------
    shapes
        The tensors of the vector in order, as ``VectorSpec.shapes``.
    learning_rate
        For steps that name none.
    momentum
        From 0 to below 1.
    trust
        The trust coefficient (η in the paper, 0.001 there): at a rate of 1 and without momentum a matrix moves by this
        share of its length in a round.
    weight_decay
        λ (β in the paper, 0.0005 there).
    adapt_vectors
        Whether biases and other 1-d tensors are treated as the matrices are.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        *,
        learning_rate: float,
        momentum: float = 0.9,
        trust: float = 0.001,
        weight_decay: float = 0.0,
        adapt_vectors: bool = False,
    ) -> None:
        self._layers = Layers.of(shapes, adapt_vectors=adapt_vectors)
        self._rate, self._momentum = learning_rate, momentum
        self._trust, self._weight_decay = trust, weight_decay
        self._velocity: Tensor | None = None

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
        velocity = torch.zeros_like(model) if self._velocity is None else self._velocity
        for w, delta, p, adapted in zip(weights, updates, layers.split(velocity), layers.adapted, strict=True):
            pull, local = delta.double(), 1.0
            if adapted:
                pull = pull - self._weight_decay * w.double()
                local = self._local_rate(norm(w), norm(delta))
            p.copy_(self._momentum * p.double() + rate * local * pull)
        self._velocity = velocity
        return model + velocity

    def state(self) -> dict[str, Tensor]:
        """Return a copy of the velocity, by name; empty before the first step."""
        return {} if self._velocity is None else {"velocity": self._velocity.clone()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Become what ``state`` was called on."""
        self._velocity = state["velocity"].clone() if state else None

    def reset(self) -> None:
        """Forget the velocity, as before the first step."""
        self._velocity = None

    def _local_rate(self, weight_norm: float, update_norm: float) -> float:
        if weight_norm > 0 and update_norm > 0:
            return self._trust * trust_ratio(weight_norm, update_norm + self._weight_decay * weight_norm)
        return 1.0
