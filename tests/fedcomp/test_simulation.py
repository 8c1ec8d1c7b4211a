from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.simulation import share_resources


@pytest.mark.parametrize(
    ("clients", "cpus", "gpus", "share"),
    [
        (10, 2, 0, 0.0),
        (10, 2, 1, 0.5),
        (10, 16, 1, 0.1),
        (3, 16, 1, 0.3333),
        (1, 16, 1, 1.0),
        (2, 16, 8, 1.0),
        (10, 64, 4, 0.3333),
    ],
)
def test_gpus_are_shared_by_fractions(clients: int, cpus: int, gpus: int, share: float) -> None:
    resources = share_resources(clients, cpu_count=cpus, gpu_count=gpus)
    assert resources.gpus == share
    assert ("client-resources-num-gpus" in resources.federation()) == (gpus > 0)


LIMITS = st.none() | st.integers(-1, 40)


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 8), LIMITS, LIMITS)
def test_never_more_clients_at_once_than_there_is_room_for(
    clients: int, cpus: int, gpus: int, at_once: int | None, on_a_gpu: int | None
) -> None:
    resources = share_resources(clients, cpu_count=cpus, gpu_count=gpus, at_once=at_once, on_a_gpu=on_a_gpu)
    running = resources.at_once(cpus, gpus)
    assert 1 <= running <= min(clients, cpus)
    assert resources.federation()["num-supernodes"] == clients
    assert resources.cpus * running <= cpus
    if at_once is not None:
        assert running <= max(1, at_once)
    if gpus:
        assert resources.gpus <= 1
        assert running <= gpus * (99 if on_a_gpu is None else max(1, on_a_gpu))


def test_what_there_is_is_used() -> None:
    assert share_resources(10, cpu_count=16, gpu_count=0, at_once=5).at_once(16, 0) == 4  # of 4 CPUs each
    assert share_resources(10, cpu_count=16, gpu_count=2, on_a_gpu=3).at_once(16, 2) == 6
    assert share_resources(10, cpu_count=16, gpu_count=2).at_once(16, 2) == 10
    assert share_resources(3, cpu_count=16, gpu_count=0).cpus == 1
