from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import fedcomp
from fedcomp.errors import ConfigError
from fedcomp.kernels import cpu, eden_rows, reference
from fedcomp.transforms.hadamard import rotate, rotation_signs

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
GPU = ModuleType("fedcomp.kernels.gpu")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    eden_rows._load.cache_clear()
    yield
    eden_rows._load.cache_clear()


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What can be imported; the GPU's backend is a stand-in."""
    there = {"numba", "triton"}
    import_module = importlib.import_module

    def find(name: str) -> ModuleType:
        if name in ("numba", "triton"):
            if name not in there:
                raise ImportError(f"No module named {name!r}")
            return GPU
        return GPU if name == "fedcomp.kernels.gpu" else import_module(name)

    monkeypatch.setattr(importlib, "import_module", find)
    return there


@pytest.mark.parametrize(
    ("word", "on_cpu", "on_cuda"),
    [
        (None, cpu, GPU),
        ("auto", cpu, GPU),
        ("cpu", cpu, reference),
        ("gpu", reference, GPU),
        ("reference", reference, reference),
    ],
)
def test_the_variable_chooses_when_it_is_read(
    word: str | None, on_cpu: ModuleType, on_cuda: ModuleType, packages: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDCOMP_KERNELS", raising=False)
    if word is not None:
        monkeypatch.setenv("FEDCOMP_KERNELS", word)
    assert eden_rows.backend_for(CPU) is on_cpu
    assert eden_rows.backend_for(CUDA) is on_cuda
    assert eden_rows.backend_for(torch.device("meta")) is reference


def test_what_cannot_be_imported_is_done_by_the_reference_unless_it_was_asked_for(
    packages: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.clear()
    assert eden_rows.backend_for(CPU) is reference
    assert eden_rows.backend_for(CUDA) is reference
    monkeypatch.setenv("FEDCOMP_KERNELS", "cpu")
    with pytest.raises(ConfigError, match="FEDCOMP_KERNELS is 'cpu', but numba cannot be imported; install it or use"):
        eden_rows.backend_for(CPU)
    monkeypatch.setenv("FEDCOMP_KERNELS", "gpu")
    with pytest.raises(ConfigError, match="FEDCOMP_KERNELS is 'gpu', but triton cannot be imported"):
        eden_rows.backend_for(CUDA)


def test_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_KERNELS", "fast")
    with pytest.raises(ConfigError, match="FEDCOMP_KERNELS is 'fast'; allowed: auto, reference, cpu, gpu"):
        fedcomp.compressor("eden").encode(torch.ones(300), seed=1)


@pytest.mark.parametrize("word", ["reference", "cpu"])
def test_every_function_goes_to_the_backend(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_KERNELS", word)
    chosen, other = (reference, cpu) if word == "reference" else (cpu, reference)
    names = ["encode_rows", "decode_rows", "accumulate_rows", "rotate_rows", "unrotate_rows", "row_moments"]
    names += ["row_products"]
    called: list[str] = []
    for name in names:
        function = getattr(chosen, name)

        def spy(*arguments: object, name: str = name, function: object = function, **more: object) -> object:
            called.append(name)
            return function(*arguments, **more)  # type: ignore[operator]

        monkeypatch.setattr(chosen, name, spy)
        monkeypatch.delattr(other, name)
    signs, means = rotation_signs(1, 256, rounds=2, device=CPU), torch.zeros(2)
    x = torch.randn(2, 256, generator=torch.Generator().manual_seed(1))
    scales, codes = eden_rows.encode_rows(x, means, signs, low=4, k=0, unbiased=True)
    out, into = torch.empty(2, 256), torch.zeros(2, 256, dtype=torch.float64)
    eden_rows.decode_rows(codes, scales, means, signs, low=4, k=0, out=out)
    eden_rows.accumulate_rows(codes, scales, means, signs, low=4, k=0, into=into, weight=2.0)
    turned = eden_rows.rotate_rows(x, signs)
    back = eden_rows.unrotate_rows(turned, signs)
    sums, energies = eden_rows.row_moments(x, means)
    products = eden_rows.row_products(x, turned)
    assert called == names
    assert float((out - x).norm()) < 0.2 * float(x.norm())
    assert torch.equal(into, 2 * out.double())
    assert torch.equal(turned, rotate(x, signs))
    torch.testing.assert_close(back, x)
    torch.testing.assert_close(products, (x.double() * turned.double()).sum(dim=1))
    torch.testing.assert_close(sums, x.double().sum(dim=1))
    torch.testing.assert_close(energies, x.double().square().sum(dim=1))


@pytest.mark.parametrize(
    "spec", ["eden:bits=0.5", "eden:bits=2.5", "eden:bits=8,rounds=3", "hadamard", "quicfl", "kashin"]
)
def test_both_backends_write_the_same_payloads(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of this vector no coordinate is near a boundary.
    x = torch.randn(3000, generator=torch.Generator().manual_seed(5)) + 0.5
    payloads = []
    for word in ("reference", "cpu"):
        monkeypatch.setenv("FEDCOMP_KERNELS", word)
        payloads.append(fedcomp.compressor(spec).encode(x, seed=3))
    assert payloads[0] == payloads[1]


def test_numba_is_imported_when_something_is_encoded_and_not_before() -> None:
    script = """
import sys, fedcomp, fedcomp.compressors.catalogue
codec = fedcomp.compressor("eden:bits=2")
import torch
assert "numba" not in sys.modules and "triton" not in sys.modules
codec.encode(torch.ones(300), seed=1)
assert "numba" in sys.modules and "triton" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
