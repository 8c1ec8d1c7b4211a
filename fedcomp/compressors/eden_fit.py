"""Rate control: the length of an entropy-coded payload is known once it is made, so it is made again until it fits.

All rates move by the same amount, which is what water-filling would do with a little more or less budget. The amount
depends on all blocks' rotated coordinates together, through one number, the length; each block's own rate, given that,
does not depend on the part of it that the quantizer errs in.
"""

from __future__ import annotations

from collections.abc import Callable

from fedcomp.compressors.rates import ONE_BIT

_AIM, _ENOUGH = 0.998, 0.9935
_TRIES = 8
_ALL = 8 * ONE_BIT
"""Takes any rate to its end."""


def aimed_at(room: int) -> int:
    """Return the expected bytes with which to begin so that the real ones rarely exceed ``room``."""
    return int(room * _AIM) - 4


Encoding = tuple[bytes, bytes]
"""Parameters and body."""


def encode_to_fit(encode: Callable[[int], Encoding], *, room: int, coordinates: int) -> Encoding:
    """Return the longest of some encodings whose body fits ``room`` bytes; when none can, the shortest.

    Parameters
    ----------
    encode
        Maps what is added to the rates, in 1/65,536 of a bit, to an encoding.
    coordinates
        How many have these rates.
    """
    # The length scatters: other rates are other paths through the trellis. So no attempt rules out rates for the next.
    shift, tried, made = 0, set[int](), []
    for _ in range(_TRIES):
        tried.add(shift)
        made.append(encode(shift))
        length = len(made[-1][1])
        # The entropy coder's bytes come in fours.
        if min(_ENOUGH * room, room - 8) <= length <= room:
            break
        missing = int((_AIM * room - length) * 8 * ONE_BIT / max(coordinates, 1))
        shift = min(max(shift + missing, -_ALL), _ALL)
        if shift in tried:
            break
    fitting = [item for item in made if len(item[1]) <= room]
    if fitting:
        return max(fitting, key=lambda item: len(item[1]))
    return min((*made, encode(-_ALL)), key=lambda item: len(item[1]))
