"""What EDEN's other codes promise at the size of a model; their pieces have tests of their own."""

from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.metrics import vnmse

# The dim of the EMNIST CNN.
MODEL_DIM = 1_206_590


def gaussian(dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(dim, generator=torch.Generator().manual_seed(seed))


def roundtrip(x: torch.Tensor, spec: str, seed: int = 1) -> torch.Tensor:
    return fedcomp.decode(fedcomp.compressor(spec).encode(x, seed=seed), seed=seed)


TRELLIS, ENTROPY, BOTH = "quantizer=trellis", "coding=entropy", "quantizer=trellis,coding=entropy"


# Lloyd-Max leaves .571/.133/.0358/.0096 at 1/2/3/4 bits, and no code less than .333/.0667/.0159/.0039.
@pytest.mark.parametrize(
    ("code", "bits", "bound"),
    [
        (TRELLIS, 1, 0.445),
        (TRELLIS, 2, 0.096),
        (TRELLIS, 3, 0.0245),
        (TRELLIS, 4, 0.0064),
        (BOTH, 0.25, 3.0),
        (BOTH, 0.5, 1.30),
        (BOTH, 1, 0.40),
        (BOTH, 1.5, 0.170),
        (BOTH, 2, 0.078),
        (BOTH, 3, 0.0186),
        (BOTH, 4, 0.0046),
        (ENTROPY, 1, 0.545),
        (ENTROPY, 2, 0.0995),
        (ENTROPY, 0.25, 4.0),
        (ENTROPY, 0.5, 1.70),
    ],
)
def test_the_other_codes_err_less_at_the_same_rate(code: str, bits: float, bound: float) -> None:
    x = gaussian(MODEL_DIM)
    codec = fedcomp.compressor(f"eden:bits={bits},{code}")
    payload = codec.encode(x, seed=7)
    error = vnmse(fedcomp.decode(payload, seed=7), x)
    assert error < bound
    expected = codec.expected_vnmse(MODEL_DIM)
    assert expected is None or error == pytest.approx(expected, rel=0.01)
    assert 0.99 * bits <= fedcomp.bits_per_coordinate(payload) <= bits


@pytest.mark.parametrize(("bits", "bound"), [(1, 0.365), (2, 0.0725)])
def test_more_states_come_nearer_to_the_bound(bits: int, bound: float) -> None:
    x = gaussian(2**18)
    payload = fedcomp.compressor(f"eden:bits={bits},{BOTH},states=256").encode(x, seed=7)
    assert vnmse(fedcomp.decode(payload, seed=7), x) < bound
    assert fedcomp.bits_per_coordinate(payload) <= bits


@pytest.mark.parametrize("code", [TRELLIS, ENTROPY, BOTH])
@pytest.mark.parametrize("bits", [0.1, 0.5, 1, 1.7, 3, 8])
@pytest.mark.parametrize("block", [256, 4096, 65536])
def test_every_payload_of_the_other_codes_projects_onto_its_input(code: str, bits: float, block: int) -> None:
    heavy = gaussian(70_000) * gaussian(70_000, 1).exp()
    for x in (heavy, torch.arange(4998) % 7 - 3.0):
        estimate = roundtrip(x, f"eden:bits={bits},block={block},{code}").double()
        assert float(estimate @ x.double() / (x.double() @ x.double())) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("code", [TRELLIS, ENTROPY, BOTH])
@pytest.mark.parametrize("dim", [1, 255, 257, 1025, 4097, 20_011])
def test_the_other_codes_take_any_dim(code: str, dim: int) -> None:
    # A stream is whole words: of 32 bytes one is an eighth, and the error of a short vector half as large again.
    x = gaussian(dim)
    for bits in (1, 3):
        payload = fedcomp.compressor(f"eden:bits={bits},{code}").encode(x, seed=1)
        assert vnmse(fedcomp.decode(payload, seed=1), x) <= 0.9 / 2 ** (1.7 * (bits - 1))
        # The header, the parameters and up to twelve scales come on top, and a tail below 256 is padded to it.
        assert len(payload) <= bits * max(dim, 256) / 8 + 40 + 4 * 12
