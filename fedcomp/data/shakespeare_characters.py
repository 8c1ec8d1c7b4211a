"""The 90 tokens of TensorFlow Federated's Shakespeare task: 86 characters and four marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHARACTERS = (
    "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r"  # order of the baseline
)
"""Token ``k + 1`` is ``CHARACTERS[k]``."""

PAD, UNKNOWN, BEGIN, END = 0, 87, 88, 89
"""Padding, a character that is none of the 86, the begin and the end of a snippet."""

TOKENS = 90

_SHOWN = ("", *CHARACTERS, "\N{REPLACEMENT CHARACTER}", "", "")
_ASCII = 128
_TOKEN_OF = np.full(_ASCII + 1, UNKNOWN, dtype=np.uint8)
_TOKEN_OF[[ord(character) for character in CHARACTERS]] = np.arange(1, len(CHARACTERS) + 1)


def to_tokens(text: str) -> NDArray[np.uint8]:
    """Map a text to one token a character, uint8 of shape (len(text),); any Unicode text, lone surrogates included."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    tokens: NDArray[np.uint8] = _TOKEN_OF[np.minimum(codes, _ASCII)]
    return tokens


def to_text(tokens: NDArray[np.integer]) -> str:
    """Map tokens to text for reading: an unknown character is ``�``; padding, begin and end are left out.

    Examples
    --------
    >>> to_text(to_tokens("Who's there?"))
    "Who's there?"
    """
    return "".join(_SHOWN[token] for token in tokens.tolist())
