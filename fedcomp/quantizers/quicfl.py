"""QUIC-FL's quantizer: unbiased, B bits a number, with levels that depend on a number which both sides share.

Ben Basat, Vargaftik, Portnoy, Einziger, Ben-Itzhak, Mitzenmacher, "Accelerating federated learning with quick
distributed mean estimation", ICML 2024 (arXiv 2205.13341), §3. The levels are not the published ones, and the encoder,
there a table of probabilities, is here the best one for given levels, in closed form.

The levels g_0 < g_1 < … are H·2^B in number, g_i = −g_(H·2^B − 1 − i). Level i stands for message i div H and belongs
to the shared number h = i mod H, so any window of H consecutive levels has one of each h. An encoder picks, at random
between two neighbours, a window whose levels have mean z on average, and sends the message of that level of it which
belongs to its own h. As h is uniform, the estimate has mean z. The first window has mean −t, the last t: all |z| ≤ t
can be sent.

No unbiased encoder has a smaller error on these levels. Least E(ẑ − z)² with E ẑ = z means, by Lagrange, that each h
picks its level nearest to z + λ for one λ. The edges between two levels of an h are (g_i + g_(i+H))/2, increasing in i;
so as λ grows the picks are a window that slides by one level at each edge, and on an edge both windows are as good.

**The constants.** For a window s let M_s and Q_s be the means of its levels and of their squares, and Q(z) linear
between the points (M_s, Q_s). The levels minimise the expected squared error of z ~ N(0, 1) within the range,

    ∫ (Q(z) − z²) φ(z) dz,  |z| ≤ t,  given that the last window's mean is t, where P(|z| > t) = ``OUTLIERS``,

among the levels that interpolate linearly between 65 knots: 0 in the middle and 64 above it, evenly spaced in the
level's index, with negatives below. A knot for each level would gain 0.1 % at most, and twice the H 0.25 %: at many
bits the error exceeds that of H = ∞ by a share of 1/H². ``OUTLIERS`` is the power of two of least error at equal bits
when a number beyond t costs 34 − log2 p bits. The knots are constants because both sides must agree to the bit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.seeds import Stream, words

MAX_BITS = 8

SHARED: dict[int, int] = {1: 128, 2: 64, 3: 32, 4: 32, 5: 32, 6: 32, 7: 32, 8: 32}
"""H, how many values the shared number has, by bits."""

OUTLIERS: dict[int, float] = {1: 2**-12, 2: 2**-11, 3: 2**-10, 4: 2**-10, 5: 2**-10, 6: 2**-10, 7: 2**-10, 8: 2**-10}
"""p = P(|z| > t) for z ~ N(0, 1), by bits."""

DISTORTION: dict[int, float] = {
    1: 1.565070045,
    2: 0.2286221867,
    3: 0.04452801116,
    4: 0.009989337416,
    5: 0.002363781996,
    6: 0.0005746910779,
    7: 0.0001416086498,
    8: 3.513163379e-05,
}
"""E(ẑ − z)² for z ~ N(0, 1) where numbers beyond the range are sent exactly, by bits."""

# Substreams of the rounding stream: 0 is the encoder's own noise.
_SHARED_SUBSTREAM = 1

# fmt: off
_KNOTS: dict[int, tuple[float, ...]] = {
    1: (
        0.085447, 0.14131525, 0.19761338, 0.24818988, 0.29748374, 0.34470468, 0.39082397, 0.4359337, 0.48035615,
        0.52425652, 0.56781151, 0.61116054, 0.65443307, 0.69774521, 0.7412057, 0.78491741, 0.82897969, 0.87348989,
        0.91854483, 0.96424206, 1.01068104, 1.05796434, 1.10619869, 1.15549626, 1.2059758, 1.25776405, 1.31099716,
        1.36582235, 1.42239976, 1.48090456, 1.54152944, 1.60448744, 1.67001532, 1.73837756, 1.80987112, 1.88483114,
        1.96363791, 2.04672529, 2.13459112, 2.2278101, 2.32704991, 2.43309152, 2.54685516, 2.66943364, 2.80213596,
        2.94654474, 3.10459318, 3.27866981, 3.47176305, 3.68766624, 3.93126973, 4.20900319, 4.52947328, 4.90457572,
        5.35094811, 5.89363304, 6.56874523, 7.44189535, 8.60102514, 10.3026315, 12.76369165, 17.89849934, 26.37653626,
        89.89721769,
    ),
    2: (
        0.04258617, 0.08402933, 0.12490505, 0.16523423, 0.20516821, 0.24477905, 0.28415369, 0.32336285, 0.36247658,
        0.40156049, 0.44067893, 0.4798952, 0.51927273, 0.55887582, 0.59877053, 0.6390256, 0.67971346, 0.7209114,
        0.76270298, 0.80517979, 0.84844328, 0.89260867, 0.9378054, 0.98419169, 1.03193505, 1.0813001, 1.13245034,
        1.18608815, 1.24183156, 1.30305027, 1.36469152, 1.4551844, 1.50453431, 1.54609905, 1.59215109, 1.63867827,
        1.68728499, 1.73766958, 1.79021894, 1.84512181, 1.90268289, 1.9632248, 2.02713495, 2.09486586, 2.16695637,
        2.24405207, 2.32693508, 2.41656312, 2.51412342, 2.62110809, 2.73942041, 2.87153333, 3.02071578, 3.19141811,
        3.38977194, 3.62481167, 3.90933551, 4.26586923, 4.72377118, 5.3657796, 6.25329216, 7.95849702, 10.50025963,
        26.85171777,
    ),
    3: (
        0.03550312, 0.07103013, 0.10659954, 0.14222614, 0.17792257, 0.21369992, 0.24956859, 0.28553888, 0.32162154,
        0.35782848, 0.39417282, 0.43067088, 0.46733988, 0.50420572, 0.54129279, 0.57865245, 0.61637017, 0.65446479,
        0.69290669, 0.73168333, 0.77078903, 0.81022624, 0.85000583, 0.89014757, 0.93067907, 0.97164246, 1.0130816,
        1.05508468, 1.09769147, 1.14115607, 1.18538802, 1.23156735, 1.27961786, 1.32776936, 1.37612546, 1.42491176,
        1.47424214, 1.5243156, 1.57531758, 1.62748724, 1.68107887, 1.736482, 1.79398054, 1.85460769, 1.9179373,
        1.98921977, 2.06053176, 2.18046712, 2.25507906, 2.31550784, 2.38663944, 2.46078757, 2.54221436, 2.6313978,
        2.73086129, 2.84352054, 2.97363734, 3.12846793, 3.31692566, 3.5648764, 3.8863264, 4.45684606, 5.22347958,
        9.89658537,
    ),
    4: (
        0.03379146, 0.06759577, 0.10142577, 0.13529441, 0.16921472, 0.2031999, 0.2372633, 0.2714185, 0.30567931,
        0.34005981, 0.37457443, 0.40923801, 0.44406585, 0.47907376, 0.51427804, 0.5496955, 0.58534349, 0.62124015,
        0.65740473, 0.69385756, 0.73061993, 0.76771389, 0.80516217, 0.84298818, 0.88121728, 0.9198787, 0.9590046,
        0.99862796, 1.03878089, 1.07949604, 1.12080639, 1.16274867, 1.20538135, 1.24877677, 1.29298946, 1.33806183,
        1.38402583, 1.43094072, 1.47884427, 1.52789332, 1.57841641, 1.63047512, 1.68393188, 1.73881755, 1.79512124,
        1.85331405, 1.91306418, 1.97728181, 2.04618596, 2.11587945, 2.18686488, 2.26058123, 2.33713446, 2.42222661,
        2.5075288, 2.65657543, 2.7600078, 2.84897316, 2.95859047, 3.08739651, 3.2468812, 3.49431244, 3.81518572,
        5.67582352,
    ),
    5: (
        0.03291549, 0.06584286, 0.09879403, 0.13178097, 0.16481576, 0.19791057, 0.23107774, 0.26432982, 0.29767954,
        0.33113992, 0.36472425, 0.39844619, 0.43231973, 0.46635933, 0.50057989, 0.53499683, 0.56962617, 0.60448455,
        0.63958931, 0.6749586, 0.71061138, 0.74656758, 0.78284816, 0.81947522, 0.85647212, 0.89386363, 0.93167603,
        0.96993732, 1.00867739, 1.04792822, 1.08772413, 1.12810203, 1.16910178, 1.21076647, 1.25314286, 1.29628196,
        1.34023935, 1.38507589, 1.43085889, 1.47766265, 1.52556829, 1.5746679, 1.62506568, 1.67687423, 1.73021845,
        1.78526251, 1.84216877, 1.90110367, 1.96231669, 2.02618718, 2.09275726, 2.16248926, 2.23625229, 2.31458489,
        2.39561932, 2.48522179, 2.58307743, 2.68543487, 2.78505476, 2.9498374, 3.07519143, 3.20319369, 3.36945575,
        4.13202764,
    ),
    6: (
        0.03247042, 0.06495226, 0.09745695, 0.12999599, 0.16258097, 0.19522358, 0.22793567, 0.26072925, 0.29361655,
        0.32661002, 0.35972241, 0.39296678, 0.42635651, 0.45990542, 0.49362773, 0.52753816, 0.56165198, 0.59598503,
        0.63055381, 0.66537555, 0.70046826, 0.73585082, 0.77154308, 0.80756593, 0.84394143, 0.88069291, 0.91784512,
        0.95542438, 0.99345871, 1.03197806, 1.07101452, 1.11060252, 1.15077914, 1.19158443, 1.23306175, 1.27525817,
        1.31822501, 1.36201834, 1.40669968, 1.45233674, 1.49900438, 1.54678565, 1.59577311, 1.64607048, 1.69779441,
        1.75107708, 1.80606867, 1.86294195, 1.92189485, 1.98316084, 2.04700678, 2.11376444, 2.18379676, 2.25762031,
        2.33569998, 2.41899892, 2.50788205, 2.60478582, 2.70846608, 2.82767582, 2.95026891, 3.11745691, 3.24774194,
        3.57583259,
    ),
    7: (
        0.03223934, 0.06448986, 0.09676275, 0.12906926, 0.16142074, 0.19382863, 0.22630452, 0.25886015, 0.29150749,
        0.32425872, 0.35712629, 0.39012296, 0.42326181, 0.45655632, 0.49002037, 0.52366834, 0.55751508, 0.59157606,
        0.62586733, 0.66040567, 0.6952086, 0.73029448, 0.76568258, 0.80139319, 0.83744771, 0.87386876, 0.91068031,
        0.94790781, 0.98557838, 1.02372094, 1.06236644, 1.10154809, 1.14130159, 1.18166547, 1.22268136, 1.26439444,
        1.30685388, 1.35011332, 1.39423152, 1.43927308, 1.48530924, 1.53241894, 1.58068998, 1.63022047, 1.6811206,
        1.73351476, 1.7875442, 1.84337027, 1.90117861, 1.96118436, 2.02363897, 2.08883899, 2.15713786, 2.22896176,
        2.30483141, 2.38539288, 2.47146214, 2.56409134, 2.664672, 2.77509839, 2.89806358, 3.03749187, 3.20004679,
        3.39433991,
    ),
    8: (
        0.03211744, 0.06424592, 0.09639652, 0.12858037, 0.16080868, 0.19309275, 0.22544405, 0.25787418, 0.29039497,
        0.32301845, 0.35575692, 0.38862299, 0.42162957, 0.45478998, 0.48811792, 0.52162756, 0.55533358, 0.58925121,
        0.62339631, 0.6577854, 0.69243574, 0.72736543, 0.76259344, 0.79813975, 0.83402541, 0.87027266, 0.90690508,
        0.94394768, 0.98142709, 1.01937171, 1.05781191, 1.09678025, 1.13631172, 1.17644406, 1.21721802, 1.25867781,
        1.30087147, 1.34385141, 1.38767497, 1.43240513, 1.4781113, 1.5248703, 1.57276749, 1.62189814, 1.67236911,
        1.72430088, 1.77783003, 1.83311238, 1.89032683, 1.94968035, 2.01141428, 2.07581259, 2.14321279, 2.21402059,
        2.28872996, 2.36795132, 2.45245188, 2.5432155, 2.64153421, 2.7491543, 2.86852201, 3.00321283, 3.15890371,
        3.34328989,
    ),
}
# fmt: on


def levels(bits: int, *, device: torch.device) -> Tensor:
    """Return the H·2^bits levels in increasing order, float32; symmetric about zero.

    The weights of the interpolation are multiples of a power of two, and each operation rounds by itself, so the
    levels are the same to the bit everywhere.
    """
    knots = torch.tensor([0.0, *_KNOTS[bits]], dtype=torch.float64)
    half = SHARED[bits] * 2**bits // 2
    position = (torch.arange(half, dtype=torch.float64) + 0.5) * ((len(knots) - 1) / half)
    below = position.to(torch.int64)
    weight = position - below
    positive = (knots[below] * (1 - weight) + knots[below + 1] * weight).float()
    return torch.cat([-positive.flip(0), positive]).to(device)


def windows(bits: int, *, device: torch.device) -> Tensor:
    """Return the means of the H·(2^bits − 1) + 1 windows in increasing order, float32."""
    means: Tensor = levels(bits, device=device).double().unfold(0, SHARED[bits], 1).mean(dim=1)
    return means.float()


def reach(bits: int) -> float:
    """Return t: numbers from −t to t can be sent without bias."""
    return float(windows(bits, device=torch.device("cpu"))[-1])


def shared_numbers(count: int, bits: int, *, seed: int, device: torch.device) -> Tensor:
    """Return ``count`` shared numbers, uniform in [0, H), uint8; independent of the rotation and of the rounding noise.

    Number i is the low bits of byte i of its stream. Cost: a quarter of a random word each.
    """
    source = words(seed, Stream.ROUNDING, -(-count // 4), substream=_SHARED_SUBSTREAM)
    numbers = source.astype("<u4").view(np.uint8)[:count] & np.uint8(SHARED[bits] - 1)
    return torch.from_numpy(numbers).to(device)


def choose_window(z: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Map numbers to the windows around them: the lower one's index, int32, and the other one's probability, float32.

    Numbers out of range get the first or the last window.
    """
    means = windows(bits, device=z.device)
    lower = (torch.bucketize(z, means, right=True, out_int32=True) - 1).clamp_(0, len(means) - 2)
    low, high = means[lower], means[lower + 1]
    return lower, ((z - low) / (high - low)).clamp_(0, 1)


