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


SCHEMES: tuple[Scheme, ...] = (
    Scheme("identity", 0, "fedcomp.compressors.identity", "Identity", "every coordinate as float32"),
    Scheme(
        "eden",
        1,
        "fedcomp.compressors.eden",
        "Eden",
        "rotated blocks: Lloyd-Max levels, a scale, a mean where it pays",
    ),
)


def available_compressors() -> list[str]:
    """Return the names of all schemes that ``fedcomp.compressor`` knows, sorted."""
    return sorted(scheme.name for scheme in SCHEMES)
