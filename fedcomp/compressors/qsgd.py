"""QSGD: each coordinate as a stochastic level of its bucket's norm.

Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: Communication-efficient SGD via gradient quantization and encoding",
NeurIPS 2017 (arXiv 1610.02132), §3. Levels are packed in whole bits, or in Elias codes as the paper has it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding import levels as levels_code
from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.base import Compressor, check_body, check_params, read_codes, read_floats, to_bytes
from fedcomp.compressors.rows import round_up
from fedcomp.config import Spec, choice_option, integer_option, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.wire import Header

NORMS = ("l2", "max")
MAX_BUCKET = 65536
CODINGS = ("packed", "entropy")
_PARAMS = struct.Struct("<BBI")
_NONZEROS = struct.Struct("<Q")
_ENTROPY = 2
"""Added to the norm's number when levels are in Elias codes: 2, dense, or 4, sparse."""


@dataclass(frozen=True, repr=False)
class QSGD(Compressor):
    """Send per bucket its norm as float32 and per coordinate sign and level, rounded stochastically.

    Guarantee: unbiased over the seed. With the L2 norm the error is at most min(n/s², √n/s)·‖x‖² for buckets of n
    coordinates and s levels. Cost: one pass.

    Attributes
    ----------
    levels
        s from 1 to 127: levels from -s to s, in ⌈log2(2s+1)⌉ bits. ``bits=B`` is short for 2^(B−1) − 1.
    bucket
        Coordinates that share a norm, a multiple of 8 up to 65,536.
    norm
        ``"l2"`` or ``"max"``, the largest magnitude.
    coding
        ``"packed"``: levels in whole bits. ``"entropy"``: in Elias codes, fewer bits where most levels are small, and a
        rate that depends on the vector.
    """

    number: ClassVar[int] = 6

    levels: int = 7
    bucket: int = 512
    norm: str = "l2"
    coding: str = "packed"

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``qsgd:bits=4,bucket=512,norm=l2`` or with ``levels`` instead of ``bits``."""
        reject_unknown("qsgd", spec.options, ("bits", "levels", "bucket", "norm", "coding"))
        if "bits" in spec.options and "levels" in spec.options:
            raise ConfigError("qsgd: bits and levels are both given; give one, bits=B means levels=2^(B-1)-1")
        bits = integer_option(spec, "bits", 4, low=2, high=8)
        levels = integer_option(spec, "levels", 2 ** (bits - 1) - 1, low=1, high=127)
        bucket = integer_option(spec, "bucket", 512, low=8, high=MAX_BUCKET)
        if bucket % 8:
            raise ConfigError(f"qsgd: bucket is {bucket}; allowed: multiples of 8 from 8 to {MAX_BUCKET}")
        return cls(levels, bucket, choice_option(spec, "norm", NORMS), choice_option(spec, "coding", CODINGS))

    @property
    def spec(self) -> Spec:
        """``qsgd`` with all options."""
        return Spec("qsgd", {"levels": self.levels, "bucket": self.bucket, "norm": self.norm, "coding": self.coding})

    @property
    def nominal_bits(self) -> float | None:
        """Bits of a level and a coordinate's share of the norm; None in Elias codes, whose length depends on x."""
        return None if self.coding == "entropy" else _level_bits(self.levels) + 32 / self.bucket

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        bucket = _actual_bucket(x.numel(), self.bucket)
        wide = torch.nn.functional.pad(x, (0, -x.numel() % bucket)).view(-1, bucket).double()
        norms = wide.square().sum(dim=1).sqrt() if self.norm == "l2" else wide.abs().amax(dim=1)
        sent = round_up(norms)
        if not bool(torch.isfinite(sent).all()):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        divisor = torch.where(sent > 0, sent, 1.0).double()
        positions = (wide / divisor[:, None] * self.levels).float()
        symbols = round_stochastically(positions, seed=seed).clamp_(-self.levels, self.levels) + self.levels
        norm = NORMS.index(self.norm)
        if self.coding == "packed":
            codes = pack_bits(symbols, _level_bits(self.levels)).cpu().numpy().tobytes()
            return _PARAMS.pack(self.levels, norm, self.bucket), to_bytes(sent) + codes
        signed = symbols.to(torch.int64).reshape(-1)[: x.numel()] - self.levels
        mode, nonzeros, codes = levels_code.encode(signed.cpu().numpy())
        params = _PARAMS.pack(self.levels, norm + 2 + 2 * mode, self.bucket) + _NONZEROS.pack(nonzeros)
        return params, to_bytes(sent) + codes

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map norms and packed levels to the estimate."""
        del seed
        levels, form, bucket, nonzeros = _read_params(header)
        bucket = _actual_bucket(header.dim, bucket)
        count = -(-header.dim // bucket)
        if form < _ENTROPY:
            bits = _level_bits(levels)
            check_body(header, body, 4 * count + count * bucket * bits // 8, what="qsgd")
            codes = read_codes(body[4 * count :], device)
            signed = unpack_bits(codes.view(count, bucket * bits // 8), bits, bucket).float() - levels
        elif len(body) < 4 * count:
            raise InvalidParams(f"qsgd of dim {header.dim} has {4 * count} bytes of norms, the body {len(body)}")
        else:
            signed = _read_elias(header, body[4 * count :], form // 2 - 1, nonzeros, device)
            signed = torch.nn.functional.pad(signed, (0, count * bucket - header.dim)).view(count, bucket)
        norms = read_floats(body[: 4 * count], dim=header.dim).to(device)
        if bool((signed.abs() > levels).any()):
            raise InvalidParams(f"payload holds levels above {levels}; reject the sender")
        estimate: Tensor = signed / levels * norms[:, None]
        return estimate.reshape(-1)[: header.dim].clone()


def _read_params(header: Header) -> tuple[int, int, int, int]:
    """Return levels, form (norm, and coding times two), bucket and the number of non-zeros in Elias codes."""
    entropy = len(header.params) != _PARAMS.size
    check_params(header, _PARAMS.size + entropy * _NONZEROS.size, what="qsgd")
    levels, form, bucket = _PARAMS.unpack(header.params[: _PARAMS.size])
    forms = range(_ENTROPY, 6) if entropy else range(_ENTROPY)
    if not (1 <= levels <= 127 and form in forms and 8 <= bucket <= MAX_BUCKET and bucket % 8 == 0):
        raise InvalidParams(
            f"qsgd has levels {levels}, form {form}, bucket {bucket}; allowed: 1…127, {forms.start}…{forms.stop - 1}, "
            "multiples of 8 from 8 to 65536"
        )
    nonzeros = _NONZEROS.unpack(header.params[_PARAMS.size :])[0] if entropy else 0
    return levels, form, bucket, nonzeros


def _read_elias(header: Header, data: memoryview, mode: int, nonzeros: int, device: torch.device) -> Tensor:
    # In either form a codeword is a bit at least, so the sender has paid for what is allocated; zeros left out of the
    # sparse form are paid by their buckets' norms.
    signed = levels_code.decode(data, header.dim, mode=mode, nonzeros=nonzeros)
    if signed is None:
        raise InvalidParams(f"qsgd's Elias codes are not those of {header.dim} levels; reject the sender")
    return torch.from_numpy(signed).float().to(device)


def _level_bits(levels: int) -> int:
    return (2 * levels).bit_length()


def _actual_bucket(dim: int, bucket: int) -> int:
    """Return the bucket, or less for a vector that is shorter; a multiple of 8."""
    return min(bucket, max(8, -(-dim // 8) * 8))
