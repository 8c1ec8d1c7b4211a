from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.seeds import (
    Stream,
    derive_seed,
    permutation,
    philox,
    rademacher_signs,
    seed_fingerprint,
    words,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "seeds.json").read_text())
SEEDS = st.integers(0, 2**64 - 1)


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
    assert philox(np.array([counter], dtype=np.uint32), key)[0].tolist() == expected


@pytest.mark.parametrize("case", GOLDEN["words"])
def test_words_are_golden(case: dict[str, int]) -> None:
    found = words(int(case["seed"]), Stream(case["stream"]), 6, substream=case["substream"])
    assert found.tolist() == case["words"]


@pytest.mark.parametrize("case", GOLDEN["derived"])
def test_derived_seeds_are_golden(case: dict[str, str]) -> None:
    secret = bytes.fromhex(case["secret"])
    seed = derive_seed(secret, int(case["round_index"]), int(case["client_id"]), case["purpose"])
    assert seed == int(case["seed"])
    assert seed_fingerprint(seed) == int(case["fingerprint"])


@given(SEEDS, st.integers(1, 300), st.integers(1, 300))
def test_a_shorter_request_is_a_prefix(seed: int, short: int, more: int) -> None:
    long = words(seed, Stream.ROUNDING, short + more)
    assert words(seed, Stream.ROUNDING, short).tolist() == long[:short].tolist()


def test_streams_substreams_and_seeds_differ() -> None:
    found = {
        tuple(words(seed, stream, 4, substream=substream).tolist())
        for seed in (0, 1, 2**32, 2**63)
        for stream in Stream
        for substream in (0, 1)
    }
    assert len(found) == 4 * len(Stream) * 2


def test_signs_are_the_bits_of_the_words() -> None:
    first = int(words(9, Stream.ROTATION, 1, substream=1)[0])
    signs = rademacher_signs(9, 40, rotation_round=1)
    assert signs.dtype == np.float32
    assert signs[:32].tolist() == [-1.0 if first >> bit & 1 else 1.0 for bit in range(32)]


def test_signs_are_balanced_and_uncorrelated() -> None:
    # The mean of n = 2^16 fair signs has standard deviation 2^-8; 5 of them are exceeded once in 1.7 million seeds.
    first, second = (rademacher_signs(3, 2**16, rotation_round=index) for index in (0, 1))
    assert abs(first.mean()) < 5 / 256
    assert abs((first * second).mean()) < 5 / 256
    assert abs((first[1:] * first[:-1]).mean()) < 5 / 256


def test_every_argument_changes_the_derived_seed() -> None:
    base = derive_seed(b"secret", 1, 2, "rotation")
    others = [
        derive_seed(b"Secret", 1, 2, "rotation"),
        derive_seed(b"secret", 2, 2, "rotation"),
        derive_seed(b"secret", 1, 3, "rotation"),
        derive_seed(b"secret", 2, 1, "rotation"),
        derive_seed(b"secret", 1, 2, "training"),
    ]
    assert len({base, *others}) == 6


@pytest.mark.parametrize("secret", [b"x", b"x" * 64, b"x" * 1000])
def test_secrets_of_any_length_work(secret: bytes) -> None:
    assert 0 <= derive_seed(secret, 0, 0, "rotation") < 2**64


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ((b"", 0, 0, "x"), ValueError, "run_secret is empty"),
        (("text", 0, 0, "x"), TypeError, "run_secret is a str"),
        ((b"s", -1, 0, "x"), ValueError, "round_index is -1"),
        ((b"s", 0, 2**64, "x"), ValueError, "client_id is 18446744073709551616"),
        ((b"s", 0, 1.0, "x"), TypeError, "client_id is 1.0"),
        ((b"s", True, 0, "x"), TypeError, "round_index is True"),
        ((b"s", 0, 0, ""), ValueError, "purpose is ''"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[bytes, int, int, str], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        derive_seed(*arguments)


def test_fingerprints_do_not_repeat_the_seed() -> None:
    prints = {seed_fingerprint(seed) for seed in range(1000)}
    assert len(prints) == 1000
    assert all(seed_fingerprint(seed) != seed & 0xFFFFFFFF for seed in range(1000))


def test_permutation_is_one_and_depends_on_the_seed() -> None:
    first = permutation(1, 50)
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() != permutation(2, 50).tolist()
