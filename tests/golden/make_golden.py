"""Write the golden files anew; only for a new version of a format, never to make a test pass.

Run as ``python -m tests.golden.make_golden`` from the project's root and read the difference before committing it.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

import fedcomp
from fedcomp.seeds import Stream, derive_seed, seed_fingerprint, words
from tests.support import codec

HERE = Path(__file__).parent


def integers(dim: int) -> torch.Tensor:
    """Return small integers, whose rotations are exact in float32 on every machine."""
    index = torch.arange(dim)
    return ((index * 37 + 11) % 17 - 8).float()


def shifted(dim: int) -> torch.Tensor:
    """Return the same with a mean of 24, which is worth sending and exact in bfloat16."""
    return integers(dim) + 24


def uneven() -> torch.Tensor:
    """Return 4,000 of the same integers, most times 0, some times 64."""
    factors = torch.tensor([64.0, 1.0, 0.0, 0.0]).repeat_interleave(1000)
    return integers(4000) * factors


def seeds() -> dict[str, object]:
    cases = [(seed, int(stream), sub) for seed in (0, 1, 2**32, 2**64 - 1) for stream in Stream for sub in (0, 1)]
    drawn = [
        {
            "seed": str(seed),
            "stream": stream,
            "substream": sub,
            "words": words(seed, Stream(stream), 6, substream=sub).tolist(),
        }
        for seed, stream, sub in cases
    ]
    derived = []
    for secret, round_index, client_id, purpose in [
        (b"\x00", 0, 0, "rotation"),
        (b"0123456789abcdef", 1, 2, "rotation"),
        (b"0123456789abcdef", 1, 2, "training"),
        (b"k" * 100, 2**64 - 1, 2**64 - 1, "cohort"),
    ]:
        seed = derive_seed(secret, round_index, client_id, purpose)
        derived.append(
            {
                "secret": secret.hex(),
                "round_index": str(round_index),
                "client_id": str(client_id),
                "purpose": purpose,
                "seed": str(seed),
                "fingerprint": str(seed_fingerprint(seed)),
            }
        )
    return {"words": drawn, "derived": derived}


def payloads() -> list[dict[str, object]]:
    cases: list[dict[str, object]] = []
    others = ("drive", "hadamard", "float16", "bfloat16", "qsgd", "terngrad", "sign", "topk:fraction=0.1", "randk")
    later = ("qsgd:coding=entropy", "kashin", "quicfl", "correlated:clients=3,rank=1", "powersgd:rank=1")
    uneven_specs = ("eden:bits=1,allocation=adaptive", "eden:bits=3.5,allocation=adaptive")
    specs = (
        "identity",
        "eden:bits=0.5",
        "eden:bits=1",
        "eden:bits=2",
        "eden:bits=2.5",
        "eden:bits=4,block=256",
        "eden:bits=8",
        *others,
        *later,
    )
    for make in (integers, shifted):
        cases += [_case(make(dim), make.__name__, spec) for spec in specs for dim in (0, 3, 100, 600)]
    cases += [_case(uneven(), "uneven", spec) for spec in uneven_specs]
    return cases


def codes() -> list[dict[str, object]]:
    """Return payloads of EDEN's other codes; of 2,100 coordinates the largest block has two lanes of the trellis."""
    specs = (
        "eden:bits=2,quantizer=trellis",
        "eden:bits=2.5,quantizer=trellis,states=64",
        "eden:bits=1.3,coding=entropy",
        "eden:bits=0.4,quantizer=trellis,coding=entropy",
        "eden:bits=3,quantizer=trellis,coding=entropy",
    )
    cases: list[dict[str, object]] = []
    for make in (integers, shifted):
        cases += [_case(make(dim), make.__name__, spec) for spec in specs for dim in (0, 3, 600, 2100)]
    both = "eden:bits=2,allocation=adaptive,quantizer=trellis,coding=entropy"
    return [*cases, _case(uneven(), "uneven", both)]


def _case(x: torch.Tensor, name: str, spec: str) -> dict[str, object]:
    payload = codec.encode(spec, x, seed=2**63 + 5)
    decoded = [round(value, 6) for value in fedcomp.decode(payload, seed=2**63 + 5).tolist()]
    return {"input": name, "spec": spec, "dim": x.numel(), "payload": payload.hex(), "decoded": decoded}


def main() -> None:
    (HERE / "seeds.json").write_text(json.dumps(seeds(), indent=1) + "\n")
    (HERE / "payloads.json").write_text(json.dumps(payloads()) + "\n")
    (HERE / "codes.json").write_text(json.dumps(codes()) + "\n")


if __name__ == "__main__":
    main()
