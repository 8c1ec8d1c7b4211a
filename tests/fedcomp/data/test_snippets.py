from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.shakespeare_characters import BEGIN, END, PAD, to_tokens
from fedcomp.data.snippets import LENGTH, cut


def test_a_short_snippet_is_one_window() -> None:
    inputs, targets = cut(["Hark!"])
    tokens = [BEGIN, *to_tokens("Hark!"), END]
    assert inputs.tolist() == [tokens + [PAD] * 73]
    assert targets.tolist() == [tokens[1:] + [PAD] * 74]


@pytest.mark.parametrize(("length", "windows"), [(0, 1), (79, 1), (80, 2), (160, 2), (161, 3)])
def test_number_of_windows(length: int, windows: int) -> None:
    assert len(cut(["a" * length]).inputs) == windows


def test_a_window_may_have_nothing_to_predict() -> None:
    inputs, targets = cut(["a" * 80])
    assert inputs[1].tolist() == [END] + [PAD] * 79
    assert not targets[1].any()


def test_no_snippets_are_no_windows() -> None:
    inputs, targets = cut([])
    assert inputs.shape == targets.shape == (0, LENGTH)
    assert inputs.dtype == targets.dtype == np.uint8


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=300), max_size=4))
def test_windows_hold_every_snippet_once_and_in_order(snippets: list[str]) -> None:
    inputs, targets = cut(snippets)
    assert inputs.shape == targets.shape
    assert inputs.dtype == targets.dtype == np.uint8
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])
    whole = np.concatenate([inputs, targets[:, -1:]], axis=1).ravel()
    expected = [token for text in snippets for token in (BEGIN, *to_tokens(text).tolist(), END)]
    assert whole[whole != PAD].tolist() == expected
    assert (whole == PAD).sum() < 81 * len(snippets) + 1
