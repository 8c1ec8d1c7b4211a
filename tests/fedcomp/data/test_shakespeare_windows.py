from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.errors import MalformedData
from fedcomp.data.shakespeare_characters import to_tokens
from fedcomp.data.shakespeare_windows import window_tokens, with_following

CHARACTER = st.characters(exclude_categories=())


@given(st.lists(st.tuples(st.text(CHARACTER, min_size=80, max_size=80), CHARACTER), max_size=3))
def test_each_target_is_the_next_character(samples: list[tuple[str, str]]) -> None:
    windows = with_following([window_tokens(x) for x, _ in samples], [y for _, y in samples])
    assert windows.inputs.shape == windows.targets.shape == (len(samples), 80)
    assert windows.inputs.dtype == windows.targets.dtype == np.uint8
    for row, (x, y) in enumerate(samples):
        assert windows.inputs[row].tolist() == to_tokens(x).tolist()
        assert windows.targets[row].tolist() == to_tokens(x[1:] + y).tolist()


@pytest.mark.parametrize("text", ["", "a" * 79, "a" * 81, None, 5, ["a"] * 80])
def test_a_window_has_eighty_characters(text: object) -> None:
    with pytest.raises(MalformedData, match="expected a text of 80 characters"):
        window_tokens(text)


@pytest.mark.parametrize("following", ["", "ab", None, 5, ["a"]])
def test_one_character_follows(following: object) -> None:
    with pytest.raises(MalformedData, match="expected one character"):
        with_following([bytes(80)], [following])


def test_both_must_be_equally_many() -> None:
    with pytest.raises(MalformedData, match="1 windows and 0 following"):
        with_following([bytes(80)], [])
