from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedcomp.data.partition import Partitions, by_size, dirichlet, iid, natural
from fedcomp.errors import ConfigError

SIZES = st.lists(st.integers(0, 20), min_size=1, max_size=30)
SEEDS = st.integers(0, 2**64)


def labels_of(n: int) -> NDArray[np.uint8]:
    return np.random.default_rng(n).integers(0, 62, n).astype(np.uint8)


GOLDEN_IID = [[2, 3, 5], [0, 6, 7], [1, 4]]
GOLDEN_NATURAL = [[0, 1, 5], [2, 3, 4]]
GOLDEN_DIRICHLET = [289, 257, 280, 174]
GOLDEN_SIZE = [283, 231, 224, 262]

METHODS: dict[str, Callable[[int, int, int], Partitions]] = {
    "iid": lambda n, parts, seed: iid(n, parts, seed=seed),
    "dirichlet": lambda n, parts, seed: dirichlet(labels_of(n), parts, alpha=0.3, seed=seed),
    "skewed": lambda n, parts, seed: dirichlet(labels_of(n), parts, alpha=1e-9, seed=seed),
    "size": lambda n, parts, seed: by_size(n, parts, seed=seed),
    "natural": lambda n, parts, seed: natural(np.arange(n + 1) if n else np.array([0] * (parts + 1)), parts, seed=seed),
}


def check_covers(parts: Partitions, n: int, num_partitions: int) -> None:
    assert len(parts) == num_partitions
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))  # disjoint, and everything
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@pytest.mark.parametrize("method", [name for name in METHODS if name != "natural"])
@given(n=st.integers(0, 300), num_partitions=st.integers(1, 40), seed=SEEDS)
def test_partitions_are_disjoint_and_cover_everything(method: str, n: int, num_partitions: int, seed: int) -> None:
    parts = METHODS[method](n, num_partitions, seed)
    check_covers(parts, n, num_partitions)
    again = METHODS[method](n, num_partitions, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@given(sizes=SIZES, share=st.floats(0, 1), seed=SEEDS)
def test_natural_deals_whole_owners_evenly(sizes: list[int], share: float, seed: int) -> None:
    offsets = np.cumsum([0, *sizes])
    num_partitions = max(1, round(share * len(sizes)))
    parts = natural(offsets, num_partitions, seed=seed)
    check_covers(parts, sum(sizes), num_partitions)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    owned = [set(owner[part]) for part in parts]
    assert sum(len(owners) for owners in owned) == len(set(owner))  # nobody is in two
    if 0 not in sizes:
        counts = [len(owners) for owners in owned]
        assert max(counts) - min(counts) <= 1
        if num_partitions == len(sizes):
            assert counts == [1] * len(sizes)


@pytest.mark.parametrize("method", METHODS)
def test_seed_and_number_of_partitions_decide(method: str) -> None:
    deal = METHODS[method]
    first = deal(1000, 10, 1)
    assert any(not np.array_equal(a, b) for a, b in zip(first, deal(1000, 10, 2), strict=True))
    assert len(deal(1000, 7, 1)) == 7


def test_golden_rows() -> None:
    # Clients on different machines must agree; these change only with a new version of the method.
    assert [part.tolist() for part in iid(8, 3, seed=1)] == GOLDEN_IID
    assert [part.tolist() for part in natural(np.array([0, 2, 2, 5, 6]), 2, seed=1)] == GOLDEN_NATURAL
    assert [len(part) for part in dirichlet(labels_of(1000), 4, alpha=0.3, seed=1)] == GOLDEN_DIRICHLET
    assert [len(part) for part in by_size(1000, 4, seed=1)] == GOLDEN_SIZE


def test_small_alpha_is_skewed_and_large_is_not() -> None:
    labels = labels_of(20_000)

    def classes_seen(alpha: float) -> float:
        parts = dirichlet(labels, 20, alpha=alpha, seed=1)
        # How many classes make up half of a client's examples.
        halves = []
        for part in parts:
            shares = np.sort(np.bincount(labels[part], minlength=62))[::-1]
            halves.append(int(np.searchsorted(np.cumsum(shares), len(part) / 2)) + 1)
        return float(np.mean(halves))

    assert classes_seen(0.05) < 8
    assert 8 < classes_seen(0.5) < 22
    assert classes_seen(1000.0) > 25


def test_sizes_are_unequal() -> None:
    sizes = np.array([len(part) for part in by_size(100_000, 100, seed=1)])
    assert 5 < sizes.max() / np.median(sizes) < 30  # log-normal with σ = 1
    assert sizes.min() > 0
    equal = [len(part) for part in iid(1003, 10, seed=1)]
    assert sorted(equal) == [100] * 7 + [101] * 3


@pytest.mark.parametrize("method", METHODS)
def test_no_partition_at_all_is_refused(method: str) -> None:
    with pytest.raises(ConfigError, match="0 partitions; give at least 1"):
        METHODS[method](10, 0, 1)


def test_more_partitions_than_owners_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"4 clients but 3 owners .* partition=dirichlet or iid"):
        natural(np.array([0, 1, 2, 3]), 4, seed=1)
    with pytest.raises(ConfigError, match="1 clients but 0 owners"):
        natural(np.empty(0, np.int64), 1, seed=1)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(ConfigError, match="dirichlet-alpha = "):
        dirichlet(labels_of(10), 2, alpha=alpha, seed=1)
