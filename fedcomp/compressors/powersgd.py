"""PowerSGD: each matrix as the product of two thin ones; biased, meant for error feedback.

Vogels, Karimireddy, Jaggi, "PowerSGD: Practical low-rank gradient compression for distributed optimization", NeurIPS
2019 (arXiv 1905.13727), algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.coding import varint
from fedcomp.compressors.base import Compressor, Shapes, check_body, read_floats, to_bytes
from fedcomp.config import Spec, integer_option, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.seeds import Stream, words
from fedcomp.transforms.unit_range import power_of_two, to_unit_range
from fedcomp.wire import Header

MAX_RANK = 64
Matrix = tuple[int, int]


@dataclass(frozen=True, repr=False)
class PowerSGD(Compressor):
    """Send of each matrix M an orthonormal P of ``rank`` columns and MᵀP; other tensors as float32.

    P spans M·Q for a Gaussian Q drawn from the seed: one step of the power method. A tensor of more than two axes is a
    matrix of its first axis against the others. A tensor that would not shrink, such as a bias, is sent as it is.

    Guarantee: the estimate P·Pᵀ·M is a projection, so the error never exceeds ‖x‖²; biased, use error feedback. Needs
    ``shapes`` at ``encode``. Cost: two thin matrix products and one QR decomposition a matrix.

    Attributes
    ----------
    rank
        Columns of P, 1 to 64.
    """

    number: ClassVar[int] = 14

    rank: int = 2

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``powersgd:rank=2``."""
        reject_unknown("powersgd", spec.options, ("rank",))
        return cls(integer_option(spec, "rank", 2, low=1, high=MAX_RANK))

    @property
    def spec(self) -> Spec:
        """``powersgd`` with its rank."""
        return Spec("powersgd", {"rank": self.rank})

    @property
    def nominal_bits(self) -> None:
        """None: the rate depends on the shapes."""
        return

    @property
    def is_unbiased(self) -> bool:
        """False."""
        return False

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        raise ConfigError(
            "powersgd compresses matrices and must know them: encode(x, seed=…, shapes=[…]) with the tensors' shapes"
        )

    def _encode_shaped(self, x: Tensor, *, seed: int, shapes: Shapes | None) -> tuple[bytes, bytes]:
        if shapes is None:
            return self._encode_finite(x, seed=seed)
        matrices = [_as_matrix(shape) for shape in shapes]
        body = []
        drawn = 0
        for start, matrix, rank in _parts(matrices, self.rank):
            part = x[start : start + prod(matrix)]
            if rank is None:
                body.append(to_bytes(part))
                continue
            q = torch.from_numpy(_gaussian(seed, matrix[1] * rank, substream=drawn)).to(x.device)
            factors = _factorize(part.view(matrix), q.view(matrix[1], rank))
            body.extend(to_bytes(factor.contiguous()) for factor in factors)
            drawn += 1
        return varint.encode([self.rank, *(side for matrix in matrices for side in matrix)]), b"".join(body)

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map the factors to their products."""
        del seed
        parts = _read_params(header)
        sizes = [prod(matrix) if rank is None else rank * sum(matrix) for _, matrix, rank in parts]
        check_body(header, body, 4 * sum(sizes), what="powersgd")
        values = read_floats(body, dim=header.dim).to(device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        used = 0
        for (start, (rows, columns), rank), size in zip(parts, sizes, strict=True):
            floats = values[used : used + size]
            used += size
            if rank is None:
                out[start : start + rows * columns] = floats
                continue
            p = floats[: rows * rank].view(rows, rank)
            q = floats[rows * rank :].view(columns, rank)
            product = out[start : start + rows * columns].view(rows, columns).zero_()
            # One column after the other, so that the sum has the same order on any number of threads.
            for index in range(rank):
                product += p[:, index, None] * q[None, :, index]
        if not bool(torch.isfinite(out).all()):
            raise NonFinite(f"payload of dim {header.dim} decodes to values that are not finite; reject the sender")
        return out


def _as_matrix(shape: tuple[int, ...]) -> Matrix:
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _parts(matrices: Sequence[Matrix], rank: int) -> Iterator[tuple[int, Matrix, int | None]]:
    """Yield (first coordinate, matrix, columns of its factors); None for one that is sent as it is."""
    start = 0
    for rows, columns in matrices:
        used = min(rank, rows, columns)
        yield start, (rows, columns), used if used * (rows + columns) < rows * columns else None
        start += rows * columns


def _factorize(matrix: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Return an orthonormal basis P of the columns of M·q, and Mᵀ·P."""
    unit, exponent = to_unit_range(matrix.reshape(1, -1))
    unit = unit.view(matrix.shape).double()
    p = torch.linalg.qr(unit @ q.double()).Q.float()
    scaled = (unit.T @ p.double() * power_of_two(exponent)).float()
    if not bool(torch.isfinite(scaled).all()):
        raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
    return p, scaled


def _gaussian(seed: int, count: int, *, substream: int) -> NDArray[np.float64]:
    """Return normal numbers by the Box–Muller transform; only the encoder draws them, so the last bit is free."""
    drawn = (words(seed, Stream.SAMPLING, 2 * count, substream=substream).astype(np.float64) + 0.5) * 2.0**-32
    normal: NDArray[np.float64] = np.sqrt(-2 * np.log(drawn[:count])) * np.cos(2 * math.pi * drawn[count:])
    return normal


def _read_params(header: Header) -> list[tuple[int, Matrix, int | None]]:
    numbers = varint.decode(header.params)
    if not numbers or len(numbers) % 2 == 0 or not 1 <= numbers[0] <= MAX_RANK:
        raise InvalidParams(
            f"powersgd parameters of {len(header.params)} bytes are not a rank from 1 to {MAX_RANK} and pairs of sides"
        )
    matrices = list(zip(numbers[1::2], numbers[2::2], strict=True))
    total = sum(prod(matrix) for matrix in matrices)
    if total != header.dim:
        raise InvalidParams(f"powersgd's matrices hold {total} coordinates, the header says {header.dim}")
    return list(_parts(matrices, numbers[0]))
