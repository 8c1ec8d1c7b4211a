"""Distributed mean estimation: error against bits on the wire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from fedcomp.aggregation import MeanEstimator
from fedcomp.bench.distributions import SavedUpdate, draw, square_shapes
from fedcomp.compressors.registry import compressor, decode
from fedcomp.metrics import nmse, vnmse
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed


@dataclass(frozen=True)
class DmeResult:
    """What one compressor did on one kind of vector.

    Attributes
    ----------
    spec, distribution, dim, clients, repeats
        What was measured.
    bits_per_coordinate
        8·(bytes of all payloads)/(coordinates of all vectors).
    vnmse
        Mean of ‖x̂−x‖²/‖x‖² over clients and repeats.
    nmse
        Mean over repeats of ‖mean x̂ − mean x‖² / mean ‖x‖².
    """

    spec: str
    distribution: str
    dim: int
    clients: int
    repeats: int
    bits_per_coordinate: float
    vnmse: float
    nmse: float


def measure(
    spec: str, *, distribution: str, dim: int, clients: int, repeats: int, seed: int, update: SavedUpdate | None = None
) -> DmeResult:
    """Encode the vectors of ``clients`` clients ``repeats`` times, with new seeds each time, and return the errors.

    Parameters
    ----------
    spec
        The compressor.
    distribution, dim
        What each client's vector is drawn from; with ``update`` every client holds that vector instead.
    seed
        Fixes vectors and rotations.
    """
    codec = compressor(spec)
    secret = b"fedcomp bench dme" + seed.to_bytes(8, "little")
    shapes = update.shapes if update is not None else square_shapes(dim)
    single = mean = 0.0
    sent = 0
    for repeat in range(repeats):
        vectors = [
            update.vector if update is not None else _vector(secret, distribution, dim, repeat, c)
            for c in range(clients)
        ]
        estimator = MeanEstimator(vectors[0].numel())
        for client, x in enumerate(vectors):
            rotation = derive_seed(secret, repeat, COHORT_CLIENT_ID if codec.shares_seed else client, "rotation")
            payload = codec.for_member(client, clients).encode(x, seed=rotation, shapes=shapes)
            single += vnmse(decode(payload, seed=rotation), x)
            estimator.add(payload, weight=1.0, seed=rotation)
            sent += len(payload)
        mean += nmse(estimator.result().mean, vectors)
    dim = vectors[0].numel()
    count = clients * repeats
    label = "update" if update is not None else distribution
    return DmeResult(spec, label, dim, clients, repeats, 8 * sent / (count * dim), single / count, mean / repeats)


def sweep(
    specs: Sequence[str],
    *,
    distributions: Sequence[str],
    dims: Sequence[int],
    clients: int,
    repeats: int,
    seed: int,
    update: SavedUpdate | None = None,
) -> Iterator[DmeResult]:
    """Yield ``measure`` of every combination, as it is done."""
    for distribution in distributions if update is None else ["update"]:
        for dim in dims if update is None else [update.vector.numel()]:
            for spec in specs:
                yield measure(
                    spec, distribution=distribution, dim=dim, clients=clients, repeats=repeats, seed=seed, update=update
                )


def shannon_vnmse(bits: float) -> float:
    """Return the least unbiased vNMSE at ``bits`` a coordinate on a Gaussian vector, 1/(1 − 2^(−2·bits)) − 1."""
    return 1 / (1 - 2 ** (-2 * bits)) - 1


def _vector(secret: bytes, distribution: str, dim: int, repeat: int, client: int) -> Tensor:
    return draw(distribution, dim, seed=derive_seed(secret, repeat, client, "vector") % 2**63)
