from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import njit

from fedcomp.kernels import cpu_jit


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: tmp_path / "cache" / name)
    return tmp_path / "cache" / "fedcomp"


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


def test_compiled_code_is_kept_in_the_users_cache_wherever_the_app_was_unpacked(cache: Path) -> None:
    def four_times(x: float) -> float:
        return 4 * x

    assert cpu_jit.jit(four_times)(1.5) == 6
    source = cache / f"kernels-{cpu_jit._digest()}" / "test_cpu_jit.py"
    assert four_times.__code__.co_filename == str(source)
    assert source.read_bytes() == Path(__file__).read_bytes()
    assert list(source.parent.glob("__pycache__/*.nbc"))
    # A second process finds the file as it is: numba looks at its time.
    before = source.stat().st_mtime_ns
    cpu_jit.jit(lambda x: x)
    assert source.stat().st_mtime_ns == before


def test_a_cache_that_cannot_be_written_changes_nothing(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")

    def five_times(x: float) -> float:
        return 5 * x

    assert cpu_jit.jit(five_times)(1.5) == 7.5
    assert five_times.__code__.co_filename == __file__


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
