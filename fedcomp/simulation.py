"""One simulated federation from start to end: resources, private SuperLink, progress, verdict."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedcomp.app_bundle import stage_app
from fedcomp.config import Value
from fedcomp.errors import FedcompError
from fedcomp.superlink import PrivateSuperLink, SuperLinkError, tail

POLL_SECONDS = 0.5
_RUN_ID = re.compile(r"Successfully started run (\d+)")


class SimulationFailed(FedcompError):
    """The simulated run did not complete.

    Attributes
    ----------
    log_path
        Where its log is kept, or None when there is none.
    """

    def __init__(self, message: str, log_path: Path | None = None) -> None:
        super().__init__(message)
        self.log_path = log_path


@dataclass(frozen=True)
class Resources:
    """What each simulated client gets.

    Attributes
    ----------
    clients
        Number of simulated clients.
    cpus
        Whole CPUs a client.
    gpus
        Share of a GPU a client, 0 without one.
    """

    clients: int
    cpus: int
    gpus: float

    def at_once(self, cpu_count: int, gpu_count: int) -> int:
        """Return how many clients Flower runs at a time on such a machine."""
        by_cpu = max(1, cpu_count // self.cpus)
        by_gpu = gpu_count * int(1 / self.gpus) if self.gpus else by_cpu
        return min(self.clients, by_cpu, by_gpu)

    def federation(self) -> dict[str, Value]:
        """Return Flower's `--federation-config`."""
        config: dict[str, Value] = {"num-supernodes": self.clients, "client-resources-num-cpus": self.cpus}
        if self.gpus:
            config["client-resources-num-gpus"] = self.gpus
        return config


def share_resources(
    clients: int, *, cpu_count: int, gpu_count: int, at_once: int | None = None, on_a_gpu: int | None = None
) -> Resources:
    """Share the machine: one CPU a client, and the GPUs among as many clients as can run at once.

    Parameters
    ----------
    at_once, on_a_gpu
        For how many clients there is memory, on the host and on each GPU; None where that is not known. At least one
        runs whatever they say. Where the host's memory is the limit, a client gets more CPUs, so that Flower starts
        fewer; where the GPU's is, a larger share of it.
    """
    running = max(1, min(clients, cpu_count, cpu_count if at_once is None else at_once))
    cpus = 1 if running == min(clients, cpu_count) else math.ceil(cpu_count / running)
    if not gpu_count:
        return Resources(clients, cpus, 0.0)
    on_each = math.ceil(running / gpu_count)
    if on_a_gpu is not None:
        on_each = max(1, min(on_each, on_a_gpu))
    # Rounded down, so that the clients of one GPU never ask for more than it; ray counts in ten-thousandths.
    return Resources(clients, cpus, int(10_000 / on_each) / 10_000)


def simulate(
    run_config: Mapping[str, Value],
    resources: Resources,
    *,
    log_dir: Path,
    on_start: Callable[[str], None],
    on_poll: Callable[[str], None],
) -> str:
    """Run one federation to its end and return Flower's run id.

    Parameters
    ----------
    run_config
        Overrides of the app's settings.
    resources
        What each client gets.
    log_dir
        Where the run's log is, as ``<flower run id>.log``, from the run's first line on.
    on_start, on_poll
        Called with Flower's run id once it is known, then twice a second.

    Raises
    ------
    SimulationFailed
        When the run ended in any way but completed.
    SuperLinkError
        When Flower could not be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="fedcomp-"))
    log_dir.mkdir(parents=True, exist_ok=True)
    # It gets its name with the run's id. Who writes it does not notice, since that is a move within one folder.
    log_path = log_dir / f"{folder.name}.log"
    try:
        with PrivateSuperLink(folder) as superlink:
            app = stage_app(folder / "app")
            process = superlink.run(app, run_config=run_config, federation=resources.federation(), log_path=log_path)
            flower_run_id = _submitted(process, log_path)
            kept = log_path.replace(log_dir / f"{flower_run_id}.log")
            try:
                on_start(flower_run_id)
                while process.poll() is None:
                    superlink.observe()
                    on_poll(flower_run_id)
                    time.sleep(POLL_SECONDS)
                on_poll(flower_run_id)
            except BaseException:
                _stop(superlink, flower_run_id)
                raise
            try:
                status = superlink.status(flower_run_id)
            except SuperLinkError as error:
                raise SimulationFailed(f"the SuperLink ended before the run did ({error})", kept) from error
        if status != "finished:completed":
            raise SimulationFailed(f"Flower says {status!r}", kept)
        return flower_run_id
    finally:
        log_path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _submitted(process: subprocess.Popen[bytes], log_path: Path) -> str:
    """Wait for `flwr run` to print the run's id."""
    while True:
        ended = process.poll() is not None
        found = _RUN_ID.search(log_path.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found.group(1)
        if ended:
            raise SimulationFailed(f"`flwr run` did not submit the run:\n{tail(log_path, 25)}")
        time.sleep(0.1)


def _stop(superlink: PrivateSuperLink, flower_run_id: str) -> None:
    """Stop the run; the SuperLink is ended right after, so a stop that fails loses nothing."""
    try:
        superlink.stop(flower_run_id)
    except SuperLinkError:
        return
