"""The Triton kernels compiled for two GPUs; Triton brings its own assembler, so none is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fedcomp.kernels import gpu, gpu_decode, gpu_encode, gpu_rotation

pytestmark = pytest.mark.skipif(not gpu.is_installed(), reason="Triton is not installed")

FLOATS = ("blocks", "means", "signs", "scales", "boundaries", "centroids", "source", "out")
TYPES = dict.fromkeys(FLOATS, "*fp32") | {"codes": "*u8", "words": "*i32"}
ROTATION = {"rounds": 2, "factor": 2.0**-10}
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "signs": (gpu_rotation.sign_kernel, {}),
    "rotate": (gpu_rotation.rotation_kernel, {**ROTATION, "inverse": False}),
    "unrotate": (gpu_rotation.rotation_kernel, {**ROTATION, "inverse": True}),
    "encode 2 and 1": (gpu_encode.encode_kernel, {**ROTATION, "bits": 2, "rest": 1, "unbiased": True}),
    "encode 8 and 7": (gpu_encode.encode_kernel, {**ROTATION, "bits": 8, "rest": 7, "unbiased": False}),
    "decode 2 and 1": (gpu_decode.decode_kernel, {**ROTATION, "bits": 2, "rest": 1, "accumulate": False}),
    "add 8 and 7": (gpu_decode.decode_kernel, {**ROTATION, "bits": 8, "rest": 7, "accumulate": True}),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))


def compiled(kernel: Any, options: dict[str, Any], *, n: int, capability: int, weight: str = "i64") -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    a, b = gpu._shape(n)
    constants = {"a": a, "b": b, **options}
    types = {**TYPES, "weight": weight, **dict.fromkeys(constants, "constexpr")}
    if options.get("accumulate"):
        types["out"] = "*fp64"
    # Nothing is known of any argument's value, as at a launch: they are all in ``do_not_specialize``.
    signature = {name: types.get(name, "i32") for name in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=gpu.launch_options(a))


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_kernels_compile_and_round_as_the_reference(name: str, capability: int) -> None:
    kernel, options = VARIANTS[name]
    found = compiled(kernel, options, n=512, capability=capability)
    assert found.asm["cubin"]
    # No fused multiplication and addition of float32, no subnormal number flushed to zero.
    assert not re.search(r"\bfma\.rn\.f32|\.ftz", found.asm["ptx"])
    assert found.metadata.enable_fp_fusion is False


@pytest.mark.parametrize("name", ["encode 2 and 1", "decode 2 and 1"])
def test_the_longest_block_fits_into_a_small_gpus_shared_memory(name: str) -> None:
    kernel, options = VARIANTS[name]
    found = compiled(kernel, options, n=gpu.MAX_BLOCK, capability=80)
    assert found.asm["cubin"]
    assert found.metadata.shared <= 99 * 1024


def test_a_weight_of_zero_is_an_integer_of_32_bits() -> None:
    kernel, options = VARIANTS["add 8 and 7"]
    assert compiled(kernel, options, n=256, capability=90, weight="i32").asm["cubin"]


@pytest.mark.parametrize("n", [1024, 4096])
def test_a_rotation_of_two_rounds_exchanges_four_times(n: int) -> None:
    # Three transpositions and one to store: all butterflies are within threads.
    found = compiled(*VARIANTS["rotate"], n=n, capability=90)
    assert found.asm["ttgir"].count("ttg.convert_layout") == 4


def test_arguments_are_never_compiled_in() -> None:
    for kernel, options in VARIANTS.values():
        named = {item.name for item in kernel.params if item.do_not_specialize or item.is_constexpr}
        assert set(kernel.arg_names) - named <= {"boundaries", "centroids"}
        assert set(options) <= named


def test_launches_ask_for_what_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Kernel:
        def __getitem__(self, grid: tuple[int]) -> Any:
            return lambda *_, **options: asked.append({"grid": grid, **options})

    monkeypatch.setattr(gpu_rotation, "sign_kernel", Kernel())
    monkeypatch.setattr(gpu_rotation, "rotation_kernel", Kernel())
    for n in (256, 16384):
        gpu.rotate_rows(torch.zeros((3, n)), torch.ones((2, n)))
    gpu.rotate_rows(torch.zeros((0, 256)), torch.ones((2, 256)))
    common = {"num_stages": 1, "enable_fp_fusion": False}
    small, large = ({"a": 16, "b": 16, "num_warps": 1}, {"a": 128, "b": 128, "num_warps": 4})
    assert asked == [
        {"grid": (2,), **small, **common},
        {"grid": (3,), **small, **common, "rounds": 2, "factor": 1 / 256, "inverse": False},
        {"grid": (2,), **large, **common},
        {"grid": (3,), **large, **common, "rounds": 2, "factor": 1 / 16384, "inverse": False},
        {"grid": (2,), **small, **common},
    ]
