"""The Triton kernel in Triton's interpreter, which needs no GPU, and compiled for one; tests/gpu runs it there."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcomp import seeds
from fedcomp.errors import ConfigError
from fedcomp.kernels import philox_triton
from fedcomp.seeds import Stream

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "seeds.json").read_text())
needs_triton = pytest.mark.skipif(not philox_triton._INSTALLED, reason="Triton is not installed")


def copy_of_the_module() -> ModuleType:
    """Return the module as one that is imported now, whatever was imported before."""
    spec = importlib.util.spec_from_file_location("a_copy_of_philox_triton", philox_triton.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def interpreted() -> Iterator[ModuleType]:
    """A copy whose kernel Triton interprets: that is settled when the kernel is made, at the first call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        module = copy_of_the_module()
        module.words(0, Stream.ROTATION, 1, device="cpu")
        yield module


@needs_triton
@pytest.mark.parametrize("case", GOLDEN["words"])
def test_words_are_golden(case: dict[str, Any], interpreted: ModuleType) -> None:
    seed, stream = int(case["seed"]), Stream(case["stream"])
    found = interpreted.words(seed, stream, 6, substream=case["substream"], device="cpu")
    assert found.dtype == torch.int64
    assert found.tolist() == case["words"]


@needs_triton
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**64 - 1),
    stream=st.sampled_from(Stream),
    substream=st.integers(0, 2**32 - 1),
    count=st.integers(0, 2100),
)
def test_words_are_numpys(interpreted: ModuleType, seed: int, stream: Stream, substream: int, count: int) -> None:
    found = interpreted.words(seed, stream, count, substream=substream, device="cpu")
    assert found.tolist() == seeds.words(seed, stream, count, substream=substream).tolist()


@needs_triton
def test_an_index_beyond_one_word_goes_on_in_the_next(interpreted: ModuleType) -> None:
    first = 2**32 - 3
    counters = [[index % 2**32, index >> 32, 2, 1] for index in range(first, first + 6)]
    expected = seeds.philox(np.array(counters, dtype=np.uint32), (5, 6)).reshape(-1)
    assert interpreted._draw((5, 6), (2, 1), 24, first=first, device="cpu").tolist() == expected.tolist()


@needs_triton
@pytest.mark.parametrize("count", [1, 2, 3, 4, 1022])
def test_nothing_is_written_past_the_end(interpreted: ModuleType, count: int) -> None:
    out = torch.full((1024,), -1)
    interpreted._kernel()[(1,)](out, count, 0, 7, 0, 1, 0, size=256)
    assert out[count:].eq(-1).all()
    assert out[:count].ge(0).all()


@needs_triton
@pytest.mark.parametrize("count", [0, 1, 33, 1000])
def test_signs_and_uniforms_are_numpys(interpreted: ModuleType, count: int) -> None:
    signs = interpreted.rademacher_signs(2**63 + 5, count, rotation_round=1, device="cpu")
    noise = interpreted.uniforms(2**63 + 5, count, device="cpu")
    assert signs.dtype == noise.dtype == torch.float32
    assert signs.tolist() == seeds.rademacher_signs(2**63 + 5, count, rotation_round=1).tolist()
    assert noise.tolist() == seeds.uniforms(2**63 + 5, count).tolist()


@needs_triton
@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_the_kernel_compiles_for_a_gpu(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The interpreter takes more of Python than the compiler does. Triton brings its own assembler, so no GPU is needed.
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    # A number is 32 bits for Triton when it fits into a signed 32-bit integer, else 64.
    signature = {"out": "*i64", **dict.fromkeys(("count", "first", "key0", "key1", "stream", "substream"), kind)}
    kernel = copy_of_the_module()._kernel()
    source = ASTSource(fn=kernel, signature={**signature, "size": "constexpr"}, constexprs={"size": 256})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"debug": True})
    assert compiled.asm["cubin"]
    assert "mul.hi.u32" in compiled.asm["ptx"]
    # In debug mode an addition or product that may wrap ends the program, unless it is marked as meant.
    assert "assert" not in compiled.asm["ptx"]


@needs_triton
def test_a_cpu_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(
        ConfigError, match=r"device is 'cpu'; Triton runs on a CUDA device, fedcomp.kernels.philox_torch"
    ):
        copy_of_the_module().words(1, Stream.ROTATION, 4, device="cpu")


def test_without_triton_the_module_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    module = copy_of_the_module()
    with pytest.raises(ConfigError, match=r"Triton is not installed; run `pip install triton`"):
        module.words(1, Stream.ROTATION, 4, device="cpu")


def test_the_codec_never_loads_triton() -> None:
    code = (
        "import sys, torch, fedcomp\n"
        "payload = fedcomp.compressor('hadamard').encode(torch.ones(300), seed=1)\n"
        "fedcomp.decode(payload, seed=1)\n"
        "sys.exit('triton' in sys.modules or 'fedcomp.kernels.philox_triton' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_wrong_seed_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=f"seed is {seed}; allowed: integers in"):
        philox_triton.words(seed, Stream.ROTATION, 1, device="cpu")
