"""Kept payloads of hostile clients: each raises just what the manifest says, at once, and allocates almost nothing."""

from __future__ import annotations

import re
import struct
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import fedcomp
from fedcomp import errors
from fedcomp.compressors.catalogue import SCHEMES
from fedcomp.errors import DimMismatch, InvalidWeight, PayloadError
from fedcomp.wire import HEADER_BYTES
from tests.hostile.memory import limited_memory, traced
from tests.support import codec

CORPUS = Path(__file__).parent / "corpus"
MANIFEST = tomllib.loads((CORPUS / "manifest.toml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = MANIFEST["case"]
SEED: int = MANIFEST["seed"]
MAX_FILE_BYTES = 2048
MAX_ESTIMATOR_DIM = 2**14
"""A payload that claims more than this meets an estimator of another dim."""


@pytest.fixture(scope="module", autouse=True)
def decoders() -> None:
    """Decode with every scheme beforehand: modules and their tables are no memory of a payload's."""
    for scheme in SCHEMES:
        codec.roundtrip(scheme.name, torch.linspace(1, 3, 600), seed=SEED)


def refuse(payload: bytes, error: type[PayloadError], says: str, *, expected_dim: int | None = None) -> None:
    """Decode the payload and add it to an estimator; both must raise the error, and the estimator must not notice."""
    claimed = struct.unpack_from("<Q", payload, 8)[0] if len(payload) >= HEADER_BYTES else 1
    dim = expected_dim or (claimed if claimed <= MAX_ESTIMATOR_DIM else 1)
    estimator = fedcomp.MeanEstimator(dim)
    estimator.add(codec.encode("identity", torch.ones(dim), seed=SEED), weight=1.0, seed=SEED)
    before = estimator.result()
    started = time.perf_counter()
    with limited_memory(2**24), traced() as peak:
        with pytest.raises(PayloadError) as decoding:
            fedcomp.decode(payload, seed=SEED, expected_dim=expected_dim)
        with pytest.raises(PayloadError) as adding:
            estimator.add(payload, weight=1.0, seed=SEED)
        # Without a limit on dim there must be no trust in it either.
        with pytest.raises(PayloadError):
            fedcomp.decode(payload, seed=SEED, expected_dim=expected_dim, max_dim=2**64)
    seconds = time.perf_counter() - started
    assert decoding.type is error
    assert says in str(decoding.value)
    # Every message names a value: what was found, or where.
    assert re.search(r"\d", str(decoding.value)) or says
    assert len(str(decoding.value)) < 1000
    assert adding.type in ({error} if dim in (claimed, expected_dim) else {error, DimMismatch})
    after = estimator.result()
    assert torch.equal(before.mean, after.mean)
    assert (before.weight, before.clients, before.bytes) == (after.weight, after.clients, after.bytes)
    assert seconds < 1
    assert peak.bytes < 2_000_000


@pytest.mark.parametrize("case", CASES, ids=[case["file"].removesuffix(".bin") for case in CASES])
def test_payload(case: dict[str, Any]) -> None:
    payload = (CORPUS / case["file"]).read_bytes()
    refuse(payload, getattr(errors, case["error"]), case.get("says", ""), expected_dim=case.get("expected_dim"))


@pytest.mark.parametrize("name", [scheme.name for scheme in SCHEMES])
def test_an_honest_payload_would_be_seen(name: str) -> None:
    payload = codec.encode(name, torch.linspace(1, 3, 300), seed=SEED)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refuse(payload, PayloadError, "")


def test_a_large_allocation_would_be_seen() -> None:
    with limited_memory(2**24), pytest.raises(RuntimeError, match="memory"):
        torch.empty(2**33)
    with limited_memory(2**24), pytest.raises(MemoryError):
        bytearray(2**33)


def test_the_manifest_names_every_file_and_no_other() -> None:
    named = [case["file"] for case in CASES]
    assert len(set(named)) == len(named)
    assert sorted(named) == sorted(path.name for path in CORPUS.iterdir() if path.name != "manifest.toml")


def test_every_case_says_why_it_is_kept() -> None:
    assert [case["file"] for case in CASES if len(case["why"]) < 10] == []


def test_files_are_small_and_all_different() -> None:
    contents = [(CORPUS / case["file"]).read_bytes() for case in CASES]
    assert max(map(len, contents)) <= MAX_FILE_BYTES
    # A reader that expects another dim refuses even an honest payload.
    expectations = [case.get("expected_dim") for case in CASES]
    assert len(set(zip(contents, expectations, strict=True))) == len(CASES)


def test_every_scheme_and_every_error_has_cases() -> None:
    numbers = Counter((CORPUS / case["file"]).read_bytes()[5:6] for case in CASES)
    assert {scheme.name for scheme in SCHEMES if numbers[bytes([scheme.number])] < 3} == set()
    classes = {error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, PayloadError)}
    raised = {getattr(errors, case["error"]) for case in CASES}
    assert raised == classes - {PayloadError, InvalidWeight}
