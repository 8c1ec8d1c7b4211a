"""Asymmetric numeral systems: indices of known frequencies at the length of their entropy, by the library constriction.

Duda, "Asymmetric numeral systems", arXiv 1311.2540. The coder is a stack, so what is decoded first is encoded last.
Frequencies are integers; their conversion to the coder's fixed point is exact to the bit on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import constriction
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Indices = NDArray[np.int32]
WORD_BYTES = 4


def encode(parts: Sequence[tuple[NDArray[np.integer], tuple[int, ...]]]) -> bytes:
    """Map parts, each (indices, frequencies of index 0, 1, …), to bytes, a multiple of four."""
    coder = constriction.stream.stack.AnsCoder()
    for indices, frequencies in reversed(parts):
        coder.encode_reverse(np.ascontiguousarray(indices, dtype=np.int32), _model(frequencies))
    words: Words = coder.get_compressed()
    return words.astype("<u4").tobytes()


class Decoder:
    """Takes indices from what ``encode`` returned, in the order of the parts.

    Raises
    ------
    ValueError
        When the bytes are no whole words, or their last word is none that an encoder ends with.
    """

    def __init__(self, data: memoryview | bytes) -> None:
        words = np.frombuffer(data, dtype="<u4").astype(np.uint32)
        self._coder = constriction.stream.stack.AnsCoder(words)

    def take(self, count: int, frequencies: tuple[int, ...]) -> Indices:
        """Return the next ``count`` indices; any bytes decode to some."""
        taken: Indices = self._coder.decode(_model(frequencies), count)
        return taken

    @property
    def is_empty(self) -> bool:
        """Whether exactly all that was encoded has been taken."""
        return bool(self._coder.is_empty())


def _model(frequencies: tuple[int, ...]) -> constriction.stream.model.Categorical:
    return constriction.stream.model.Categorical(np.array(frequencies, dtype=np.float64), perfect=False)
