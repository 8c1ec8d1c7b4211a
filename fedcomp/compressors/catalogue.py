"""Which schemes there are: names, wire numbers, rates and errors. Plain data; torch is never loaded from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A scheme at one setting.

    Attributes
    ----------
    spec
        The spec string.
    nominal_bits
        Bits per coordinate asked for; None when the scheme has no fixed rate.
    vnmse
        ‖x̂−x‖²/‖x‖² of a million independent standard normal coordinates. Rotated schemes have the same on any vector;
        the others have less or more where the vector's energy sits in few coordinates.
    entropy_coded
        Whether some of what is sent has a code whose length depends on the value.
    """

    spec: str
    nominal_bits: float | None
    vnmse: float
    entropy_coded: bool = False


@dataclass(frozen=True)
class Scheme:
    """One entry of the catalogue.

    Attributes
    ----------
    name
        The name in spec strings.
    number
        The scheme number in payload headers; never reused.
    module, class_name
        Where its Compressor lives.
    summary
        What it sends, in one line.
    examples
        Settings to know it by.
    unbiased
        Whether the mean of the decoded vectors over seeds is the input; where not, use error feedback.
    """

    name: str
    number: int
    module: str
    class_name: str
    summary: str
    examples: tuple[Example, ...]
    unbiased: bool = True


_PACKAGE = "fedcomp.compressors"

SCHEMES: tuple[Scheme, ...] = (
    Scheme(
        "identity",
        0,
        f"{_PACKAGE}.identity",
        "Identity",
        "every coordinate as float32",
        examples=(Example("identity", 32, 0),),
    ),
    Scheme(
        "eden",
        1,
        f"{_PACKAGE}.eden",
        "Eden",
        "rotated blocks: Lloyd-Max or trellis levels, a scale, a mean",
        examples=(
            Example("eden:bits=0.1", 0.1, 14.7),
            Example("eden:bits=0.5", 0.5, 2.157),
            Example("eden:bits=1", 1, 0.5754),
            Example("eden:bits=1.5", 1.5, 0.3178),
            Example("eden:bits=2", 2, 0.1341),
            Example("eden:bits=3", 3, 0.03605),
            Example("eden:bits=4", 4, 0.00968),
            Example("eden:bits=8", 8, 4.17e-5),
            Example("eden:bits=1,quantizer=trellis", 1, 0.4423),
            Example("eden:bits=2,quantizer=trellis", 2, 0.0944),
            Example("eden:bits=4,quantizer=trellis", 4, 0.00625),
            Example("eden:bits=1,coding=entropy", 1, 0.5395, entropy_coded=True),
            Example("eden:bits=2,coding=entropy", 2, 0.0987, entropy_coded=True),
            Example("eden:bits=0.25,quantizer=trellis,coding=entropy", 0.25, 2.94, entropy_coded=True),
            Example("eden:bits=0.5,quantizer=trellis,coding=entropy", 0.5, 1.222, entropy_coded=True),
            Example("eden:bits=1,quantizer=trellis,coding=entropy", 1, 0.3877, entropy_coded=True),
            Example("eden:bits=2,quantizer=trellis,coding=entropy", 2, 0.07535, entropy_coded=True),
            Example("eden:bits=4,quantizer=trellis,coding=entropy", 4, 0.004425, entropy_coded=True),
        ),
    ),
    Scheme("drive", 2, f"{_PACKAGE}.drive", "Drive", "eden at one bit", examples=(Example("drive", 1, 0.5754),)),
    Scheme(
        "hadamard",
        3,
        f"{_PACKAGE}.hadamard",
        "HadamardSQ",
        "rotated blocks: random levels between the extremes",
        examples=(
            Example("hadamard:bits=1", 1, 14.8),
            Example("hadamard:bits=2", 2, 1.21),
            Example("hadamard:bits=4", 4, 0.047),
        ),
    ),
    Scheme(
        "float16",
        4,
        f"{_PACKAGE}.half",
        "Float16",
        "every coordinate as float16, randomly rounded",
        examples=(Example("float16", 16, 8.6e-8),),
    ),
    Scheme(
        "bfloat16",
        5,
        f"{_PACKAGE}.half",
        "BFloat16",
        "every coordinate as bfloat16, randomly rounded",
        examples=(Example("bfloat16", 16, 5.52e-6),),
    ),
    Scheme(
        "qsgd",
        6,
        f"{_PACKAGE}.qsgd",
        "QSGD",
        "buckets: a norm and random levels of it",
        examples=(
            Example("qsgd:bits=2", 2.0625, 16.9),
            Example("qsgd:bits=4", 4.0625, 1.583),
            Example("qsgd:bits=4,coding=entropy", None, 1.583, entropy_coded=True),
        ),
    ),
    Scheme(
        "terngrad",
        7,
        f"{_PACKAGE}.terngrad",
        "TernGrad",
        "the largest magnitude times -1, 0 or 1 at random",
        examples=(Example("terngrad", 1.6, 2.9),),
    ),
    Scheme(
        "sign",
        8,
        f"{_PACKAGE}.sign",
        "Sign",
        "blocks: the mean magnitude and signs",
        examples=(Example("sign", 1, 0.3633),),
        unbiased=False,
    ),
    Scheme(
        "topk",
        9,
        f"{_PACKAGE}.topk",
        "TopK",
        "the largest coordinates and their places",
        examples=(Example("topk:fraction=0.01", 0.4056, 0.915, entropy_coded=True),),
        unbiased=False,
    ),
    Scheme(
        "randk",
        10,
        f"{_PACKAGE}.randk",
        "RandK",
        "random coordinates; the seed tells their places",
        examples=(Example("randk:fraction=0.05", 1.6, 19),),
    ),
    Scheme(
        "kashin",
        11,
        f"{_PACKAGE}.kashin",
        "Kashin",
        "rotated blocks: twice the coefficients or more, none large",
        examples=(
            Example("kashin:bits=1", 2, 0.6578),
            Example("kashin:bits=2", 4, 0.0786),
        ),
    ),
    Scheme(
        "quicfl",
        12,
        f"{_PACKAGE}.quicfl",
        "QuicFL",
        "rotated blocks: levels that the seed shifts, exact outliers",
        examples=(
            Example("quicfl:bits=1", 1.0112, 1.565, entropy_coded=True),
            Example("quicfl:bits=2", 2.022, 0.2286, entropy_coded=True),
            Example("quicfl:bits=4", 4.043, 0.00999, entropy_coded=True),
        ),
    ),
    Scheme(
        "correlated",
        13,
        f"{_PACKAGE}.correlated",
        "Correlated",
        "hadamard with errors that cancel in a cohort",
        examples=(
            Example("correlated:bits=1", 1, 14.8),
            Example("correlated:bits=2", 2, 1.21),
        ),
    ),
    Scheme(
        "powersgd",
        14,
        f"{_PACKAGE}.powersgd",
        "PowerSGD",
        "each matrix as the product of two thin ones",
        examples=(Example("powersgd:rank=2", None, 0.996),),
        unbiased=False,
    ),
)


def available_compressors() -> list[str]:
    """Return the names of all schemes that ``fedcomp.compressor`` knows, sorted."""
    return sorted(scheme.name for scheme in SCHEMES)
