"""Error feedback: what an encoding lost is added to the next vector, so that nothing is lost for good.

Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi, "Error feedback
fixes SignSGD and other gradient compression schemes", ICML 2019 (arXiv 1901.09847).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcomp.compressors.base import Compressor, Shapes
from fedcomp.compressors.registry import decode
from fedcomp.errors import ConfigError, DimMismatch
from fedcomp.seeds import uniforms

_TRIAL_SIDE = 128
"""The trial is on a square matrix: powersgd must know the shape."""


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


def check_it_converges(compressor: Compressor, *, use: str) -> None:
    """Check that what error feedback keeps cannot grow without bound, by a trial on a flat vector.

    The residual after an encoding is its error of what was encoded. With a vNMSE v of 1 or more it is longer than that,
    and the next one longer still; below, it settles at v/(1−v) of an update's energy.

    Parameters
    ----------
    compressor
        What is to encode.
    use
        The setting that names it, for the message.

    Raises
    ------
    ConfigError
        When v is 1 or more, as of unbiased schemes at low rates.
    """
    dim = _TRIAL_SIDE**2
    x = torch.from_numpy(uniforms(0, 4 * dim)).view(4, dim).sum(dim=0) - 2  # nearly normal
    payload = compressor.encode(x, seed=0, shapes=[(_TRIAL_SIDE, _TRIAL_SIDE)])
    vnmse = float((decode(payload, seed=0) - x).square().sum() / x.square().sum())
    if vnmse >= 1:
        raise ConfigError(
            f"{use}: {str(compressor.spec)!r} has vNMSE {vnmse:.2f}; allowed with error feedback: below 1, or what it "
            "lost grows from round to round; use more bits or scale=mmse"
        )
