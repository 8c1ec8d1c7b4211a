"""Builds everything that a run's settings name, so that what is wrong is said before anything starts."""

from __future__ import annotations

from fedcomp.client_bits import parse_rules
from fedcomp.compressors.registry import compressor
from fedcomp.downlink import Broadcaster
from fedcomp.feedback import check_it_converges
from fedcomp.optim.schedule_specs import parse_schedule
from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Task
from fedcomp.tasks.registry import load_task


def check_settings(config: RunConfig) -> Task:
    """Return the task, after compressors, rules and schedules.

    Raises
    ------
    ConfigError
        Naming the setting, its value and what is allowed.
    """
    codec = compressor(config.compressor)
    if config.error_feedback == "on" or (config.error_feedback == "auto" and not codec.is_unbiased):
        check_it_converges(codec, use="compressor")
    first = compressor(config.downlink_first_compressor)
    Broadcaster(compressor(config.downlink_compressor), full=first, shapes=None)
    parse_rules(config.client_bits)
    for key, value in config.to_mapping().items():
        if key.endswith("-schedule"):
            parse_schedule(str(value), key=key)
    return load_task(config.task)
