"""A transformer of 30 million parameters to measure training with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCABULARY = 9216
LENGTH = 64
_WIDTH = 512


class BenchTransformer(nn.Module):
    """Eight encoder layers of width 512 that predict the next token: 29,970,432 parameters.

    The same seed gives the same weights; the global random state of torch is as before.
    """

    def __init__(self, *, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(VOCABULARY, _WIDTH)
            self.places = nn.Embedding(LENGTH, _WIDTH)
            layer = nn.TransformerEncoderLayer(_WIDTH, 8, 2048, dropout=0.1, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
            self.head = nn.Linear(_WIDTH, VOCABULARY, bias=False)
            self.head.weight = self.tokens.weight
        self.mask: Tensor
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens of shape (n, 64) to logits of shape (n, 64, 9216)."""
        places = torch.arange(LENGTH, device=tokens.device)
        hidden = self.encoder(self.tokens(tokens) + self.places(places), mask=self.mask)
        logits: Tensor = self.head(hidden)
        return logits
