"""What EDEN's header says of the body: rate, block, rounds, flags and the length of the raw tail."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from fedcomp.compressors.base import check_params
from fedcomp.compressors.blocks import MIN_BLOCK
from fedcomp.compressors.eden_codes import Code
from fedcomp.compressors.rates import MAX_RATE
from fedcomp.errors import InvalidParams
from fedcomp.quantizers.trellis import STATES
from fedcomp.wire import Header

MAX_ROUNDS = 4
_STRUCT = struct.Struct("<IBBBB")
_MEANS, _ADAPTIVE, _ENTROPY = 1, 2, 4
_STATES_SHIFT = 4

PARAM_BYTES = _STRUCT.size


@dataclass(frozen=True)
class EdenParams:
    """The eight bytes of parameters.

    Attributes
    ----------
    rate
        Rate code of all blocks; 0 with adaptive allocation, where the body has one for each pool.
    block, rounds, raw
        Coordinates of the largest blocks, rounds of their rotation, coordinates sent as float32.
    code
        What the indices are sent in.
    has_means, adaptive
        Whether some block has a mean; whether coordinates are pooled.
    """

    rate: int
    block: int
    rounds: int
    raw: int
    code: Code
    has_means: bool
    adaptive: bool

    def pack(self) -> bytes:
        """Return the eight bytes."""
        flags = _MEANS * self.has_means + _ADAPTIVE * self.adaptive + _ENTROPY * self.code.entropy
        if self.code.trellis_states:
            flags += (self.code.trellis_states.bit_length() - 1) << _STATES_SHIFT
        return _STRUCT.pack(self.rate, self.block.bit_length() - 1, self.rounds, flags, self.raw)

    @classmethod
    def unpack(cls, header: Header, *, name: str) -> Self:
        """Read what ``pack`` wrote.

        Raises
        ------
        InvalidParams
            When they are not those of any encoder.
        """
        check_params(header, _STRUCT.size, what=name)
        rate, log_block, rounds, flags, raw = _STRUCT.unpack(header.params)
        has_means, adaptive, entropy = (bool(flags & flag) for flag in (_MEANS, _ADAPTIVE, _ENTROPY))
        log_states = flags >> _STATES_SHIFT
        states = 2**log_states if log_states else 0
        possible = rate <= MAX_RATE and 8 <= log_block <= 18 and 1 <= rounds <= MAX_ROUNDS and not flags & 8
        possible = possible and (not states or states in STATES)
        if not possible or (not adaptive and raw not in (0, header.dim % MIN_BLOCK)) or (adaptive and rate):
            raise InvalidParams(
                f"{name} parameters {header.params.hex()} say rate {rate}/65536, block 2^{log_block}, rounds "
                f"{rounds}, flags {flags} (2^{log_states} states), raw {raw}; allowed: rate to 8 (0 with pools), "
                f"block 2^8…2^18, rounds 1…{MAX_ROUNDS}, flags 0…7 and 16 times 0 or 2…8, raw 0 or "
                f"{header.dim % MIN_BLOCK}"
            )
        return cls(rate, 2**log_block, rounds, raw, Code(states, entropy), has_means, adaptive)
