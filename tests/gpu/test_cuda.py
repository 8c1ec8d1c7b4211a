"""The codec on a CUDA device against the same on the CPU."""

from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.metrics import vnmse

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
