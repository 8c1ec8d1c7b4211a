"""Ready-made windows, 80 characters and the one that follows, as training examples: the form of LEAF and its copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcomp.data.errors import MalformedData
from fedcomp.data.shakespeare_characters import to_tokens
from fedcomp.data.snippets import LENGTH, Windows


def window_tokens(text: object) -> bytes:
    """Return the tokens of one window's text, 80 bytes.

    Raises
    ------
    MalformedData
        When it is not a text of 80 characters.
    """
    if not isinstance(text, str) or len(text) != LENGTH:
        raise MalformedData(f"a window is {str(text)[:90]!r}; expected a text of {LENGTH} characters")
    return to_tokens(text).tobytes()


def with_following(windows: Sequence[bytes], following: Sequence[object]) -> Windows:
    """Return windows of :func:`window_tokens` and the character that follows each as inputs and targets.

    Each position's target is the next position's input, and the last one's is the following character, so that all 80
    positions are learned and tested. There are no marks of begin and end, and no padding. The windows of LEAF begin one
    character apart: within a data set each character is a target up to 80 times.

    Raises
    ------
    MalformedData
        When there are not equally many, or what follows is not one character.
    """
    if len(windows) != len(following):
        raise MalformedData(f"{len(windows)} windows and {len(following)} following characters; expected equally many")
    characters = [item for item in following if isinstance(item, str) and len(item) == 1]
    if len(characters) < len(following):
        wrong = next(item for item in following if not isinstance(item, str) or len(item) != 1)
        raise MalformedData(f"what follows a window is {str(wrong)[:90]!r}; expected one character")
    inputs = np.frombuffer(b"".join(windows), dtype=np.uint8).reshape(-1, LENGTH)
    last = to_tokens("".join(characters))
    return Windows(inputs, np.concatenate([inputs[:, 1:], last[:, None]], axis=1))
