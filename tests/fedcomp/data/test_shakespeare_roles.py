from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.shakespeare_characters import to_text
from fedcomp.data.shakespeare_roles import dataset_of_roles, held_out, speeches_by_owner

LENGTHS = st.lists(st.integers(0, 200), max_size=30)


@pytest.mark.parametrize(
    ("lengths", "first"),
    [
        ([], 0),
        ([10], 1),
        ([10, 10], 1),
        ([10] * 5, 4),
        ([10] * 10, 8),
        ([1, 99], 1),
        ([99, 1], 1),
        ([90, 5, 5], 1),
        ([10, 10, 80], 2),
        ([0, 0, 0], 1),
    ],
)
def test_where_the_test_begins(lengths: list[int], first: int) -> None:
    assert held_out(lengths) == first


@given(LENGTHS)
def test_every_owner_trains_and_one_of_two_speeches_or_more_is_tested(lengths: list[int]) -> None:
    first = held_out(lengths)
    assert 1 <= first < len(lengths) if len(lengths) >= 2 else first == len(lengths)
    if len(lengths) >= 2:
        # Without its first speech the test is at most a fifth of the text.
        assert 5 * sum(lengths[first + 1 :]) <= sum(lengths)
        assert first == 1 or first == len(lengths) - 1 or 5 * sum(lengths[: first - 1]) < 4 * sum(lengths)


def test_a_data_set_of_two_roles() -> None:
    roles = {"b": ["One.", "Two.", "Three."], "a": ["Alone."]}
    dataset = dataset_of_roles(roles, source="text", what="a play")
    assert (dataset.kind, dataset.source) == ("shakespeare", "text")
    assert dataset.label.startswith("a play: 2 owners, 3 training and 1 test windows of 80 characters; the last fifth")
    assert dataset.train.clients == dataset.test.clients == ("a", "b")
    assert dataset.train.offsets.tolist() == [0, 1, 3]
    assert dataset.test.offsets.tolist() == [0, 0, 1]
    shown = [to_text(row) for row in dataset.train.arrays["inputs"]]
    assert shown == ["Alone.", "One.", "Two."]
    assert to_text(dataset.test.arrays["targets"][0]) == "Three."


def test_the_order_of_owners_does_not_matter() -> None:
    first, second = (
        dataset_of_roles(dict(items), source="text", what="")
        for items in ([("b", ["x"]), ("a", ["y"])], [("a", ["y"]), ("b", ["x"])])
    )
    np.testing.assert_array_equal(first.train.arrays["inputs"], second.train.arrays["inputs"])


def test_no_owners_are_an_empty_data_set() -> None:
    dataset = dataset_of_roles({}, source="text", what="")
    assert len(dataset.train) == len(dataset.test) == 0
    assert dataset.train.clients == ()


def test_spellings_that_differ_in_case_are_one_owner() -> None:
    assert speeches_by_owner([("All", "x"), ("b", "y"), ("ALL", "z")]) == {"All": ["x", "z"], "b": ["y"]}
