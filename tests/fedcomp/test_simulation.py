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
        (3, 16, 1, 0.33),
        (1, 16, 1, 1.0),
        (2, 16, 8, 1.0),
        (10, 64, 4, 0.4),
    ],
)
def test_gpus_are_shared_by_fractions(clients: int, cpus: int, gpus: int, share: float) -> None:
    resources = share_resources(clients, cpu_count=cpus, gpu_count=gpus)
    assert resources.gpus == share
    assert ("client-resources-num-gpus" in resources.federation()) == (gpus > 0)


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 8))
def test_clients_never_ask_for_more_than_there_is(clients: int, cpus: int, gpus: int) -> None:
    resources = share_resources(clients, cpu_count=cpus, gpu_count=gpus)
    assert resources.gpus * min(clients, cpus) <= gpus + 1e-9
    assert resources.federation()["num-supernodes"] == clients
