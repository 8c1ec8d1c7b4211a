"""Estimate the mean of ten vectors from their payloads and print error and true rate of each compressor."""

from __future__ import annotations

import torch

import fedcomp
from fedcomp.metrics import nmse

DIM, CLIENTS = 100_000, 10


def main() -> None:
    """Print one line a compressor."""
    generator = torch.Generator().manual_seed(1)
    vectors = [torch.randn(DIM, generator=generator) for _ in range(CLIENTS)]
    print(f"{'compressor':<14} {'bits/coordinate':>15} {'NMSE of the mean':>17}")
    for spec in ("eden:bits=0.5", "eden:bits=1", "eden:bits=2", "eden:bits=4", "identity"):
        codec = fedcomp.compressor(spec)
        estimator = fedcomp.MeanEstimator(DIM)
        for client, vector in enumerate(vectors):
            seed = fedcomp.derive_seed(b"known to the server", 1, client, "rotation")
            estimator.add(codec.encode(vector, seed=seed), weight=1.0, seed=seed)
        result = estimator.result()
        rate = 8 * result.bytes / (CLIENTS * DIM)
        print(f"{spec:<14} {rate:>15.4f} {nmse(result.mean, vectors):>17.6f}")


if __name__ == "__main__":
    main()
