from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import njit

from fedcomp.kernels import cpu_jit


def double(x: float) -> float:
    return 2 * x


def test_without_a_place_for_the_cache_each_process_compiles_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def no_cache(function: Callable[..., object], *, cache: bool = False, **options: Any) -> object:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available for file 'x.py'")
        return njit(function, **options)

    monkeypatch.setattr("fedcomp.kernels.cpu_jit.njit", no_cache)
    assert cpu_jit.jit(double)(1.5) == 3
    assert asked == [True, False]


def test_the_name_under_which_code_is_kept_has_the_digest() -> None:
    def triple(x: float) -> float:
        return 3 * x

    cpu_jit.jit(triple)
    assert triple.__qualname__.endswith(f"triple_{cpu_jit._digest()}")


def test_a_change_of_any_kernel_source_is_a_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in Path(cpu_jit.__file__).parent.glob("cpu*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(cpu_jit, "__file__", str(tmp_path / "cpu_jit.py"))
    before = cpu_jit._digest()
    assert before == cpu_jit._digest()
    with (tmp_path / "cpu_vectors.py").open("a") as file:
        file.write("# another line\n")
    assert cpu_jit._digest() != before


def test_division_by_zero_is_infinite_as_in_torch() -> None:
    def ratio(x: float, y: float) -> float:
        return x / y

    assert cpu_jit.jit(ratio)(1.0, 0.0) == float("inf")
