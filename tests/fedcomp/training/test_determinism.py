from __future__ import annotations

import contextlib
import os

import pytest
import torch

from fedcomp.training.determinism import deterministic

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def switches() -> tuple[object, ...]:
    cudnn = torch.backends.cudnn
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
        os.environ.get(WORKSPACE),
    )


@pytest.mark.parametrize("before", [(False, False, False), (True, True, True)])
@pytest.mark.parametrize("workspace", [None, ":16:8"])
def test_all_switches_are_as_before_even_after_an_error(
    before: tuple[bool, bool, bool], workspace: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WORKSPACE, raising=False)
    if workspace:
        monkeypatch.setenv(WORKSPACE, workspace)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before[2])
    try:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        expected = switches()
        with contextlib.suppress(ZeroDivisionError), deterministic(True):
            assert switches() == (True, False, True, False, workspace or ":4096:8")
            raise ZeroDivisionError
        assert switches() == expected
    finally:
        torch.use_deterministic_algorithms(False)


def test_off_changes_nothing() -> None:
    before = switches()
    with deterministic(False):
        assert switches() == before
