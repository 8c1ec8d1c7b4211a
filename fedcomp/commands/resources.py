"""How many simulated clients run at once, from what one of them was seen to take."""

from __future__ import annotations

from fedcomp.commands.preflight import Machine
from fedcomp.simulation import Resources, share_resources


def plan_resources(machine: Machine, clients: int, *, cpu_count: int) -> tuple[Resources, str]:
    """Return the share of each client, and a line that says what it follows from."""
    gpu_count = len(machine.gpus)
    at_once = on_a_gpu = None
    facts = []
    if machine.client_host and machine.host:
        # The server app is a process of the same kind.
        at_once = machine.host // machine.client_host - 1
        facts.append(f"each takes {_gigabytes(machine.client_host)} of {_gigabytes(machine.host)} GB of memory")
    if machine.client_gpu and gpu_count:
        least = min(machine.gpus)
        on_a_gpu = least // machine.client_gpu
        facts.append(f"{_gigabytes(machine.client_gpu)} of a GPU's {_gigabytes(least)} GB")
    resources = share_resources(clients, cpu_count=cpu_count, gpu_count=gpu_count, at_once=at_once, on_a_gpu=on_a_gpu)
    running = resources.at_once(cpu_count, gpu_count)
    told = f"{running} of {clients} clients at once"
    if facts:
        told += f": {', '.join(facts)}"
    if machine.note:
        told += f" (one could not be tried out: {machine.note})"
    if (at_once is not None and at_once < 1) or (on_a_gpu is not None and on_a_gpu < 1):
        told += "; that is too little: close other programs, or see docs/recipe.md"
    return resources, told


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f}"
