"""How a data set is dealt out to clients: every example to exactly one partition.

What each method returns depends on its arguments alone, so that each client finds its own part by itself. A partition
is an int64 array of ascending row numbers, possibly empty.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedcomp.errors import ConfigError
from fedcomp.seeds import permutation

Partitions = list[NDArray[np.int64]]

METHODS = ("natural", "iid", "dirichlet", "size")
_SIZE_SIGMA = 1.0


def natural(offsets: NDArray[np.int64], num_partitions: int, *, seed: int) -> Partitions:
    """Deal whole owners to partitions like cards, in a random order: numbers of owners differ by at most one.

    Parameters
    ----------
    offsets
        Shape (owners + 1,): the examples of owner i are rows offsets[i] to offsets[i + 1] - 1.
    num_partitions
        1 to the number of owners; where it is their number, each owner is a partition.
    seed
        Any integer.

    Raises
    ------
    ConfigError
        When there are no owners, or fewer than partitions.
    """
    _check(num_partitions)
    owners = max(len(offsets) - 1, 0)
    if owners < num_partitions:
        raise ConfigError(
            f"partition=natural: {num_partitions} clients but {owners} owners (writers, roles) in the data; "
            "use at most as many clients, or partition=dirichlet or iid"
        )
    order = permutation(_derived(seed, "natural"), owners)
    return [
        np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in np.sort(order[first::num_partitions])])
        for first in range(num_partitions)
    ]


def iid(examples: int, num_partitions: int, *, seed: int) -> Partitions:
    """Deal ``examples`` rows out at random; sizes differ by at most one."""
    _check(num_partitions)
    order = permutation(_derived(seed, "iid"), examples)
    return [np.sort(order[first::num_partitions]) for first in range(num_partitions)]


def dirichlet(labels: NDArray[np.integer], num_partitions: int, *, alpha: float, seed: int) -> Partitions:
    """Deal each class out in shares drawn from a symmetric Dirichlet distribution; small ``alpha`` is skewed.

    Sizes vary too, and some partitions may be empty. The shares are those of numpy's generator, the same with the same
    version of numpy. Source: Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, ICML
    2019, section 4.

    Parameters
    ----------
    labels
        Shape (n,), non-negative: the class of each row.
    num_partitions
        At least 1.
    alpha
        Concentration, above 0.
    seed
        Any integer.
    """
    _check(num_partitions)
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ConfigError(f"dirichlet-alpha = {alpha!r}; give a positive number")
    owner = np.empty(len(labels), dtype=np.int64)
    rng = _generator(seed, "dirichlet shares")
    order = permutation(_derived(seed, "dirichlet order"), len(labels))
    shuffled = labels[order]
    by_label = order[np.argsort(shuffled, kind="stable")]
    for rows in np.split(by_label, np.cumsum(np.bincount(shuffled))[:-1]):
        owner[rows] = _shared_out(len(rows), _dirichlet_weights(rng, alpha, num_partitions))
    return _grouped(owner, num_partitions)


def by_size(examples: int, num_partitions: int, *, seed: int) -> Partitions:
    """Deal rows out at random in parts of log-normal size, σ = 1: the largest of 100 has some ten times the median."""
    _check(num_partitions)
    weights = np.exp(_SIZE_SIGMA * _generator(seed, "sizes").standard_normal(num_partitions))
    owner = np.empty(examples, dtype=np.int64)
    owner[permutation(_derived(seed, "size order"), examples)] = _shared_out(examples, weights)
    return _grouped(owner, num_partitions)


def _dirichlet_weights(rng: np.random.Generator, alpha: float, count: int) -> NDArray[np.float64]:
    """Draw from a symmetric Dirichlet distribution, up to a factor; the largest is 1 however small alpha is."""
    # gamma(a) is gamma(a + 1) · U^(1/a); as logarithms none is lost to underflow.
    logarithms = np.log(rng.standard_gamma(alpha + 1, count)) + np.log1p(-rng.random(count)) / alpha
    return np.asarray(np.exp(logarithms - logarithms.max()))


def _shared_out(count: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an owner for each of ``count`` things, in runs whose lengths are in proportion to the weights."""
    total = np.cumsum(weights)
    ends = np.rint(count * (total / total[-1])).astype(np.int64)
    return np.searchsorted(ends, np.arange(count), side="right")


def _grouped(owner: NDArray[np.int64], num_partitions: int) -> Partitions:
    rows = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=num_partitions))
    return np.split(rows, ends[:-1])


def _check(num_partitions: int) -> None:
    if num_partitions < 1:
        raise ConfigError(f"{num_partitions} partitions; give at least 1")


def _derived(seed: int, purpose: str) -> int:
    digest = hashlib.blake2b(f"fedcomp partition/{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _generator(seed: int, purpose: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(_derived(seed, purpose)))