def message(window: Tensor, shared: Tensor, bits: int) -> Tensor:
    """Map windows and shared numbers to the message of the window's level that belongs to the number, uint8."""
    # Level i = H·x + h lies in window s when s ≤ i < s + H, that is x = ⌊(s + H − 1 − h) / H⌋.
    count = SHARED[bits]
    shifted = window + (count - 1) - shared.to(torch.int32)
    return torch.div(shifted, count, rounding_mode="floor").to(torch.uint8)


def quantize(z: Tensor, shared: Tensor, bits: int, *, seed: int) -> Tensor:
    """Map numbers to messages in [0, 2^bits), uint8, in the shape of ``z``.

    Guarantee: over the shared numbers and the noise of ``seed`` the mean of ``dequantize`` is z, if |z| ≤ ``reach``.
    """
    lower, fraction = choose_window(z, bits)
    # A fraction of 1 and noise just below 1 have a sum that float32 rounds to 2.
    step = round_stochastically(fraction, seed=seed).clamp_(max=1).to(torch.int32)
    return message(lower + step, shared, bits)


def dequantize(messages: Tensor, shared: Tensor, bits: int) -> Tensor:
    """Map messages and the same shared numbers to levels, float32, in the shape of ``messages``."""
    return levels(bits, device=messages.device)[messages.to(torch.int32) * SHARED[bits] + shared.to(torch.int32)]
