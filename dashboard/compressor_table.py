"""The schemes' expected errors beside what no code can beat, from the catalogue."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from fedcomp.compressors.catalogue import SCHEMES


class CompressorRow(BaseModel):
    """A scheme at one setting.

    Attributes
    ----------
    vnmse
        ‖x̂−x‖²/‖x‖² of a million standard normal coordinates.
    bound
        The least that an unbiased code can have at this rate on such a vector, None without a fixed rate; for biased
        schemes the least of any code.
    """

    model_config = ConfigDict(frozen=True)

    spec: str
    scheme: str
    bits: float | None
    vnmse: float
    bound: float | None
    unbiased: bool
    entropy_coded: bool
    summary: str


def shannon_bound(bits: float, *, unbiased: bool) -> float:
    """Return the least vNMSE on a flat Gaussian vector at `bits` per coordinate.

    With D = 2^(−2·bits) it is D, and 1/(1−D) − 1 for codes whose mean over seeds is the input.

    Source: C. E. Shannon, Coding theorems for a discrete source with a fidelity criterion, IRE Convention Record, 1959.
    """
    distortion: float = 2.0 ** (-2.0 * bits)
    return distortion / (1.0 - distortion) if unbiased else distortion


def compressor_rows() -> list[CompressorRow]:
    """Return one row a scheme and setting, in the catalogue's order."""
    return [
        CompressorRow(
            spec=example.spec,
            scheme=scheme.name,
            bits=example.nominal_bits,
            vnmse=example.vnmse,
            bound=None
            if example.nominal_bits is None
            else shannon_bound(example.nominal_bits, unbiased=scheme.unbiased),
            unbiased=scheme.unbiased,
            entropy_coded=example.entropy_coded,
            summary=scheme.summary,
        )
        for scheme in SCHEMES
        for example in scheme.examples
    ]
