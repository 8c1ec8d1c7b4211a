"""What can be told before Flower starts: whether the settings make sense, and how many GPUs there are."""

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
    command = [sys.executable, "-P", "-m", "fedcomp.commands.preflight", json.dumps(config.to_mapping())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise ConfigError(f"the settings could not be checked:\n{done.stderr[-2000:]}") from error
    if "error" in answer:
        raise ConfigError(answer["error"])
    return int(answer["gpus"])


def _main(settings: str) -> None:
    import torch

    answer: dict[str, str | int]
    try:
        _check(RunConfig.from_mapping(json.loads(settings)))
        answer = {"gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0}
    except FedcompError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


def _check(config: RunConfig) -> None:
    """Build everything that a setting names; raises ConfigError."""
    from fedcomp.client_bits import parse_rules
    from fedcomp.compressors.registry import compressor
    from fedcomp.downlink import Broadcaster
    from fedcomp.feedback import check_it_converges
    from fedcomp.optim.schedule_specs import parse_schedule
    from fedcomp.tasks.registry import load_task

    codec = compressor(config.compressor)
    if config.error_feedback == "on" or (config.error_feedback == "auto" and not codec.is_unbiased):
        check_it_converges(codec, use="compressor")
    first = compressor(config.downlink_first_compressor)
    Broadcaster(compressor(config.downlink_compressor), full=first, shapes=None)
    parse_rules(config.client_bits)
    for key, value in config.to_mapping().items():
        if key.endswith("-schedule"):
            parse_schedule(str(value), key=key)
    load_task(config.task)


if __name__ == "__main__":
    _main(*sys.argv[1:])
