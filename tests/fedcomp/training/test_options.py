from __future__ import annotations

import math

import pytest

from fedcomp.errors import ConfigError
from fedcomp.training.options import CHECKPOINTING, OPTIMIZERS, PRECISIONS, TrainingOptions


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning_rate": 0.0}, "learning-rate is 0.0; give a number above 0"),
        ({"learning_rate": math.nan}, "learning-rate is nan"),
        ({"learning_rate": math.inf}, "learning-rate is inf"),
        ({"momentum": 1.0}, r"momentum is 1.0; give a number in \[0, 1\)"),
        ({"momentum": -0.1}, "momentum is -0.1"),
        ({"weight_decay": -1.0}, "weight-decay is -1.0; give a number 0 or above"),
        ({"proximal_mu": -1.0}, "proximal-mu is -1.0"),
        ({"proximal_mu": math.inf}, "proximal-mu is inf"),
        ({"clip_gradients": -1.0}, "clip-gradients is -1.0"),
        ({"local_epochs": 0}, "local-epochs is 0; give an integer of 1 or above"),
        ({"batch_size": 0}, "batch-size is 0"),
        ({"batch_size": 2.5}, "batch-size is 2.5"),
        ({"batch_size": True}, "batch-size is True"),
        ({"micro_batch_size": -1}, "micro-batch-size is -1; give an integer of 0 or above"),
        ({"optimizer": "lion"}, "optimizer is 'lion'; allowed: sgd, adam, adamw, adamw8bit"),
        ({"precision": "half"}, "precision is 'half'; allowed: float32, bfloat16, float16"),
        ({"activation_checkpointing": "yes"}, "activation-checkpointing is 'yes'; allowed: auto, on, off"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        TrainingOptions(**changes)  # type: ignore[arg-type]


def test_what_is_allowed_is_taken() -> None:
    for word in OPTIMIZERS:
        assert TrainingOptions(optimizer=word).optimizer == word
    for word in PRECISIONS:
        assert TrainingOptions(precision=word).precision == word
    for word in CHECKPOINTING:
        assert TrainingOptions(activation_checkpointing=word).activation_checkpointing == word
    TrainingOptions(momentum=0, weight_decay=0, proximal_mu=0, clip_gradients=0, micro_batch_size=0)


@pytest.mark.parametrize(("micro", "expected"), [(0, 20), (7, 7), (20, 20), (50, 20)])
def test_a_micro_batch_is_never_larger_than_the_batch(micro: int, expected: int) -> None:
    assert TrainingOptions(batch_size=20, micro_batch_size=micro).examples_at_once == expected


def test_the_rate_stays_unless_told_otherwise() -> None:
    assert [TrainingOptions().local_schedule(done) for done in (0.0, 0.5, 0.99)] == [1.0, 1.0, 1.0]
