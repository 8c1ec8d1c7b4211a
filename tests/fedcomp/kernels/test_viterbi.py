"""The two searches find the same path, and no other path is better."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.kernels import viterbi
from fedcomp.kernels.eden_rows import VARIABLE, is_compiled
from fedcomp.kernels.viterbi import CELLS, REACH, Codebook, find_path, search_tables
from fedcomp.quantizers.entropy_codes import trellis_code
from fedcomp.quantizers.trellis import path_signs
from fedcomp.quantizers.trellis_levels import trellis_codebook

CODEBOOKS = {
    "1 bit": trellis_codebook(1),
    "2 bits": trellis_codebook(2),
    "4 bits": trellis_codebook(4),
    "8 bits": trellis_codebook(8),
    "two levels, priced": trellis_code(2).codebook,
    "three levels, priced": trellis_code(13).codebook,
    "odd number of levels": trellis_code(40).codebook,
    "745 levels": trellis_code(128).codebook,
}


def rows(count: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, length, generator=torch.Generator().manual_seed(seed))


def by_torch(z: torch.Tensor, codebook: Codebook, *, states: int, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    with monkeypatch.context() as patch:
        patch.setenv(VARIABLE, "reference")
        return find_path(z, codebook, states=states)


def test_numba_searches_unless_the_reference_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> torch.Tensor:
        raise AssertionError("the other search was asked")

    z = rows(1, 10)
    with monkeypatch.context() as patch:
        patch.setattr(viterbi, "_find_in_torch", refuse)
        compiled = find_path(z, CODEBOOKS["2 bits"], states=4)
    monkeypatch.setattr(viterbi, "_find_compiled", refuse)
    assert torch.equal(by_torch(z, CODEBOOKS["2 bits"], states=4, monkeypatch=monkeypatch), compiled)
    assert is_compiled(z.device)


@pytest.mark.parametrize("name", CODEBOOKS)
@pytest.mark.parametrize(("states", "length"), [(4, 5000), (8, 2048), (8, 700), (32, 2100), (256, 300)])
def test_both_find_the_same_path(name: str, states: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    z = rows(3, length, states)
    found = find_path(z, CODEBOOKS[name], states=states)
    assert found.dtype == torch.int16
    assert found.shape == z.shape
    assert torch.equal(by_torch(z, CODEBOOKS[name], states=states, monkeypatch=monkeypatch), found)


@pytest.mark.parametrize("states", [8, 16, 64, 128])
@pytest.mark.parametrize("length", [1, 2, 3, 9, 1023, 1024, 2047, 2049, 3071])
def test_both_find_the_same_path_at_any_length(states: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    z = rows(2, length, length)
    found = find_path(z, CODEBOOKS["2 bits"], states=states)
    assert torch.equal(by_torch(z, CODEBOOKS["2 bits"], states=states, monkeypatch=monkeypatch), found)


@pytest.mark.parametrize("name", CODEBOOKS)
def test_ties_zeros_and_values_beyond_reach_are_decided_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    book = CODEBOOKS[name]
    levels = torch.tensor(book.levels)
    middles = (levels[1:] + levels[:-1]) / 2
    edges = torch.arange(CELLS) * (2 * REACH / CELLS) - REACH
    far = torch.tensor([REACH, -REACH, 8.1, -50.0, 1e6, -1e18, 1e-42, -0.0])
    z = torch.cat([torch.zeros(50), levels, -levels, middles, edges, far, torch.ones(50)])[None]
    found = find_path(z, book, states=8)
    assert torch.equal(by_torch(z, book, states=8, monkeypatch=monkeypatch), found)
    assert int(found.min()) >= 0
    assert int(found.max()) < len(levels)


def error(z: torch.Tensor, indices: torch.Tensor, book: Codebook, states: int) -> torch.Tensor:
    """Return what paths cost, squared errors and prices, float64; a path a row of indices."""
    signs = path_signs((indices & 1).to(torch.uint8), states).double()
    levels, prices = (torch.tensor(item, dtype=torch.float64)[indices.long()] for item in (book.levels, book.prices))
    return ((z.double() - signs * levels).square() + prices).sum(dim=1)


@given(
    st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=6),
    st.sampled_from(["2 bits", "three levels, priced", "two levels, priced", "1 bit"]),
    st.sampled_from([4, 8]),
)
def test_no_path_errs_less(values: list[float], name: str, states: int) -> None:
    book = CODEBOOKS[name]
    z = torch.tensor([values])
    paths = torch.tensor(list(product(range(len(book.levels)), repeat=len(values))))
    best = float(error(z, paths, book, states).min())
    found = float(error(z, find_path(z, book, states=states), book, states)[0])
    assert found == pytest.approx(best, rel=1e-5, abs=1e-5)


def test_no_path_of_seven_steps_errs_less() -> None:
    book = CODEBOOKS["2 bits"]
    paths = torch.tensor(list(product(range(4), repeat=7)))
    for z in rows(40, 7, 3)[:, None]:
        found = float(error(z, find_path(z, book, states=4), book, 4)[0])
        assert found == pytest.approx(float(error(z, paths, book, 4).min()), rel=1e-5)


@pytest.mark.parametrize("name", CODEBOOKS)
def test_only_two_indices_of_a_parity_compete_in_a_cell(name: str) -> None:
    # The search looks no further; here all of a parity are looked at.
    book = CODEBOOKS[name]
    tables = search_tables(book)
    z = torch.rand(20_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 * REACH - REACH
    cells = ((z + REACH) * (CELLS / (2 * REACH))).long().clamp(0, CELLS - 1)
    for parity in (0, 1):
        levels, prices = (torch.tensor(item[parity::2], dtype=torch.float64) for item in (book.levels, book.prices))
        best = ((z[:, None] - levels).square() + prices).argmin(dim=1)
        first = torch.from_numpy(tables.first[parity])[cells].long()
        assert bool(((best == first) | (best == first + 1)).all())


def test_more_states_err_less() -> None:
    z = rows(1, 20_000)
    book = CODEBOOKS["2 bits"]
    errors = [float(error(z, find_path(z, book, states=states), book, states)[0]) for states in (4, 8, 32, 256)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.95 * errors[0]


def test_lanes_do_not_see_each_other() -> None:
    z = rows(1, 4096)
    whole = find_path(z, CODEBOOKS["2 bits"], states=8)
    for lane in range(4):
        alone = find_path(z[:, lane::4].contiguous(), CODEBOOKS["2 bits"], states=8)
        assert torch.equal(whole[:, lane::4], alone)


def test_the_number_of_threads_does_not_matter() -> None:
    # More than two pieces of 2^19 coordinates, so that three threads have work.
    z = rows(80, 16384)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(find_path(z, CODEBOOKS["2 bits"], states=4))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_strides_do_not_matter() -> None:
    z = rows(4, 600)
    expected = find_path(z[:, ::2].contiguous(), CODEBOOKS["2 bits"], states=8)
    assert torch.equal(find_path(z[:, ::2], CODEBOOKS["2 bits"], states=8), expected)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_what_is_no_number_gets_some_index_of_the_codebook(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A row whose norm leaves float32 is refused for its scale, but only once it has been quantized.
    monkeypatch.setenv("FEDCOMP_KERNELS", backend)
    z = torch.tensor([math.nan, math.inf, -math.inf, 1e38] * 600).view(1, -1)
    indices = find_path(z, trellis_codebook(2), states=8)
    assert int(indices.min()) >= 0
    assert int(indices.max()) < 4
