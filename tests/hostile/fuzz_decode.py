"""Coverage-guided fuzzing of ``decode`` and ``MeanEstimator.add`` with atheris, which is libFuzzer for Python.

``make fuzz`` runs it. A violated invariant is an exception, and libFuzzer writes the input to ``.fuzz/``. ``python -m
tests.hostile.fuzz_decode FILE`` repeats such an input and writes the payload that it stands for to FILE.bin, which
belongs into the corpus (``make_corpus.py``) once it is understood. Other arguments are libFuzzer's.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import atheris
import torch

with atheris.instrument_imports(include=["fedcomp"]):
    import importlib

    import fedcomp
    from fedcomp.aggregation import MeanEstimator
    from fedcomp.compressors.catalogue import SCHEMES
    from fedcomp.errors import PayloadError
    from fedcomp.wire import HEADER_BYTES, MAX_DIM, read_header

    # Else they would be loaded when first used, without instrumentation.
    for scheme in SCHEMES:
        importlib.import_module(scheme.module)

from tests.hostile.fuzz_inputs import DIMS, MAX_SMALL_DIM, SEED, SPECS, build_payload, honest, seed_inputs
from tests.hostile.memory import limited_memory

FOLDER = Path(".fuzz")
ALLOCATION = 2**27
"""Bytes that one decoding may map: some 5,000 times what the largest of the small vectors has."""
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=512", "-max_len=4096", "-print_final_stats=1"]


class InvariantViolation(Exception):
    """Something other than a refusal or a finite vector came of a payload."""


def check_one_input(data: bytes) -> None:
    """Build a payload of the fuzzer's bytes and check all that must hold of any payload."""
    payload = build_payload(atheris.FuzzedDataProvider(data))
    with limited_memory(ALLOCATION):
        decoded = check_decode(payload)
        check_estimator(payload, decoded)


def check_decode(payload: bytes) -> torch.Tensor | None:
    """Decode and return the vector, or None when the payload is refused; nothing else may happen."""
    try:
        header = read_header(payload)
        # With the usual limit on dim, or with none, so that the schemes see dims that are out of all proportion.
        decoded = fedcomp.decode(payload, seed=SEED, max_dim=MAX_DIM if len(payload) % 2 else 2**64)
    except PayloadError as error:
        require(len(str(error)) >= 10, f"the error says only {str(error)!r}")
        return None
    require(decoded.dtype == torch.float32 and decoded.shape == (header.dim,), "not a float32 vector of dim")
    require(bool(torch.isfinite(decoded).all()), "what decodes is not finite")
    buffer = bytearray(payload)
    again = fedcomp.decode(buffer, seed=SEED, expected_dim=header.dim)
    require(buffer == payload, "decoding wrote to the payload")
    buffer[:] = bytes(len(buffer))
    require(again.numpy().tobytes() == decoded.numpy().tobytes(), "a second decoding differs, or shares memory")
    return decoded


def check_estimator(payload: bytes, decoded: torch.Tensor | None) -> None:
    """Add the payload to an estimator: it is refused as ``decode`` does, and unnoticed, or counted."""
    claimed = int.from_bytes(payload[8:16], "little") if len(payload) >= HEADER_BYTES else 0
    dim = claimed if claimed <= MAX_SMALL_DIM else 300
    estimator = MeanEstimator(dim)
    estimator.add(honest("identity", dim), weight=1.0, seed=SEED)
    before = estimator.result()
    try:
        estimator.add(payload, weight=3.0, seed=SEED)
    except PayloadError:
        require(decoded is None or claimed != dim, "add refuses what decode accepts")
        after = estimator.result()
        require(torch.equal(before.mean, after.mean), "a refused payload changed the mean")
        counts = (before.weight, before.clients, before.bytes)
        require(counts == (after.weight, after.clients, after.bytes), "a refused payload was counted")
        return
    require(decoded is not None, "add accepts what decode refuses")
    after = estimator.result()
    require((after.weight, after.clients, after.bytes) == (4.0, 2, before.bytes + len(payload)), "not counted")
    require(bool(torch.isfinite(after.mean).all()), "the mean is not finite")


def require(condition: bool, violation: str) -> None:
    if not condition:
        raise InvariantViolation(violation)


def main() -> None:
    torch.set_num_threads(1)
    # A warning on the server's side is an effect too.
    warnings.simplefilter("error")
    arguments = sys.argv[1:]
    given = [Path(argument) for argument in arguments if not argument.startswith("-")]
    for path in filter(Path.is_file, given):
        path.with_name(f"{path.name}.bin").write_bytes(build_payload(atheris.FuzzedDataProvider(path.read_bytes())))
    if not given:
        for name in ("seeds", "corpus"):
            (FOLDER / name).mkdir(parents=True, exist_ok=True)
        for name, data in seed_inputs():
            (FOLDER / "seeds" / name).write_bytes(data)
        # What torch maps when it is first used is no payload's doing.
        for spec in SPECS:
            fedcomp.decode(honest(spec, max(DIMS)), seed=SEED)
        arguments += [str(FOLDER / "corpus"), str(FOLDER / "seeds")]
    atheris.Setup([sys.argv[0], *LIMITS, f"-artifact_prefix={FOLDER}/", *arguments], check_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
