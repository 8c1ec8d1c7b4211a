"""From a trained model to the payload that a client sends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

import fedcomp
from fedcomp.metrics import vnmse
from fedcomp.vectors import VectorSpec


@dataclass(frozen=True)
class EncodedUpdate:
    """A client update on its way.

    Attributes
    ----------
    payload
        The bytes to send.
    vnmse
        Error of this very encoding, ‖x̂−x‖²/‖x‖².
    seconds
        Time to encode, the measurement of the error not included.
    """

    payload: bytes
    vnmse: float
    seconds: float


def encode_update(update: Tensor, layout: VectorSpec, *, compressor: str, seed: int) -> EncodedUpdate:
    """Encode a client update with the compressor and seed that the server named.

    Raises
    ------
    ConfigError, NonFinite
        When the compressor is unknown, or training diverged to NaN or infinity.
    """
    started = time.perf_counter()
    payload = fedcomp.compressor(compressor).encode(update, seed=seed, shapes=layout.shapes)
    seconds = time.perf_counter() - started
    estimate = fedcomp.decode(payload, seed=seed, device=update.device, expected_dim=layout.dim)
    return EncodedUpdate(payload, vnmse(estimate, update), seconds)
