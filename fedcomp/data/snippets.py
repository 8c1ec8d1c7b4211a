"""Snippets of text as training examples: windows of 80 tokens, and the token that follows each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.shakespeare_characters import BEGIN, END, PAD, to_tokens

LENGTH = 80
"""Tokens of an example."""


class Windows(NamedTuple):
    """Tokens and what follows each of them, both uint8 of shape (n, 80)."""

    inputs: NDArray[np.uint8]
    targets: NDArray[np.uint8]


def cut(snippets: Iterable[str]) -> Windows:
    """Cut each snippet into windows.

    A snippet becomes begin, characters, end, filled up with padding to a multiple of 81 tokens; each 81 are one window:
    the first 80 its inputs, the last 80 its targets. Characters outside the vocabulary are the token for unknown ones.
    A target is padding where nothing follows; a window may have such targets only. Source: Reddi et al., Adaptive
    Federated Optimization, ICLR 2021, appendix C, and the data code of that paper.
    """
    rows = [_rows(snippet) for snippet in snippets]
    tokens = np.concatenate(rows) if rows else np.empty((0, LENGTH + 1), dtype=np.uint8)
    return Windows(np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:]))


def _rows(snippet: str) -> NDArray[np.uint8]:
    characters = to_tokens(snippet)
    count = -(-(len(characters) + 2) // (LENGTH + 1))
    flat = np.full(count * (LENGTH + 1), PAD, dtype=np.uint8)
    flat[0] = BEGIN
    flat[1 : len(characters) + 1] = characters
    flat[len(characters) + 1] = END
    return flat.reshape(count, LENGTH + 1)
