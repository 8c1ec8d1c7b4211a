from __future__ import annotations

import pytest
import torch

import fedcomp
from client_app.compression import encode_update
from fedcomp.errors import NonFinite
from fedcomp.metrics import vnmse
from fedcomp.vectors import VectorSpec

LAYOUT = VectorSpec.from_state_dict({"weight": torch.zeros(50, 100), "bias": torch.zeros(50)})


def test_the_payload_decodes_with_the_error_it_reports() -> None:
    update = torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(1))
    encoded = encode_update(update, LAYOUT, compressor="eden:bits=2", seed=9, feedback=False)
    assert encoded.vnmse == vnmse(fedcomp.decode(encoded.payload, seed=9), update) == pytest.approx(0.133, rel=0.1)
    assert encoded.seconds > 0


def test_divergence_is_told() -> None:
    with pytest.raises(NonFinite, match=r"x\[2\] is nan"):
        encode_update(torch.tensor([0.0, 1.0, float("nan")]), LAYOUT, compressor="identity", seed=9, feedback=False)


def test_with_feedback_nothing_is_lost() -> None:
    update, before = torch.randn(2, LAYOUT.dim, generator=torch.Generator().manual_seed(1))
    encoded = encode_update(update, LAYOUT, compressor="sign", seed=9, feedback=True, residual=before)
    estimate = fedcomp.decode(encoded.payload, seed=9)
    assert encoded.residual is not None
    torch.testing.assert_close(estimate + encoded.residual, update + before)
    assert encoded.vnmse == pytest.approx(vnmse(estimate, update + before))


@pytest.mark.parametrize("feedback", [False, True])
def test_the_compressor_gets_the_shapes(feedback: bool) -> None:
    # Without them powersgd refuses; with them rank 1 of 50×100 is 150 numbers.
    update = torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(1))
    encoded = encode_update(update, LAYOUT, compressor="powersgd:rank=1", seed=9, feedback=feedback)
    assert len(encoded.payload) < 4 * (150 + 50) + 100
