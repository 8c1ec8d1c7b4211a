"""Error feedback: what an encoding lost is added to the next vector, so that nothing is lost for good.

Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi, "Error feedback
fixes SignSGD and other gradient compression schemes", ICML 2019 (arXiv 1901.09847).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcomp.compressors.base import Compressor, Shapes
from fedcomp.compressors.registry import decode
from fedcomp.errors import DimMismatch


class ErrorFeedback:
    """Wraps a compressor for one sender and remembers what it has not yet sent.

    Guarantee: decoded + new residual = input + old residual, to float32 rounding. Memory: one vector.

    Parameters
    ----------
    compressor
        What encodes.
    residual
        What an earlier ErrorFeedback of the same sender had not yet sent, 1-D; it is taken as float32 and not changed.

    >>> import torch
    >>> from fedcomp import compressor
    >>> feedback = ErrorFeedback(compressor("sign"))
    >>> payload = feedback.encode(torch.tensor([1.0, -3.0]), seed=1)
    >>> feedback.residual
    tensor([-1., -1.])
    """

    def __init__(self, compressor: Compressor, residual: Tensor | None = None) -> None:
        self.compressor = compressor
        self.residual = None if residual is None else residual.detach().to(torch.float32)

    def encode(self, x: Tensor, *, seed: int, shapes: Shapes | None = None) -> bytes:
        """Encode ``x`` plus the residual, and keep the difference.

        Raises
        ------
        DimMismatch
            When ``x`` has another dim than the residual.
        ConfigError, NonFinite
            As ``Compressor.encode`` does; the residual is unchanged then.
        """
        wanted = x.detach().to(torch.float32)
        if self.residual is not None:
            if self.residual.shape != wanted.shape:
                raise DimMismatch(
                    f"x has shape {tuple(wanted.shape)}, the residual {tuple(self.residual.shape)}; use one "
                    "ErrorFeedback a sender and model"
                )
            wanted = wanted + self.residual.to(wanted.device)
        payload = self.compressor.encode(wanted, seed=seed, shapes=shapes)
        self.residual = wanted - decode(payload, seed=seed, device=wanted.device)
        return payload
