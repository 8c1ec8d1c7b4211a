from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.wire import pack


@pytest.mark.parametrize("dim", [0, 1, 3, 1000])
def test_identity_is_exact(dim: int) -> None:
    x = torch.randn(dim, generator=torch.Generator().manual_seed(1))
    payload = fedcomp.compressor("identity").encode(x, seed=5)
    assert len(payload) == 32 + 4 * dim
    assert torch.equal(fedcomp.decode(payload, seed=5), x)


def test_it_says_what_it_is() -> None:
    codec = fedcomp.compressor("identity")
    assert (codec.nominal_bits, codec.is_unbiased, codec.expected_vnmse(10)) == (32.0, True, 0.0)
    assert repr(codec) == "compressor('identity')"
    with pytest.raises(ConfigError, match=r"identity: unknown option 'bits' .*allowed: none"):
        fedcomp.compressor("identity:bits=3")


def test_forged_bodies_are_refused() -> None:
    with pytest.raises(InvalidParams, match="has 8 bytes of body, not 4"):
        fedcomp.decode(pack(scheme=0, dim=2, params=b"", body=b"abcd", seed=1), seed=1)
    with pytest.raises(InvalidParams, match="has 0 bytes of parameters, the header holds 1"):
        fedcomp.decode(pack(scheme=0, dim=0, params=b"x", body=b"", seed=1), seed=1)
    with pytest.raises(NonFinite, match="holds inf at place 1"):
        fedcomp.decode(pack(scheme=0, dim=2, params=b"", body=b"\0\0\0\0\0\0\x80\x7f", seed=1), seed=1)
