from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.shakespeare_characters import BEGIN, CHARACTERS, END, PAD, TOKENS, UNKNOWN, to_text, to_tokens

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too


def test_the_table_is_that_of_the_baseline() -> None:
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 86
    assert (PAD, UNKNOWN, BEGIN, END, TOKENS) == (0, 87, 88, 89, 90)
    assert CHARACTERS.startswith("dhlptx@DHLPTX $(,048")
    assert CHARACTERS.endswith("]!%)-159\r")


@pytest.mark.parametrize(
    ("character", "token"),
    [("d", 1), ("h", 2), (" ", 14), ("#", 35), ("'", 36), ("\n", 63), ("a", 64), ("Y", 77), ("]", 78), ("\r", 86)]
    + [(character, 87) for character in "+=<>{}|`~^\\\tß€\x00\x7f\x80\U0001f3ad\udc80"],
)
def test_tokens_of_single_characters(character: str, token: int) -> None:
    assert to_tokens(character).tolist() == [token]


@given(ANY_TEXT)
def test_any_text_has_a_token_a_character(text: str) -> None:
    tokens = to_tokens(text)
    assert tokens.dtype == np.uint8
    assert tokens.tolist() == [CHARACTERS.index(c) + 1 if c in CHARACTERS else UNKNOWN for c in text]
    assert to_text(tokens) == "".join(c if c in CHARACTERS else "\ufffd" for c in text)


def test_marks_are_not_shown() -> None:
    assert to_text(np.array([BEGIN, *to_tokens("Hark!"), UNKNOWN, END, PAD])) == "Hark!\ufffd"
