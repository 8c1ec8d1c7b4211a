from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedcomp.bench import peak
from fedcomp.bench.peak import peak_bytes

CPU = torch.device("cpu")


def test_what_an_action_holds_at_once_is_counted_each_time() -> None:
    # In a process of its own, where no other test's memory is given back meanwhile; vectors of 64 MiB, for which malloc
    # always asks the system.
    script = """
import torch
from fedcomp.bench.peak import peak_bytes
def one_after_the_other():
    torch.ones(2**24)
    torch.ones(2**24)
def together():
    kept = torch.ones(2**24)
    torch.ones(2**25)
cpu = torch.device("cpu")
for action in (one_after_the_other, together, one_after_the_other):
    peak_bytes(action, cpu)
    print(peak_bytes(action, cpu) / 2**26)
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [float(line) for line in shown.stdout.split()] == pytest.approx([1, 3, 1], abs=1 / 16)


def test_what_malloc_keeps_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(peak, "_return_free_memory", lambda: events.append("trim"))
    peak_bytes(lambda: events.append("act"), CPU)
    assert events == ["trim", "act"]


def test_where_the_system_does_not_tell_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "_CLEAR", tmp_path / "no" / "clear_refs")
    assert peak_bytes(lambda: None, CPU) is None
    monkeypatch.undo()
    status = tmp_path / "status"
    status.write_text("Name:\\tpython\\n")
    monkeypatch.setattr(peak, "_STATUS", status)
    assert peak_bytes(lambda: None, CPU) is None


def test_a_gpu_counts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: events.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: events.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 1700)
    assert peak_bytes(lambda: events.append("act"), torch.device("cuda")) == 700
    assert events == ["wait", "reset", "act", "wait"]
