"""The arithmetic of the figures, with the torch reference on a CPU; tests/gpu measures a device."""

from __future__ import annotations

import pytest
import torch

from fedcomp.bench import gpu_bandwidth
from fedcomp.bench.gpu_bandwidth import BLOCK, require_cuda, sweep
from fedcomp.errors import ConfigError
from fedcomp.kernels import reference
from fedcomp.transforms.hadamard import rotation_signs

CPU = torch.device("cpu")
SIGNS = rotation_signs(1, BLOCK, rounds=2, device=CPU)


def test_every_operation_is_measured_at_every_rate() -> None:
    found = list(sweep(reference, SIGNS, bits=(1, 4), dim=BLOCK + 1, repeats=2, device=CPU))
    names = ["encode", "decode", "accumulate"]
    assert [(item.operation, item.bits) for item in found] == [
        ("copy", 32),
        *((name, 1) for name in names),
        *((name, 4) for name in names),
    ]
    assert {item.dim for item in found} == {2 * BLOCK}
    assert all(item.ms > 0 and item.gigabytes_per_s > 0 and item.share_of_copy > 0 for item in found)


def test_the_figures_follow_from_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    # Copy: a round that is not counted, then 2, 1, 3 ms. Then, at 2 bits: copy, encode, decode, accumulate.
    times = iter([99, 2, 1, 3, *[99] * 4, *(4, 5, 6, 7), *(4, 5, 6, 7), *(1, 9, 0, 20)])

    def milliseconds(action: object, device: torch.device) -> float:
        action()  # type: ignore[operator]
        return float(next(times))

    monkeypatch.setattr(gpu_bandwidth, "_milliseconds", milliseconds)
    copy, *others = sweep(reference, SIGNS, bits=(2,), dim=BLOCK, repeats=3, device=CPU)
    assert (copy.ms, copy.gigabytes_per_s, copy.share_of_copy) == (2, 8 * BLOCK / 2e6, 1)
    # A scale of four bytes a block is the budget's, so the codes have four bytes less than two bits a coordinate.
    codes = BLOCK // 4 - 4
    for item, ms, moved in zip(others, (5, 6, 7), (4 * BLOCK, 4 * BLOCK, 16 * BLOCK), strict=True):
        assert item.ms == ms
        assert item.gigabytes_per_s == pytest.approx((moved + codes) / ms / 1e6)
        assert item.share_of_copy == pytest.approx((moved + codes) / ms / (8 * BLOCK / 4))


def test_without_a_gpu_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"bench gpu needs a CUDA device, and torch .* sees none; run it on"):
        require_cuda()


def test_with_one_it_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert require_cuda() == torch.device("cuda:1")


def test_a_gpu_is_timed_by_its_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def synchronize(self) -> None:
            log.append("wait")

        def elapsed_time(self, last: Event) -> float:
            return 1.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert gpu_bandwidth._milliseconds(lambda: log.append("act"), torch.device("cuda")) == 1.5
    assert log == ["record", "act", "record", "wait"]
    gpu_bandwidth._milliseconds(lambda: log.append("act"), CPU)
    assert log[4:] == ["act"]
