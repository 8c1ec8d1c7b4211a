"""The EMNIST CNN of TensorFlow Federated (``create_conv_dropout_model``)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.nn import functional


class EmnistCnn(nn.Module):
    """Two convolutions and two dense layers for 28×28 images of 62 classes: 1,206,590 parameters.

    Weights are Glorot normal, biases zero. The same seed gives the same weights; the global random state of torch is
    as before. Source: Reddi et al., Adaptive Federated Optimization, ICLR 2021, appendix C.
    """

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        with undrawn():
            self.conv1 = nn.Conv2d(1, 32, kernel_size=3)
            self.conv2 = nn.Conv2d(32, 64, kernel_size=3)
            self.dense1 = nn.Linear(9216, 128)
            self.dense2 = nn.Linear(128, 62)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        glorot(self, nn.init.xavier_normal_, seed=seed)

    def forward(self, images: Tensor) -> Tensor:
        """Map images of shape (n, 1, 28, 28) to logits of shape (n, 62)."""
        hidden = functional.relu(self.conv1(images))
        hidden = functional.relu(self.conv2(hidden))
        hidden = self.dropout1(functional.max_pool2d(hidden, 2))
        hidden = functional.relu(self.dense1(hidden.flatten(start_dim=1)))
        logits: Tensor = self.dense2(self.dropout2(hidden))
        return logits


def undrawn() -> AbstractContextManager[None]:
    """Undo what torch's layers draw from the global generator for the weights that they begin with."""
    return torch.random.fork_rng(devices=[])


def glorot(model: nn.Module, draw: Callable[..., Tensor], *, seed: int) -> None:
    """Set biases to zero and draw all other parameters in their order, with one of torch's Xavier functions."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.zeros_(parameter)
        else:
            draw(parameter, generator=generator)
