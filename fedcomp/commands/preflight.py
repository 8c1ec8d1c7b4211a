"""What can be told before Flower starts: whether the settings make sense, and what the machine can carry."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedcomp.config import Value
from fedcomp.errors import ConfigError, FedcompError
from fedcomp.run_config import RunConfig


@dataclass(frozen=True)
class Machine:
    """The memory there is and what one client takes of it, in bytes.

    Attributes
    ----------
    gpus
        Free memory of each GPU that clients may use.
    host
        Free memory of the host; None where the system does not tell.
    client_host, client_gpu
        What one client was seen to take at its peak; None when it could not be tried out.
    note
        Why it could not.
    """

    gpus: tuple[int, ...] = ()
    host: int | None = None
    client_host: int | None = None
    client_gpu: int | None = None
    note: str = ""


def preflight(settings: Mapping[str, Value], *, clients: int) -> Machine:
    """Check the settings as far as possible, and try one client out.

    Runs in a process of its own: loading torch here would hold its memory for the whole run.

    Raises
    ------
    ConfigError
        Naming what is wrong with the settings.
    """
    config = RunConfig.from_mapping(settings)
    # -P: this folder is not on the path, as it is not where Flower runs the app.
    command = [sys.executable, "-P", "-m", "fedcomp.commands.preflight", json.dumps(config.to_mapping()), str(clients)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (json.JSONDecodeError, IndexError) as error:
        raise ConfigError(f"the settings could not be checked:\n{done.stderr[-2000:]}") from error
    if "error" in answer:
        raise ConfigError(answer["error"])
    return Machine(**{**answer, "gpus": tuple(answer["gpus"])})


def _main(settings: str, clients: str) -> None:
    from fedcomp.settings_check import check_settings

    try:
        config = RunConfig.from_mapping(json.loads(settings))
        check_settings(config)
        answer: dict[str, Any] = asdict(_look(config, int(clients)))
    except FedcompError as error:
        answer = {"error": str(error)}
    sys.stdout.write("\n" + json.dumps(answer))


def _look(config: RunConfig, clients: int) -> Machine:
    import torch

    from fedcomp.commands.trial import memory_of_one_client
    from fedcomp.training.available import available_memory

    count = torch.cuda.device_count() if torch.cuda.is_available() and config.device != "cpu" else 0
    gpus = tuple(available_memory(torch.device("cuda", index)) or 0 for index in range(count))
    host = available_memory(torch.device("cpu"))
    try:
        seen = memory_of_one_client(config, clients, device=torch.device("cuda" if gpus else "cpu"))
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's own task may raise anything; the run then tells it in full
        return Machine(gpus, host, note=f"{type(error).__name__}: {error}")
    return Machine(gpus, host, seen["host"], seen["gpu"])


if __name__ == "__main__":
    _main(*sys.argv[1:])
