"""A run's settings as options of local training."""

from __future__ import annotations

from fedcomp.optim.schedule_specs import parse_schedule
from fedcomp.run_config import RunConfig
from fedcomp.training.options import TrainingOptions

_PARTS = 100
"""A round is so many parts to the schedule within it."""


def training_options(config: RunConfig, *, learning_rate: float, batch_size: int) -> TrainingOptions:
    """Return how a client trains with a run's settings, and with the rate and batch size of this round.

    Raises
    ------
    ConfigError
        Naming the setting, its value and what is allowed.
    """
    schedule = parse_schedule(config.local_schedule, key="local-schedule")

    def factor(fraction: float) -> float:
        return schedule.factor(int(fraction * _PARTS) + 1, _PARTS)

    return TrainingOptions(
        learning_rate=learning_rate,
        momentum=config.momentum,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        proximal_mu=config.proximal_mu,
        clip_gradients=config.clip_gradients,
        local_epochs=config.local_epochs,
        batch_size=batch_size,
        micro_batch_size=config.micro_batch_size,
        precision=config.precision,
        activation_checkpointing=config.activation_checkpointing,
        offload_activations=config.offload_activations,
        deterministic=config.deterministic,
        local_schedule=factor,
    )
