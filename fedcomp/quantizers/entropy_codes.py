"""Codes whose indices are sent at the length of their entropy: levels, frequencies and prices, sixteen rates a bit.

After the rotation coordinates are N(0, 1), so the frequencies are known and no table travels. Levels are equally spaced
and frequencies fall as exp(−level²/2v), both given by the step alone: for a single quantizer, as good as any
(Gish and Pierce, "Asymptotically efficient quantizing", IEEE Trans. Inf. Theory 14, 1968); on the trellis 0.45 dB above
the rate-distortion bound at every rate from one bit up. Below one bit the trellis has two or three levels, and a price
on the less frequent of them (entropy-constrained trellis-coded quantization: Fischer and Wang, IEEE Trans. Inf.
Theory 38, 1992).

Decoding depends on the frequencies, so they are integers, found by additions and multiplications only,
which every machine rounds alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from fedcomp.kernels.viterbi import Codebook

RUNGS = 16
"""Rates a bit: rung r is r/16 of a bit a coordinate."""

MAX_RUNG = 8 * RUNGS
_STEP_UNIT, _LOW_UNIT = 65536, 4096
_REACH = 6.0
_TOTAL = 2**20

# fmt: off
_TRELLIS_STEPS = (
    79519, 75205, 71120, 67265, 63656, 60296, 57175, 54274, 51573, 49049, 46685, 44465, 42374, 40402, 38538, 36774,
    35102, 33515, 32008, 30576, 29214, 27918, 26683, 25508, 24387, 23318, 22299, 21327, 20399, 19513, 18668, 17860,
    17089, 16352, 15647, 14974, 14331, 13716, 13127, 12565, 12027, 11513, 11021, 10550, 10100, 9669, 9256, 8862, 8484,
    8123, 7777, 7446, 7129, 6826, 6536, 6258, 5992, 5737, 5494, 5260, 5037, 4823, 4618, 4422, 4234, 4055, 3883, 3718,
    3560, 3409, 3264, 3126, 2993, 2866, 2745, 2628, 2517, 2410, 2308, 2210, 2116, 2027, 1941, 1858, 1779, 1704, 1632,
    1563, 1496, 1433, 1372, 1314, 1258, 1205, 1154, 1105, 1058, 1013, 970, 929, 890, 852, 816, 781, 748, 716, 686,
    657, 629, 602, 577, 552, 529,
)
_SCALAR_STEPS = (
    357173, 319900, 295812, 277386, 262151, 248970, 237218, 226512, 216596, 207292, 198468, 190028, 181893, 173997,
    166293, 158750, 151353, 144103, 137023, 130148, 123524, 117194, 111189, 105525, 100203, 95208, 90521, 86120,
    81981, 78085, 74410, 70940, 67658, 64552, 61609, 58818, 56168, 53650, 51257, 48981, 46814, 44750, 42784, 40910,
    39123, 37418, 35791, 34238, 32756, 31340, 29988, 28695, 27461, 26280, 25152, 24074, 23042, 22056, 21113, 20210,
    19347, 18521, 17731, 16975, 16252, 15559, 14897, 14263, 13656, 13075, 12519, 11986, 11477, 10989, 10522, 10075,
    9647, 9238, 8845, 8470, 8110, 7766, 7436, 7121, 6819, 6529, 6252, 5987, 5733, 5490, 5257, 5034, 4820, 4616, 4420,
    4233, 4053, 3881, 3717, 3559, 3408, 3264, 3125, 2993, 2866, 2744, 2628, 2517, 2410, 2308, 2210, 2116, 2026, 1941,
    1858, 1780, 1704, 1632, 1563, 1496, 1433, 1372, 1314, 1258, 1205, 1154, 1105, 1058,
)
_LOW: dict[int, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    1: ((-11129, 437), (480, 65056), 4220),
    2: ((-9881, 698), (1126, 64410), 4045),
    3: ((-9083, 909), (1881, 63655), 3879),
    4: ((-8462, 1097), (2734, 62802), 3723),
    5: ((-7992, 1251), (3688, 61848), 3550),
    6: ((-7581, 1390), (4746, 60790), 3370),
    7: ((-7253, 1499), (5913, 59623), 3183),
    8: ((-6952, 1596), (7208, 58328), 2985),
    9: ((-6700, 1665, 13470), (8609, 56923, 4), 2777),
    10: ((-6463, 1718, 13733), (10072, 55435, 29), 2572),
    11: ((-6249, 1749, 12713), (11571, 53872, 93), 2375),
    12: ((-6051, 1765, 11837), (12992, 52322, 222), 2186),
    13: ((-5875, 1761, 11080), (14259, 50827, 450), 2008),
    14: ((-5702, 1749, 10483), (15399, 49358, 779), 1847),
    15: ((-5533, 1727, 9991), (16485, 47851, 1200), 1698),
}
_TRELLIS_DISTORTION = (
    1.0, 0.9346, 0.8716, 0.8111, 0.7531, 0.6976, 0.6448, 0.5948, 0.5476, 0.5036, 0.4629, 0.4251, 0.3903, 0.3584,
    0.3289, 0.3019,
)
_SCALAR_DISTORTION = (
    1.0, 0.9410, 0.8876, 0.8373, 0.7895, 0.7438, 0.6999, 0.6578, 0.6174, 0.5785, 0.5412, 0.5053, 0.4710, 0.4382,
    0.4068, 0.3769, 0.3486, 0.3218, 0.2965, 0.2728, 0.2508, 0.2303, 0.2114, 0.1939, 0.1779, 0.1631, 0.1496, 0.1372,
    0.1258, 0.1154, 0.1058, 0.0970, 0.0890,
)
# fmt: on
"""_LOW: levels in 1/4,096, frequencies in 1/65,536, and what a bit costs in squared error, in 1/4,096; by rung.

