from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.errors import ConfigError, DimMismatch, NonFinite
from fedcomp.feedback import ErrorFeedback, check_it_converges


@pytest.mark.parametrize("spec", fedcomp.available_compressors())
def test_nothing_is_lost(spec: str) -> None:
    feedback = ErrorFeedback(fedcomp.compressor(spec))
    generator = torch.Generator().manual_seed(1)
    for seed in range(4):
        x = torch.randn(1000, generator=generator)
        before = torch.zeros(1000) if feedback.residual is None else feedback.residual.clone()
        decoded = fedcomp.decode(feedback.encode(x, seed=seed, shapes=[(20, 50)]), seed=seed)
        assert feedback.residual is not None
        torch.testing.assert_close(decoded + feedback.residual, x + before, rtol=1e-5, atol=1e-5)


def test_a_biased_scheme_gets_there_with_feedback_and_not_without() -> None:
    # The same vector again and again: with feedback the mean of what was decoded tends to it.
    x = torch.randn(2000, generator=torch.Generator().manual_seed(2))
    codec = fedcomp.compressor("topk:fraction=0.1")
    feedback = ErrorFeedback(codec)
    sent = torch.stack([fedcomp.decode(feedback.encode(x, seed=s), seed=s) for s in range(100)]).mean(dim=0)
    alone = fedcomp.decode(codec.encode(x, seed=0), seed=0)
    assert fedcomp.metrics.vnmse(sent, x) < 0.02
    assert fedcomp.metrics.vnmse(alone, x) > 0.4


def test_what_cannot_be_encoded_leaves_the_residual() -> None:
    feedback = ErrorFeedback(fedcomp.compressor("sign"))
    feedback.encode(torch.tensor([1.0, -3.0]), seed=1)
    with pytest.raises(NonFinite):
        feedback.encode(torch.tensor([1.0, float("nan")]), seed=1)
    with pytest.raises(DimMismatch, match="one ErrorFeedback a sender and model"):
        feedback.encode(torch.ones(3), seed=1)
    assert feedback.residual is not None
    assert feedback.residual.tolist() == [-1.0, -1.0]


@pytest.mark.parametrize("spec", ["sign", "topk:fraction=0.1", "eden:bits=1"])
def test_a_stored_residual_goes_on_where_it_stopped(spec: str) -> None:
    generator = torch.Generator().manual_seed(3)
    steady = ErrorFeedback(fedcomp.compressor(spec))
    stored: torch.Tensor | None = None
    for seed in range(4):
        x = torch.randn(1000, generator=generator)
        before = None if stored is None else stored.clone()
        resumed = ErrorFeedback(fedcomp.compressor(spec), stored)
        payload = resumed.encode(x, seed=seed)
        assert payload == steady.encode(x, seed=seed)
        assert resumed.residual is not None
        if stored is not None and before is not None:
            # What was given is the caller's.
            assert torch.equal(stored, before)
            torch.testing.assert_close(
                fedcomp.decode(payload, seed=seed) + resumed.residual, x + stored, rtol=1e-5, atol=1e-5
            )
        stored = resumed.residual.clone()


def test_a_stored_residual_is_taken_as_float32_without_history() -> None:
    feedback = ErrorFeedback(
        fedcomp.compressor("sign"), torch.tensor([1.0, -3.0], dtype=torch.float64).requires_grad_()
    )
    assert feedback.residual is not None
    assert feedback.residual.dtype == torch.float32
    assert not feedback.residual.requires_grad
    with pytest.raises(DimMismatch, match=r"x has shape \(3,\), the residual \(2,\)"):
        feedback.encode(torch.ones(3), seed=1)


@pytest.mark.parametrize("spec", ["sign", "topk:fraction=0.01", "eden:bits=1", "eden:bits=0.5,scale=mmse", "powersgd"])
def test_what_settles_may_be_used(spec: str) -> None:
    check_it_converges(fedcomp.compressor(spec), use="compressor")


@pytest.mark.parametrize("spec", ["eden:bits=0.5", "qsgd", "randk", "terngrad"])
def test_what_would_grow_is_refused(spec: str) -> None:
    codec = fedcomp.compressor(spec)
    with pytest.raises(ConfigError, match=rf"here: '{spec.split(':')[0]}.*allowed with error feedback: below 1"):
        check_it_converges(codec, use="here")
    # It does grow.
    feedback = ErrorFeedback(codec)
    x = torch.randn(4096, generator=torch.Generator().manual_seed(1))
    for seed in range(40):
        feedback.encode(x, seed=seed, shapes=[(64, 64)])
    assert feedback.residual is not None
    assert float(feedback.residual.norm()) > 4 * float(x.norm())
