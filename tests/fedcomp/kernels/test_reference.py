from __future__ import annotations

import pytest
import torch

from fedcomp.kernels import reference
from fedcomp.transforms.hadamard import rotation_signs

CPU = torch.device("cpu")


@pytest.mark.parametrize("chunk", [1, 512, 700])
def test_rows_may_be_worked_on_some_at_a_time(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 256, generator=torch.Generator().manual_seed(1))
    means, signs = x.mean(dim=1), rotation_signs(1, 256, rounds=2, device=CPU)

    def everything() -> list[torch.Tensor]:
        scales, codes = reference.encode_rows(x, means, signs, low=2, k=64, unbiased=True)
        out, into = torch.empty(5, 256), torch.ones(5, 256, dtype=torch.float64)
        reference.decode_rows(codes, scales, means, signs, low=2, k=64, out=out)
        reference.accumulate_rows(codes, scales, means, signs, low=2, k=64, into=into, weight=0.1)
        return [scales, codes, out, into, *reference.row_moments(x, means)]

    whole = everything()
    monkeypatch.setattr(reference, "_CHUNK", {"cpu": chunk, "cuda": chunk})
    # torch adds the numbers of a row in an order that depends on how many rows there are.
    for found, expected in zip(everything(), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_an_encoded_row_projects_on_itself() -> None:
    x = torch.randn(3, 512, generator=torch.Generator().manual_seed(1)) + 2
    means, signs = torch.full((3,), 2.0), rotation_signs(1, 512, rounds=2, device=CPU)
    scales, codes = reference.encode_rows(x, means, signs, low=1, k=8, unbiased=True)
    out = torch.empty(3, 512)
    reference.decode_rows(codes, scales, means, signs, low=1, k=8, out=out)
    rest = (x - 2).double()
    torch.testing.assert_close(((out - 2).double() * rest).sum(dim=1), rest.square().sum(dim=1), rtol=1e-5, atol=0)


def test_moments_are_of_what_is_left() -> None:
    x = torch.arange(512.0).view(2, 256)
    sums, energies = reference.row_moments(x, torch.tensor([1.0, 0.0]))
    assert sums.tolist() == [float((x[0] - 1).sum()), float(x[1].sum())]
    assert energies.tolist() == [float((x[0] - 1).double().square().sum()), float(x[1].double().square().sum())]
