"""The shape of what is measured; how fast it is depends on the machine and is no test."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fedcomp.bench import speed, textbook
from fedcomp.bench.speed import choose_device, cpu_threads, device_name, measure, sweep
from fedcomp.compressors.catalogue import available_compressors
from fedcomp.compressors.registry import compressor
from fedcomp.errors import ConfigError

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", available_compressors())
def test_every_scheme_is_measured(name: str) -> None:
    result = measure(name, dim=300, repeats=1, seed=1, device=CPU)
    assert (result.spec, result.dim, result.repeats) == (name, 300, 1)
    assert result.threads == torch.get_num_threads()
    assert result.torch_version == torch.__version__
    assert result.times_textbook is None
    for key, value in asdict(result).items():
        if isinstance(value, float) and key != "encode_memory":
            assert 0 < value < math.inf, key


def test_memory_is_a_share_of_the_vectors_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "peak_bytes", lambda *_: 600)
    assert measure("sign", dim=300, repeats=1, seed=1, device=CPU).encode_memory == 0.5
    monkeypatch.setattr(speed, "peak_bytes", lambda *_: None)
    assert measure("sign", dim=300, repeats=1, seed=1, device=CPU).encode_memory is None


def test_the_textbook_has_a_line_of_its_own_and_is_what_the_others_are_compared_with() -> None:
    first, second = sweep(["eden:bits=2"], dims=[300], repeats=1, seed=1, device=CPU)
    assert (first.spec, first.times_textbook) == (textbook.NAME, 1.0)
    assert first.bits_per_coordinate == pytest.approx((64 * 512 + 32) / 300)
    ratio = (first.encode_ms + first.decode_ms) / (second.encode_ms + second.decode_ms)
    assert (second.spec, second.times_textbook) == ("eden:bits=2", ratio)


def test_no_repeat_is_begun_after_the_time_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(action: Callable[[], object], device: torch.device) -> tuple[float, object]:
        return 200.0, action()

    # Six actions of 0.2 s a round.
    monkeypatch.setattr(speed, "_timed", timed)
    for seconds, rounds in ((0.0, 1), (1.0, 1), (1.3, 2), (10.0, 5)):
        assert measure("sign", dim=8, repeats=5, seed=1, device=CPU, seconds=seconds).repeats == rounds


def test_the_figures_follow_from_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    # Warm-up first: copy, encode, copy, decode, copy, add; then three rounds of the same.
    rounds = [(900, 900, 900, 900, 900, 900), (1, 10, 2, 5, 2, 30), (2, 50, 3, 4, 3, 10), (4, 20, 100, 6, 2.5, 20)]

    def clock() -> Iterator[int]:
        now = 0
        for milliseconds in (value for item in rounds for value in item):
            yield now
            now += int(milliseconds * 10**6)
            yield now

    monkeypatch.setattr("fedcomp.bench.speed.time", SimpleNamespace(perf_counter_ns=clock().__next__))
    result = measure("identity", dim=1000, repeats=3, seed=1, device=CPU)
    # Medians of (1, 2, 2, 2, 2.5, 3, 3, 4, 100), (10, 50, 20), (5, 4, 6) and (30, 10, 20).
    assert (result.copy_ms, result.encode_ms, result.decode_ms, result.add_ms) == (2.5, 20, 5, 20)
    assert (result.encode_per_copy, result.decode_per_copy, result.add_per_copy) == (8, 2, 8)
    assert (result.encode_mcoords_per_s, result.decode_mcoords_per_s) == (0.05, 0.2)
    assert result.bits_per_coordinate == pytest.approx(32 + 8 * 32 / 1000)


def test_each_round_has_a_seed_of_its_own_and_decodes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, seeds = compressor("eden"), []
    encode = type(codec).encode

    def spy(self: object, x: torch.Tensor, *, seed: int, shapes: object) -> bytes:
        seeds.append(seed)
        return encode(codec, x, seed=seed)

    monkeypatch.setattr(type(codec), "encode", spy)
    measure("eden", dim=300, repeats=2, seed=1, device=CPU)
    measure("eden", dim=300, repeats=2, seed=1, device=CPU)
    measure("eden", dim=300, repeats=2, seed=2, device=CPU)
    # Warm-up, two repeats, and the first seed again for the memory.
    assert seeds[:4] == seeds[4:8]
    assert [seeds[index] == seeds[0] for index in range(4)] == [True, False, False, True]
    assert len(set(seeds)) == 6


def test_a_gpu_is_waited_for_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def act() -> int:
        events.append("act")
        return 7

    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append(f"wait for {device}"))
    assert speed._timed(act, torch.device("cuda"))[1] == 7
    assert events == ["wait for cuda", "act", "wait for cuda"]
    speed._timed(act, CPU)
    assert events[3:] == ["act"]


def test_a_sweep_takes_every_combination() -> None:
    found = sweep(["identity", "sign"], dims=[64, 8], repeats=1, seed=1, device=CPU)
    specs = (textbook.NAME, "identity", "sign")
    assert [(item.spec, item.dim) for item in found] == [(spec, dim) for dim in (64, 8) for spec in specs]


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu"), ("cuda", True, "cuda")],
)
def test_devices_are_chosen(wanted: str, there: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device(wanted) == torch.device(expected)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ("tpu", "device is 'tpu'; allowed: auto, cpu, cuda"),
        ("cuda", "device is 'cuda', but torch .* sees no CUDA device"),
    ],
)
def test_other_devices_are_refused(wanted: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=named):
        choose_device(wanted)


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with cpu_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError), cpu_threads(before + 1):
        _ = 1 / 0
    assert torch.get_num_threads() == before
    with cpu_threads(None):
        assert torch.get_num_threads() == before


def test_the_device_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_name(CPU).strip()
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(speed, "_CPU_INFO", info)
    assert device_name(CPU) == (platform.processor() or platform.machine())
    info.write_text("vendor_id\t: Some\nmodel name\t: Some CPU @ 3 GHz\nmodel name\t: Some CPU @ 3 GHz\n")
    assert device_name(CPU) == "Some CPU @ 3 GHz"
    monkeypatch.setattr(torch.cuda, "get_device_name", "the GPU {}".format)
    assert device_name(torch.device("cuda")) == "the GPU cuda"
