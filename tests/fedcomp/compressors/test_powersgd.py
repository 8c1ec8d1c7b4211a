from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.coding import varint
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.feedback import ErrorFeedback
from fedcomp.metrics import vnmse
from fedcomp.wire import pack

SHAPES = [(60, 5, 10), (40,), (), (2, 2)]
DIM = 3000 + 40 + 1 + 4


def low_rank(rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    matrix = torch.randn(60, rank, generator=generator) @ torch.randn(rank, 50, generator=generator)
    return torch.cat([matrix.reshape(-1), torch.randn(45, generator=generator)])


def refuse(params: bytes, body: bytes, dim: int) -> None:
    with pytest.raises(InvalidParams):
        fedcomp.decode(pack(scheme=14, dim=dim, params=params, body=body, seed=1), seed=1)


def test_a_matrix_of_that_rank_is_sent_exactly_in_few_bytes() -> None:
    x = low_rank(3)
    payload = fedcomp.compressor("powersgd:rank=3").encode(x, seed=1, shapes=SHAPES)
    # Rounding of x itself, times the condition of a random 3×3 matrix.
    assert vnmse(fedcomp.decode(payload, seed=1), x) < 1e-9
    # 32 of header, 10 of shapes (3 of them for tensors without a second axis), two factors, 45 floats as they are.
    assert len(payload) <= 32 + 12 + 4 * (3 * (60 + 50) + 45)


def test_tensors_that_would_not_shrink_are_sent_as_they_are() -> None:
    x = low_rank(8)
    decoded = fedcomp.decode(fedcomp.compressor("powersgd:rank=1").encode(x, seed=1, shapes=SHAPES), seed=1)
    assert torch.equal(decoded[3000:], x[3000:])
    assert not torch.equal(decoded[:3000], x[:3000])


def test_the_error_never_exceeds_the_vector_and_falls_with_the_rank() -> None:
    x = torch.randn(DIM, generator=torch.Generator().manual_seed(1))
    errors = [
        vnmse(fedcomp.decode(fedcomp.compressor(f"powersgd:rank={r}").encode(x, seed=1, shapes=SHAPES), seed=1), x)
        for r in (1, 4, 16)
    ]
    assert 1 > errors[0] > errors[1] > errors[2] > 0


def test_the_estimate_is_a_projection() -> None:
    # ⟨x̂, x⟩ = ‖x̂‖²: what is lost is orthogonal to what is kept.
    x = torch.randn(3000, generator=torch.Generator().manual_seed(1))
    payload = fedcomp.compressor("powersgd:rank=4").encode(x, seed=1, shapes=[(60, 50)])
    decoded = fedcomp.decode(payload, seed=1)
    assert float(decoded @ x) == pytest.approx(float(decoded.square().sum()), rel=1e-5)


def test_the_seed_draws_the_directions() -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(1))
    codec = fedcomp.compressor("powersgd:rank=1")
    decoded = [fedcomp.decode(codec.encode(x, seed=seed, shapes=[(60, 50)]), seed=seed) for seed in (1, 2)]
    assert not torch.allclose(decoded[0], decoded[1])


def test_each_matrix_has_directions_of_its_own() -> None:
    matrix = torch.randn(20, 20, generator=torch.Generator().manual_seed(1)).reshape(-1)
    payload = fedcomp.compressor("powersgd:rank=1").encode(matrix.repeat(2), seed=1, shapes=[(20, 20), (20, 20)])
    decoded = fedcomp.decode(payload, seed=1)
    assert not torch.allclose(decoded[:400], decoded[400:])


def test_error_feedback_sends_all_in_the_end() -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(1))
    feedback = ErrorFeedback(fedcomp.compressor("powersgd:rank=4"))
    total = torch.zeros(3000)
    for step in range(60):
        total += fedcomp.decode(feedback.encode(x, seed=step, shapes=[(60, 50)]), seed=step)
    assert vnmse(total / 60, x) < 0.02


def test_without_shapes_it_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match=r"powersgd .* encode\(x, seed=…, shapes="):
        fedcomp.compressor("powersgd").encode(torch.ones(6), seed=1)


def test_parameters_that_lie_are_refused() -> None:
    refuse(b"", b"", 0)
    refuse(b"\x80", b"", 0)
    refuse(varint.encode([0]), b"", 0)
    refuse(varint.encode([65]), b"", 0)
    refuse(varint.encode([2, 5]), bytes(20), 5)
    refuse(varint.encode([2, 5, 1]), bytes(20), 6)
    refuse(varint.encode([2, 5, 1]), bytes(16), 5)
    refuse(varint.encode([1, 2**40, 2**23]), bytes(100), 2**33)


def test_factors_whose_product_overflows_are_refused() -> None:
    factors = torch.full((20,), 1e30).numpy().tobytes()
    with pytest.raises(NonFinite):
        fedcomp.decode(pack(scheme=14, dim=100, params=varint.encode([1, 10, 10]), body=factors, seed=1), seed=1)
