from __future__ import annotations

from fedcomp.commands.preflight import Machine
from fedcomp.commands.resources import plan_resources

GB = 10**9


def test_cpus_alone_decide_where_memory_is_plenty() -> None:
    resources, told = plan_resources(Machine((), 20 * GB, GB, 0), 10, cpu_count=2)
    assert (resources.cpus, resources.gpus) == (1, 0.0)
    assert told == "2 of 10 clients at once: each takes 1.0 of 20.0 GB of memory"


def test_the_hosts_memory_decides_where_it_is_short() -> None:
    resources, told = plan_resources(Machine((), 5 * GB, GB, 0), 10, cpu_count=16)
    assert resources.cpus == 4
    assert told.startswith("4 of 10 clients at once: ")  # the server app takes as much as a client


def test_a_gpus_memory_decides_its_share() -> None:
    machine = Machine((24 * GB, 23 * GB), 100 * GB, GB, 6 * GB)
    resources, told = plan_resources(machine, 20, cpu_count=64)
    assert resources.gpus == 0.3333
    assert told == "6 of 20 clients at once: each takes 1.0 of 100.0 GB of memory, 6.0 of a GPU's 23.0 GB"


def test_too_little_memory_is_told_and_one_client_tries() -> None:
    resources, told = plan_resources(Machine((GB,), GB // 2, GB, 3 * GB), 4, cpu_count=8)
    assert resources.at_once(8, 1) == 1
    assert told.endswith("that is too little: close other programs, or see docs/recipe.md")


def test_what_could_not_be_tried_out_limits_nothing() -> None:
    resources, told = plan_resources(Machine((), 5 * GB, note="ValueError: no"), 4, cpu_count=2)
    assert resources.at_once(2, 0) == 2
    assert told == "2 of 4 clients at once (one could not be tried out: ValueError: no)"
