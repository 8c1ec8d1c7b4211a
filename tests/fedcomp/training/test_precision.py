from __future__ import annotations

import pytest
import torch

from fedcomp.errors import ConfigError
from fedcomp.training.options import TrainingOptions
from fedcomp.training.precision import autocast, loss_scaler

CPU = torch.device("cpu")


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_products_are_in_the_precision_asked_for(name: str, dtype: torch.dtype) -> None:
    with autocast(TrainingOptions(precision=name), CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_only_float16_scales_the_loss(name: str) -> None:
    assert not loss_scaler(TrainingOptions(precision=name), CPU).is_enabled()


def test_float16_needs_a_gpu() -> None:
    options = TrainingOptions(precision="float16")
    for function in (autocast, loss_scaler):
        with pytest.raises(ConfigError, match="needs a CUDA device; on cpu use bfloat16 or float32"):
            function(options, CPU)
