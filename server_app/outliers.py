"""Which clients' updates look unlike the others': a report, never a rejection."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.aggregation import check_weight, l2_norm
from fedcomp.errors import DimMismatch, NonFinite
from fedcomp.seeds import Stream, words

WIDTH = 256
LEAST_CLIENTS = 5
DEVIATIONS = 3.5

# A median absolute deviation times this is the standard deviation of normal numbers.
_SCALE = 1.4826
# Norms of honest updates are skewed, and nearly alike at times: less than 1.7 times the median is no news.
_LEAST_NORM_SPREAD = 0.2
_CHUNK = 2**20


@dataclass(frozen=True)
class ClientOutlier:
    """What the report says of one client.

    Attributes
    ----------
    name
        Who.
    norm
        L2 norm of its decoded update.
    cosine
        Of the angle between its update and the mean of the others'; 0 where one of them is zero.
    flag
        What is unusual about it; None when nothing is.
    """

    name: str
    norm: float
    cosine: float
    flag: str | None


class OutlierReport:
    """Keeps of each decoded update its norm and a random projection to 256 numbers.

    The projection is a count sketch (Charikar, Chen, Farach-Colton, ICALP 2002): each coordinate is added, with a
    random sign, to one of 256 random places. Inner products are unbiased for every pair of vectors, and a cosine has a
    standard error of about 1/16. Memory: 2 bytes a coordinate, and 256 numbers a client. It serves one round.

    Parameters
    ----------
    dim
        Coordinates of an update.
    seed
        Of signs and places; no client should know it.
    """

    def __init__(self, dim: int, *, seed: int) -> None:
        self._dim = dim
        # Nine bits a coordinate: a place, and whether the sign is negative.
        self._places = [
            _places(seed, min(_CHUNK, dim - start), part=part) for part, start in enumerate(range(0, dim, _CHUNK))
        ]
        self._names: list[str] = []
        self._norms: list[float] = []
        self._vnmses: list[float] = []
        self._weights: list[float] = []
        self._projections: list[NDArray[np.float64]] = []

    def add(self, name: str, vector: Tensor, weight: float, *, expected_vnmse: float = 0.0) -> None:
        """Take one client's decoded update; cost: one pass.

        Parameters
        ----------
        name
            Who sent it.
        vector
            1-D float tensor of dim coordinates.
        weight
            Its weight in the mean.
        expected_vnmse
            What its scheme is known to add, v: a decoded update is √(1+v) times as long as the true one, so clients of
            few bits would look too long. The scheme's own number, not what the client reports.

        Raises
        ------
        DimMismatch, NonFinite, InvalidWeight
            When the vector or the weight cannot be used; the report is left as it was.
        """
        checked = check_weight(weight)
        if vector.shape != (self._dim,):
            raise DimMismatch(f"the vector has shape {tuple(vector.shape)}, the report is of dim {self._dim}")
        norm = l2_norm(vector)
        if not math.isfinite(norm):
            raise NonFinite(f"the vector of {name} holds a NaN or an infinity; report only decoded updates")
        self._projections.append(self._project(vector))
        self._names.append(name)
        self._norms.append(norm)
        self._vnmses.append(expected_vnmse)
        self._weights.append(checked)

    def report(self) -> list[ClientOutlier]:
        """Return one entry a client, in the order they were added.

        The mean of the others takes each with at most the median norm, so that one huge update does not turn the
        cosines of all. Flags need at least 5 clients: a norm more than 3.5 scaled median absolute deviations above the
        median, or a cosine that is negative and as far below the median. Norms are taken to deviate by at least
        a fifth of their median.
        """
        if not self._names:
            return []
        lengths = np.array(self._norms) / np.sqrt(1 + np.array(self._vnmses))
        cosines = self._cosines(lengths)
        usual = float(np.median(lengths))
        longest = usual + DEVIATIONS * max(_spread(lengths), _LEAST_NORM_SPREAD * usual)
        lowest = float(np.median(cosines)) - DEVIATIONS * _spread(cosines)
        result = []
        for name, norm, length, cosine in zip(self._names, self._norms, lengths, cosines, strict=True):
            flags = []
            if length > longest:
                flags.append(f"norm {length:.4g} where {usual:.4g} is usual and {longest:.4g} the limit")
            if cosine < min(lowest, 0.0):
                flags.append(f"cosine {cosine:.2f} to the others where {np.median(cosines):.2f} is usual")
            flag = "; ".join(flags) if flags and len(self._names) >= LEAST_CLIENTS else None
            result.append(ClientOutlier(name, norm, float(cosine), flag))
        return result

    def _project(self, vector: Tensor) -> NDArray[np.float64]:
        sums = np.zeros(2 * WIDTH)
        for part, places in enumerate(self._places):
            values = vector[part * _CHUNK : (part + 1) * _CHUNK].detach().to("cpu").double().numpy()
            sums += np.bincount(places, weights=values, minlength=2 * WIDTH)
        return sums[:WIDTH] - sums[WIDTH:]

    def _cosines(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        projections = np.stack(self._projections)
        usual = float(np.median(lengths))
        cut = np.minimum(1.0, np.divide(usual, lengths, out=np.ones_like(lengths), where=lengths > 0))
        counted = (np.array(self._weights) * cut)[:, None] * projections
        others = counted.sum(axis=0) - counted
        products = (projections * others).sum(axis=1)
        sizes = np.linalg.norm(projections, axis=1) * np.linalg.norm(others, axis=1)
        cosines: NDArray[np.float64] = np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)
        return cosines


def _places(seed: int, count: int, *, part: int) -> NDArray[np.uint16]:
    halves = words(seed, Stream.SAMPLING, -(-count // 2), substream=part).astype("<u4").view("<u2")[:count]
    return (halves >> 7).astype(np.uint16)


def _spread(values: NDArray[np.float64]) -> float:
    return _SCALE * float(np.median(np.abs(values - np.median(values))))
