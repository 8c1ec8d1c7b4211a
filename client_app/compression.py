"""From a trained model to the payload that a client sends."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

import fedcomp
from fedcomp.feedback import ErrorFeedback
from fedcomp.metrics import vnmse
from fedcomp.vectors import VectorSpec


@dataclass(frozen=True)
class EncodedUpdate:
    """A client update on its way.

    Attributes
    ----------
    payload
        The bytes to send.
    residual
        What the encoding lost; None without error feedback.
    vnmse
        Error of this very encoding, ‖x̂−x‖²/‖x‖², of the update and the residual before it.
    seconds
        Time to encode, the measurement of the error not included.
    """

    payload: bytes
    residual: Tensor | None
    vnmse: float
    seconds: float


def encode_update(
    update: Tensor, layout: VectorSpec, *, compressor: str, seed: int, feedback: bool, residual: Tensor | None = None
) -> EncodedUpdate:
    """Encode a client update with the compressor and seed that the server named.

    Parameters
    ----------
    feedback
        Whether to add ``residual`` first and keep what this encoding loses.
    residual
        What earlier encodings lost, float32 of shape (dim,); None for nothing.

    Raises
    ------
    ConfigError, NonFinite
        When the compressor is unknown, or training diverged to NaN or infinity.
    """
    codec = fedcomp.compressor(compressor)
    started = time.perf_counter()
    if not feedback:
        payload = codec.encode(update, seed=seed, shapes=layout.shapes)
        seconds = time.perf_counter() - started
        estimate = fedcomp.decode(payload, seed=seed, device=update.device, expected_dim=layout.dim)
        return EncodedUpdate(payload, None, vnmse(estimate, update), seconds)
    sender = ErrorFeedback(codec, residual)
    payload = sender.encode(update, seed=seed, shapes=layout.shapes)
    seconds = time.perf_counter() - started
    lost = torch.zeros_like(update) if sender.residual is None else sender.residual
    wanted = update if residual is None else update + residual.to(update.device)
    return EncodedUpdate(payload, lost, vnmse(wanted - lost, wanted), seconds)
