"""Which schemes there are: names, wire numbers, one line each. Plain data; torch is never loaded from here."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    name: str
    number: int
    module: str
    class_name: str
    summary: str


_PACKAGE = "fedcomp.compressors"

SCHEMES: tuple[Scheme, ...] = (
    Scheme("identity", 0, f"{_PACKAGE}.identity", "Identity", "every coordinate as float32"),
    Scheme("eden", 1, f"{_PACKAGE}.eden", "Eden", "rotated blocks: Lloyd-Max levels, a scale, a mean where it pays"),
    Scheme("drive", 2, f"{_PACKAGE}.drive", "Drive", "eden at one bit"),
    Scheme("hadamard", 3, f"{_PACKAGE}.hadamard", "HadamardSQ", "rotated blocks: random levels between the extremes"),
    Scheme("float16", 4, f"{_PACKAGE}.half", "Float16", "every coordinate as float16, randomly rounded"),
    Scheme("bfloat16", 5, f"{_PACKAGE}.half", "BFloat16", "every coordinate as bfloat16, randomly rounded"),
    Scheme("qsgd", 6, f"{_PACKAGE}.qsgd", "QSGD", "buckets: a norm and random levels of it"),
    Scheme("terngrad", 7, f"{_PACKAGE}.terngrad", "TernGrad", "the largest magnitude times -1, 0 or 1 at random"),
    Scheme("sign", 8, f"{_PACKAGE}.sign", "Sign", "blocks: the mean magnitude and signs"),
    Scheme("topk", 9, f"{_PACKAGE}.topk", "TopK", "the largest coordinates and their places"),
    Scheme("randk", 10, f"{_PACKAGE}.randk", "RandK", "random coordinates; the seed tells their places"),
    Scheme("correlated", 13, f"{_PACKAGE}.correlated", "Correlated", "hadamard with errors that cancel in a cohort"),
    Scheme("powersgd", 14, f"{_PACKAGE}.powersgd", "PowerSGD", "each matrix as the product of two thin ones"),
)


def available_compressors() -> list[str]:
    """Return the names of all schemes that ``fedcomp.compressor`` knows, sorted."""
    return sorted(scheme.name for scheme in SCHEMES)
