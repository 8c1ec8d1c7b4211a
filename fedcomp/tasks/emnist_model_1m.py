"""The EMNIST CNN of one million parameters (``create_1m_cnn_model``)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from fedcomp.tasks.emnist_model import glorot, undrawn


class EmnistCnn1M(nn.Module):
    """As :class:`EmnistCnn`, but pooled after the first convolution: 1,018,174 parameters, a third of the work.

    Weights are Glorot uniform, biases zero. The same seed gives the same weights; the global random state of torch is
    as before. Source: google-research/federated, utils/models/emnist_models.py.
    """

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        with undrawn():
            self.conv1 = nn.Conv2d(1, 32, kernel_size=3)
            self.conv2 = nn.Conv2d(32, 64, kernel_size=3)
            self.dense1 = nn.Linear(7744, 128)
            self.dense2 = nn.Linear(128, 62)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        glorot(self, nn.init.xavier_uniform_, seed=seed)

    def forward(self, images: Tensor) -> Tensor:
        """Map images of shape (n, 1, 28, 28) to logits of shape (n, 62)."""
        hidden = functional.max_pool2d(functional.relu(self.conv1(images)), 2)
        hidden = self.dropout1(functional.relu(self.conv2(hidden)))
        hidden = functional.relu(self.dense1(hidden.flatten(start_dim=1)))
        logits: Tensor = self.dense2(self.dropout2(hidden))
        return logits
