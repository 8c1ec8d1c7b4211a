"""The interface of a compressor and the checks that every scheme shares."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.config import Spec
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.wire import Header, pack

Shapes = Sequence[tuple[int, ...]]

COORDINATES_PER_BYTE = 65536
"""More than any scheme needs: without it a few bytes could make a reader allocate max_dim coordinates."""


class Compressor(ABC):
    """Maps a vector to bytes; ``fedcomp.decode`` maps the bytes back.

    A compressor holds its configuration only, so one object may serve any number of threads and vectors.

    >>> import torch
    >>> from fedcomp import compressor, decode
    >>> codec = compressor("eden:bits=4")
    >>> x = torch.linspace(-1, 1, 4096)
    >>> y = decode(codec.encode(x, seed=1), seed=1)
    >>> bool((y - x).norm() < 0.12 * x.norm())
    True
    """

    number: ClassVar[int]
    shares_seed: ClassVar[bool] = False
    """Whether the clients of a cohort must all encode with the same seed."""

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """The spec that makes this compressor again, every option spelled out."""

    @property
    @abstractmethod
    def nominal_bits(self) -> float | None:
        """Bits per coordinate asked for; None when the scheme has no fixed rate."""

    @property
    @abstractmethod
    def is_unbiased(self) -> bool:
        """Whether the mean of the decoded vectors over seeds is the input."""

    def expected_vnmse(self, dim: int) -> float | None:
        """Return E‖x̂−x‖²/‖x‖² on a zero-mean vector of ``dim`` coordinates; None where it depends on the vector."""
        del dim
        return None

    def for_member(self, rank: int, clients: int) -> Self:
        """Return the compressor of the client at ``rank``, from 0, in a cohort of ``clients``; most are all alike."""
        del rank, clients
        return self

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from a spec; raises ConfigError naming the key, the value and what is allowed."""

    @classmethod
    @abstractmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map a checked header and the body to a float32 vector; raises PayloadError subclasses."""

    @classmethod
    def accumulate_body(cls, header: Header, body: memoryview, *, seed: int, into: Tensor, weight: float) -> None:
        """Add ``weight`` times the decoded vector to ``into``, float64; raises as ``decode_body``, before any addition.

        A scheme overrides this one to do without the decoded vector; every bit of ``into`` must be the same.
        """
        into.add_(cls.decode_body(header, body, seed=seed, device=into.device), alpha=weight)

    @abstractmethod
    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        """Return (params, body) for a contiguous, finite float32 vector."""

    def _encode_shaped(self, x: Tensor, *, seed: int, shapes: Shapes | None) -> tuple[bytes, bytes]:
        """Return (params, body); a scheme that makes use of the tensors' shapes overrides this one."""
        del shapes
        return self._encode_finite(x, seed=seed)

    def encode(self, x: Tensor | NDArray[np.floating], *, seed: int, shapes: Shapes | None = None) -> bytes:
        """Map a vector to payload bytes.

        Parameters
        ----------
        x
            1-D, any float dtype, device or stride; a numpy array will do. Coordinates are taken as float32.
        seed
            In [0, 2**64), one for each (run, round, client).
        shapes
            The tensors' shapes, in order, whose sizes sum to ``x.numel()``; schemes that cannot use it ignore it.

        Returns
        -------
        bytes
            The payload; ``8 * len(payload) / dim`` is the true rate.

        Raises
        ------
        ConfigError
            When ``x`` is not a 1-D float vector or ``shapes`` do not fit it.
        NonFinite
            When ``x`` holds a NaN or an infinity, or a float64 beyond float32's range; names the first index.
        TypeError, ValueError
            When the seed is not an integer in [0, 2**64).
        """
        vector = _as_vector(x)
        if shapes is not None and sum(prod(shape) for shape in shapes) != vector.numel():
            total = sum(prod(shape) for shape in shapes)
            raise ConfigError(f"shapes hold {total} coordinates, the vector has {vector.numel()}; give those of x")
        params, body = self._encode_shaped(vector, seed=seed, shapes=shapes)
        return pack(scheme=self.number, dim=vector.numel(), params=params, body=body, seed=seed)

    def __repr__(self) -> str:
        return f"compressor({str(self.spec)!r})"


def read_floats(data: memoryview, *, dim: int) -> Tensor:
    """Read little-endian float32 numbers of a payload of ``dim`` coordinates.

    Raises
    ------
    NonFinite
        When one of them is NaN or infinite.
    """
    values = np.frombuffer(data, dtype="<f4").astype(np.float32)
    if not np.isfinite(values).all():
        index = int((~np.isfinite(values)).argmax())
        raise NonFinite(f"payload of dim {dim} holds {values[index]} at place {index}; reject the sender")
    return torch.from_numpy(values)


def read_codes(data: memoryview, device: torch.device) -> Tensor:
    """Copy packed codes to ``device``, uint8."""
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy()).to(device)


def check_body(header: Header, body: memoryview, expected: int, *, what: str) -> None:
    """Raise InvalidParams unless the body has the ``expected`` number of bytes."""
    if len(body) != expected:
        raise InvalidParams(
            f"{what} of dim {header.dim} has {expected} bytes of body, not {len(body)}; reject the sender"
        )


def check_params(header: Header, expected: int, *, what: str) -> None:
    """Raise InvalidParams unless the header has the ``expected`` number of bytes of parameters."""
    if len(header.params) != expected:
        raise InvalidParams(f"{what} has {expected} bytes of parameters, the header holds {len(header.params)}")


def to_bytes(values: Tensor) -> bytes:
    """Return float32 numbers as little-endian bytes."""
    return values.detach().cpu().numpy().astype("<f4", copy=False).tobytes()


def _as_vector(x: Tensor | NDArray[np.floating]) -> Tensor:
    if isinstance(x, np.ndarray):
        x = torch.from_numpy(np.ascontiguousarray(x))
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = f"a tensor of {x.dtype}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise ConfigError(f"x is {kind}; give a 1-D float tensor (x.float() if it holds integers)")
    if x.dim() != 1:
        raise ConfigError(f"x has shape {tuple(x.shape)}; give a 1-D tensor (x.reshape(-1))")
    vector = x.detach().to(torch.float32).contiguous()
    # A finite sum has finite terms; only when it is not, by an overflow perhaps, they are looked at.
    if not math.isfinite(float(vector.sum())):
        finite = torch.isfinite(vector)
        if not bool(finite.all()):
            index = int((~finite).to(torch.uint8).argmax())
            reason = "" if not np.isfinite(float(x[index])) else ", beyond float32's range"
            raise NonFinite(f"x[{index}] is {float(x[index])}{reason}; every coordinate must be finite to be encoded")
    return vector
