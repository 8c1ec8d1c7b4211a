"""The character LSTM of TensorFlow Federated's Shakespeare baseline, and a small one for demonstrations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

TOKENS = 90
"""Rows of the embedding and width of the logits: padding, 86 characters, unknown, begin, end."""

_EMBEDDING = 8
_TRUNCATED = 0.87962566  # standard deviation of a normal distribution cut at two of its own


class OneBiasLstm(nn.LSTM):
    """``nn.LSTM`` with one bias a gate, as in the formulas and in Keras.

    torch adds two biases, which cuDNN has. Here the second is a buffer of zeros that no state dict holds: it is neither
    trained nor sent, and all kernels and their checks stay torch's own. Batches come first: (n, steps, width).
    """

    def __init__(self, input_size: int, hidden_size: int, *, num_layers: int) -> None:
        super().__init__(input_size, hidden_size, num_layers=num_layers, batch_first=True)
        for layer in range(num_layers):
            # nn.LSTM looks its tensors up by name before each pass and after each move to a device.
            name = f"bias_hh_l{layer}"
            delattr(self, name)
            self.register_buffer(name, torch.zeros(4 * hidden_size), persistent=False)


class CharacterLstm(nn.Module):
    """Embedding of width 8, LSTM layers, a dense layer: tokens (n, steps) to logits (n, steps, 90).

    With the defaults these are 820,522 parameters. Weights are drawn as Keras does: embedding uniform within ±0.05,
    kernels He normal, recurrent kernels orthogonal, the forget gate's bias 1, dense Glorot uniform. The same seed gives
    the same weights; the global random state of torch is as before. The embedding of padding is zero and stays so;
    padding only ever follows the text, so it reaches no prediction that counts. Source: McMahan et al.,
    Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, section 3; Reddi et al.,
    Adaptive Federated Optimization, ICLR 2021, appendix C.

    Parameters
    ----------
    width
        Units of each LSTM layer.
    layers
        LSTM layers.
    """

    def __init__(self, *, seed: int, width: int = 256, layers: int = 2) -> None:
        super().__init__()
        # torch's layers draw their usual weights from the global generator; these draws are undone and overwritten.
        with torch.random.fork_rng(devices=[]):
            self.embedding = nn.Embedding(TOKENS, _EMBEDDING, padding_idx=0)
            self.lstm = OneBiasLstm(_EMBEDDING, width, num_layers=layers)
            self.dense = nn.Linear(width, TOKENS)
        self._draw_weights(torch.Generator().manual_seed(seed))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token ids of shape (n, steps) to logits of shape (n, steps, 90), those of each next token."""
        logits: Tensor = self.dense(self._hidden(self.embedding(tokens)))
        return logits

    def _hidden(self, embedded: Tensor) -> Tensor:
        if embedded.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # torch's LSTM takes 16 bits only on CPUs that have instructions for them; elsewhere it raises.
            with torch.autocast("cpu", enabled=False):
                return self._hidden(embedded)
        hidden: Tensor = self.lstm(embedded)[0]
        return hidden

    @torch.no_grad()
    def _draw_weights(self, generator: torch.Generator) -> None:
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05, generator=generator)
        self.embedding.weight[0] = 0
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight_ih"):
                spread = math.sqrt(2 / parameter.shape[1]) / _TRUNCATED
                nn.init.trunc_normal_(parameter, std=spread, a=-2 * spread, b=2 * spread, generator=generator)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)
                parameter[self.lstm.hidden_size : 2 * self.lstm.hidden_size] = 1  # gates: input, forget, cell, output
        nn.init.xavier_uniform_(self.dense.weight, generator=generator)
        nn.init.zeros_(self.dense.bias)
