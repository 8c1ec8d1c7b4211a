from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp import seeds
from fedcomp.kernels import philox_torch
from fedcomp.seeds import Stream

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "seeds.json").read_text())
CPU = torch.device("cpu")
SEEDS = st.integers(0, 2**64 - 1)
WORDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # The known answers of the authors' Random123 distribution for philox4x32 with 10 rounds.
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_words(counter: list[int], key: tuple[int, int], expected: list[int]) -> None:
    assert philox_torch.philox(torch.tensor([counter]), key)[0].tolist() == expected


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=5), st.tuples(WORDS, WORDS))
def test_any_counter_gives_numpys_words(counters: list[tuple[int, int, int, int]], key: tuple[int, int]) -> None:
    expected = seeds.philox(np.array(counters, dtype=np.uint32), key)
    assert philox_torch.philox(torch.tensor(counters), key).tolist() == expected.tolist()


@pytest.mark.parametrize("case", GOLDEN["words"])
def test_words_are_golden(case: dict[str, Any]) -> None:
    seed, stream = int(case["seed"]), Stream(case["stream"])
    found = philox_torch.words(seed, stream, 6, substream=case["substream"], device=CPU)
    assert found.dtype == torch.int64
    assert found.tolist() == case["words"]


@given(SEEDS, st.sampled_from(Stream), WORDS, st.integers(0, 300))
def test_words_are_numpys(seed: int, stream: Stream, substream: int, count: int) -> None:
    found = philox_torch.words(seed, stream, count, substream=substream, device="cpu")
    assert found.tolist() == seeds.words(seed, stream, count, substream=substream).tolist()


def test_many_words_are_numpys() -> None:
    # A carry out of the lower half of a product is wrong once in 2^16 products; here are five times as many.
    found = philox_torch.words(11, Stream.SAMPLING, 2**16, device=CPU)
    assert np.array_equal(found.numpy(), seeds.words(11, Stream.SAMPLING, 2**16))


@pytest.mark.parametrize("count", [0, 1, 11, 12, 13, 24, 25, 40])
def test_chunks_join_without_a_seam(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(philox_torch._CHUNK, "cpu", 3)
    found = philox_torch.words(7, Stream.ROUNDING, count, device=CPU)
    assert found.tolist() == seeds.words(7, Stream.ROUNDING, count).tolist()
    assert philox_torch.uniforms(7, count, device=CPU).tolist() == seeds.uniforms(7, count).tolist()


def test_an_index_beyond_one_word_goes_on_in_the_next() -> None:
    found = philox_torch._counters(2**32 - 1, 2**32 + 1, (3, 9), CPU)
    assert found.tolist() == [[2**32 - 1, 0, 3, 9], [0, 1, 3, 9]]


@given(SEEDS, st.integers(0, 200), st.integers(0, 4))
def test_signs_and_uniforms_are_numpys(seed: int, count: int, rotation_round: int) -> None:
    signs = philox_torch.rademacher_signs(seed, count, rotation_round=rotation_round, device=CPU)
    noise = philox_torch.uniforms(seed, count, device=CPU)
    assert signs.dtype == noise.dtype == torch.float32
    assert signs.tolist() == seeds.rademacher_signs(seed, count, rotation_round=rotation_round).tolist()
    assert noise.tolist() == seeds.uniforms(seed, count).tolist()


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "1"])
def test_a_wrong_seed_is_refused_as_numpys_words_refuse_it(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as expected:
        seeds.words(seed, Stream.ROTATION, 1)
    with pytest.raises(expected.type) as found:
        philox_torch.words(seed, Stream.ROTATION, 1, device=CPU)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("substream", [-1, 2**32])
def test_a_wrong_substream_is_named(substream: int) -> None:
    with pytest.raises(ValueError, match=f"substream is {substream}; allowed: integers in"):
        philox_torch.words(1, Stream.ROTATION, 1, substream=substream, device=CPU)
