"""What can be told before Flower starts: whether compressor and task exist, and how many GPUs there are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from fedcomp.config import Value
from fedcomp.errors import ConfigError, FedcompError
from fedcomp.run_config import RunConfig


def preflight(settings: Mapping[str, Value]) -> int:
    """Check the settings as far as possible and return the number of GPUs.

    Runs in a process of its own: loading torch here would hold its memory for the whole run.

    Raises
    ------
    ConfigError
        Naming what is wrong with the settings.
    """
    config = RunConfig.from_mapping(settings)
    # -P: this folder is not on the path, as it is not where Flower runs the app.
    command = [sys.executable, "-P", "-m", "fedcomp.commands.preflight", config.compressor, config.task]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise ConfigError(f"the settings could not be checked:\n{done.stderr[-2000:]}") from error
    if "error" in answer:
        raise ConfigError(answer["error"])
    return int(answer["gpus"])


def _main(compressor_spec: str, task_spec: str) -> None:
    import torch

    from fedcomp.compressors.registry import compressor
    from fedcomp.tasks.registry import load_task

    answer: dict[str, str | int]
    try:
        compressor(compressor_spec)
        load_task(task_spec)
        answer = {"gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0}
    except FedcompError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _main(*sys.argv[1:])