The distortions are by rung from 0, 1 − ⟨q, z⟩²/(‖q‖²·‖z‖²) for z ~ N(0, 1), the trellis's with eight states."""


@dataclass(frozen=True)
class EntropyCode:
    """A codebook and how often each of its indices is met, as integers.

    ``gain`` is what levels are multiplied by once they are chosen. It matters where two rungs meet in a block: there
    the levels of both must be, up to one factor for both, the means of what is quantized to them. Those of neighbouring
    single quantizers are, to a few percent, without it.
    """

    codebook: Codebook
    frequencies: tuple[int, ...]
    gain: float


@cache
def trellis_code(rung: int) -> EntropyCode:
    """Return the code of the trellis quantizer at a rung from 1 to 128."""
    if rung in _LOW:
        units, frequencies, price = _LOW[rung]
        total = sum(frequencies)
        prices = tuple(price / _LOW_UNIT * math.log2(total / frequency) for frequency in frequencies)
        return EntropyCode(Codebook(tuple(unit / _LOW_UNIT for unit in units), prices), frequencies, 1.0)
    # A level and its mirrored one lie on either side of zero at a quarter of the codebook's spacing of two steps.
    step = _TRELLIS_STEPS[rung - RUNGS] / _STEP_UNIT
    half = 2 * math.ceil(_REACH / (4 * step))
    levels = tuple((2 * index + 0.5) * step for index in range(-half, half + 1))
    # 0.26: the spread of the levels that the search chooses, fitted to runs of it.
    spread = 1 + 0.26 * step * step
    # A level is the value plus an error that hardly depends on it, of variance spread − 1.
    return _equally_spaced(levels, spread, gain=1 / spread)


@cache
def scalar_code(rung: int) -> EntropyCode:
    """Return the code of a single uniform quantizer at a rung from 1 to 128."""
    step = _SCALAR_STEPS[rung - 1] / _STEP_UNIT
    half = max(2, math.ceil(_REACH / step))
    # Rounding to a step adds step²/12 to the variance, as long as steps are short; fitted where they are not.
    spread = 1 + step * step / 12 if step <= 3 else 1.75 + (step - 3) * (0.385 - 0.0195 * (step - 3))
    return _equally_spaced(tuple(index * step for index in range(-half, half + 1)), spread, gain=1.0)


def trellis_distortion(rung: int) -> float:
    """Return the share of the energy of N(0, 1) that the code of a rung loses, with eight states."""
    # 1.1105: 0.455 dB above the bound.
    return _TRELLIS_DISTORTION[rung] if rung < RUNGS else 1.1105 * 2 ** (-2 * rung / RUNGS)


def scalar_distortion(rung: int) -> float:
    """Return the share of the energy of N(0, 1) that the single quantizer of a rung loses."""
    last = len(_SCALAR_DISTORTION) - 1
    return _SCALAR_DISTORTION[min(rung, last)] * 2 ** (-2 * max(0, rung - last) / RUNGS)


def _equally_spaced(levels: tuple[float, ...], spread: float, *, gain: float) -> EntropyCode:
    weights = [_exp_minus(level * level / (2 * spread)) for level in levels]
    total = sum(weights)
    frequencies = tuple(int(weight / total * _TOTAL) + 1 for weight in weights)
    return EntropyCode(Codebook(levels, (0.0,) * len(levels)), frequencies, gain)


def _exp_minus(x: float) -> float:
    """Return e^(−x) for 0 ≤ x ≤ 64 by its series: the library's function may differ between machines."""
    small = x / 1024
    value = 1.0
    for term in range(12, 0, -1):
        value = 1.0 - small / term * value
    for _ in range(10):
        value *= value
    return value
