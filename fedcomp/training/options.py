"""How one client trains for one round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fedcomp.errors import ConfigError

OPTIMIZERS = ("sgd", "adam", "adamw", "adamw8bit")
PRECISIONS = ("float32", "bfloat16", "float16")
CHECKPOINTING = ("auto", "on", "off")


def constant(fraction: float) -> float:  # noqa: ARG001
    """Return 1: the learning rate stays as it is within the round."""
    return 1.0


@dataclass(frozen=True)
class TrainingOptions:
    """The options of :func:`fedcomp.training.loop.train`; the defaults are plain SGD in float32.

    Attributes
    ----------
    learning_rate
        Step size, above 0.
    momentum
        Of ``sgd``, in [0, 1); the others have their own.
    optimizer
        ``sgd``, ``adam``, ``adamw`` or ``adamw8bit``, whose state takes two bytes a parameter instead of eight.
    weight_decay
        At least 0; added to the gradient (``sgd``, ``adam``) or taken off the weights (``adamw``, ``adamw8bit``).
    proximal_mu
        At least 0; adds mu/2·‖w - w_received‖² to the objective (FedProx, Li et al., MLSys 2020).
    clip_gradients
        The largest l2 norm a step's gradient may have; longer ones are scaled down. 0 = off.
    local_epochs, batch_size
        Epochs of the client's examples, and examples a step.
    micro_batch_size
        Examples worked on at once; the gradients of one batch are added up. 0 = automatic: the whole batch, or as much
        as there turns out to be memory for.
    precision
        What the forward pass computes in: ``float32``, ``bfloat16`` or, on CUDA only, ``float16`` with scaled losses.
        Parameters and update stay as they are.
    activation_checkpointing
        ``on`` computes activations again instead of keeping them; ``auto`` does when memory would not suffice.
    offload_activations
        Keep activations in the host's memory. Without a GPU they are there anyway.
    deterministic
        Only algorithms that give the same bits each time; those without such a form raise.
    local_schedule
        Maps the part of the round that is done, in [0, 1), to a factor of the learning rate, finite and at least 0.

    Raises
    ------
    ConfigError
        Naming the option, its value and what is allowed.
    """

    learning_rate: float = 0.03
    momentum: float = 0.9
    optimizer: str = "sgd"
    weight_decay: float = 0.0
    proximal_mu: float = 0.0
    clip_gradients: float = 0.0
    local_epochs: int = 1
    batch_size: int = 20
    micro_batch_size: int = 0
    precision: str = "float32"
    activation_checkpointing: str = "auto"
    offload_activations: bool = False
    deterministic: bool = False
    local_schedule: Callable[[float], float] = constant

    def __post_init__(self) -> None:
        _check_number("learning-rate", self.learning_rate, "above 0", self.learning_rate > 0)
        _check_number("momentum", self.momentum, "in [0, 1)", 0 <= self.momentum < 1)
        for name in ("weight_decay", "proximal_mu", "clip_gradients"):
            value = getattr(self, name)
            _check_number(name.replace("_", "-"), value, "0 or above", value >= 0)
        for name, least in (("local_epochs", 1), ("batch_size", 1), ("micro_batch_size", 0)):
            count = getattr(self, name)
            if not isinstance(count, int) or isinstance(count, bool) or count < least:
                raise ConfigError(f"{name.replace('_', '-')} is {count!r}; give an integer of {least} or above")
        _check_word("optimizer", self.optimizer, OPTIMIZERS)
        _check_word("precision", self.precision, PRECISIONS)
        _check_word("activation-checkpointing", self.activation_checkpointing, CHECKPOINTING)

    @property
    def examples_at_once(self) -> int:
        """The largest number of examples worked on at once."""
        return min(self.micro_batch_size or self.batch_size, self.batch_size)


def _check_number(name: str, value: float, allowed: str, good: bool) -> None:
    if not (good and math.isfinite(value)):
        raise ConfigError(f"{name} is {value!r}; give a number {allowed}")


def _check_word(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
