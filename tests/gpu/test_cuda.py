"""The codec on a CUDA device against the same on the CPU."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

import fedcomp
from fedcomp import seeds
from fedcomp.bench.speed import measure
from fedcomp.kernels import philox_torch, philox_triton, seed_words
from fedcomp.metrics import vnmse
from fedcomp.seeds import Stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")

DIM = 100_003


@pytest.mark.parametrize("spec", ["identity", "eden:bits=1", "eden:bits=2", "eden:bits=3", "eden:bits=8"])
def test_payloads_of_both_devices_decode_on_both(spec: str) -> None:
    x = torch.randn(DIM, generator=torch.Generator().manual_seed(1))
    codec = fedcomp.compressor(spec)
    here, there = codec.encode(x, seed=5), codec.encode(x.cuda(), seed=5)
    assert len(here) == len(there)
    decoded = [
        fedcomp.decode(payload, seed=5, device=device).cpu() for payload in (here, there) for device in ("cpu", "cuda")
    ]
    for other in decoded[1:]:
        # Where rounding decides a tie a coordinate may fall into the neighbouring cell.
        assert vnmse(other, decoded[0]) < 1e-6


def test_integers_encode_to_the_same_bytes() -> None:
    x = ((torch.arange(5000) * 37 + 11) % 17 - 8).float()
    codec = fedcomp.compressor("eden:bits=4")
    assert codec.encode(x, seed=5) == codec.encode(x.cuda(), seed=5)


def test_a_mean_can_live_on_the_device() -> None:
    estimator = fedcomp.MeanEstimator(DIM, device="cuda")
    x = torch.randn(DIM, generator=torch.Generator().manual_seed(1))
    estimator.add(fedcomp.compressor("eden:bits=2").encode(x, seed=5), weight=2.0, seed=5)
    assert estimator.result().mean.device.type == "cuda"


BACKENDS = [
    pytest.param(philox_torch, id="torch"),
    pytest.param(
        philox_triton,
        id="triton",
        marks=pytest.mark.skipif(not philox_triton._INSTALLED, reason="Triton is not installed"),
    ),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 1023, 1024, 1025, DIM])
def test_words_are_numpys(backend: ModuleType, count: int) -> None:
    for seed, substream in ((0, 0), (1, 1), (2**31, 2**31), (2**63 + 5, 2**32 - 1), (2**64 - 1, 16)):
        for stream in Stream:
            found = backend.words(seed, stream, count, substream=substream, device="cuda")
            assert found.device.type == "cuda"
            assert found.tolist() == seeds.words(seed, stream, count, substream=substream).tolist()


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param(seed_words, id="the codec's")])
def test_signs_and_uniforms_are_numpys(backend: ModuleType) -> None:
    device = torch.device("cuda")
    signs = backend.rademacher_signs(2**64 - 1, DIM, rotation_round=1, device=device)
    noise = backend.uniforms(2**64 - 1, DIM, device=device)
    assert signs.device.type == noise.device.type == "cuda"
    assert torch.equal(signs.cpu(), torch.from_numpy(seeds.rademacher_signs(2**64 - 1, DIM, rotation_round=1)))
    assert torch.equal(noise.cpu(), torch.from_numpy(seeds.uniforms(2**64 - 1, DIM)))


def test_speed_is_measured_on_the_device() -> None:
    result = measure("hadamard", dim=DIM, repeats=1, seed=1, device=torch.device("cuda"))
    assert result.device == torch.cuda.get_device_name()
    assert min(result.encode_ms, result.decode_ms, result.copy_ms) > 0
