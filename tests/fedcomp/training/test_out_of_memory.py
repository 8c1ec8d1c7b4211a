from __future__ import annotations

import pytest
import torch

from fedcomp.training.options import TrainingOptions
from fedcomp.training.out_of_memory import advice, is_out_of_memory


def test_the_cpus_own_error_is_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("anything"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_other_errors_are_not_taken_for_it(error: RuntimeError, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


@pytest.mark.parametrize(
    ("options", "device", "checkpointing", "expected"),
    [
        (
            TrainingOptions(micro_batch_size=4, optimizer="adam"),
            "cuda",
            False,
            "switch on: micro-batch-size = 0 (automatic), activation-checkpointing = on, offload-activations = true, "
            "precision = bfloat16, optimizer = adamw8bit or sgd",
        ),
        (TrainingOptions(), "cpu", True, "switch on: precision = bfloat16"),
        (
            TrainingOptions(offload_activations=True, precision="float16", micro_batch_size=1),
            "cuda",
            True,
            "take a smaller model or a larger device",
        ),
    ],
)
def test_what_is_on_already_is_not_advised(
    options: TrainingOptions, device: str, checkpointing: bool, expected: str
) -> None:
    assert advice(options, torch.device(device), checkpointing=checkpointing) == expected
