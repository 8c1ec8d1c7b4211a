from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedcomp.training import available
from fedcomp.training.available import available_memory, most_resident_memory

CPU = torch.device("cpu")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(available, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(available, "_CGROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:       9000 kB\nMemAvailable:   5000 kB\nSwapFree: 1 kB\n")
    return tmp_path


def test_this_machine_has_memory() -> None:
    found = available_memory(CPU)
    assert found is None or 0 <= found <= 2**60


def test_linux_tells(system: Path) -> None:
    assert available_memory(CPU) == 5000 * 1024


@pytest.mark.parametrize(
    ("limit", "used", "expected"), [("4096000", "3000000", 1_196_000), ("max", "1", 5_120_000), ("100", "999999", 0)]
)
def test_a_container_may_have_less(system: Path, limit: str, used: str, expected: int) -> None:
    (system / "memory.max").write_text(limit + "\n")
    (system / "memory.current").write_text(used + "\n")
    (system / "memory.stat").write_text(f"anon 7\ninactive_file {100_000 if limit != '100' else 0}\nactive_file 9\n")
    assert available_memory(CPU) == expected


def test_other_systems_count_pages(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "meminfo").unlink()
    monkeypatch.setattr(os, "sysconf", {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert available_memory(CPU) == 4_096_000


def test_a_system_that_does_not_tell_is_unknown(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    (system / "meminfo").unlink()
    monkeypatch.setattr(os, "sysconf", unknown)
    assert available_memory(CPU) is None


def test_a_gpu_has_what_is_free_and_what_torch_holds_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 200)
    assert available_memory(torch.device("cuda")) == 1300


def test_a_program_counts_what_it_had_itself() -> None:
    # Its parent holds 1 GB; it had 100 MB and gave them back.
    script = """
from fedcomp.training.available import most_resident_memory
before = most_resident_memory()
bytearray(100_000_000)
print(before, most_resident_memory())
"""
    code = (
        f"import subprocess, sys; held = bytearray(1_000_000_000); subprocess.run([sys.executable, '-c', {script!r}])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, shown.stdout.split())
    alone = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert before < int(alone.stdout.split()[0]) + 50_000_000
    assert 80_000_000 < after - before < 120_000_000


def test_other_systems_count_what_a_process_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "_STATUS", tmp_path / "none")
    assert most_resident_memory() > 10_000_000
