from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig

ROOT = Path(__file__).resolve().parents[2]


def test_defaults_are_those_of_the_app() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert RunConfig().to_mapping() == pyproject["tool"]["flwr"]["app"]["config"]


def test_what_flower_hands_over_is_taken() -> None:
    config = RunConfig.from_mapping({"num-server-rounds": 3, "compressor": "identity", "learning-rate": 1})
    assert (config.num_server_rounds, config.compressor, config.learning_rate) == (3, "identity", 1.0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num-server-rounds": 0}, "num-server-rounds is 0: input should be greater than or equal to 1"),
        ({"num-server-rounds": "3"}, "num-server-rounds is '3': input should be a valid integer"),
        ({"batch-size": 2.5}, "batch-size is 2.5: input should be a valid integer"),
        ({"strategy": "fedsgd"}, "strategy is 'fedsgd': input should be 'fedavg', 'fedavgm'"),
        ({"sed": 1}, "unknown key 'sed'; did you mean 'seed'\\? allowed: activation-checkpointing"),
        ({"seed": -1}, "seed is -1"),
        ({"momentum": 1.0}, r"momentum is 1\.0: input should be less than 1"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str | int | float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        RunConfig.from_mapping(settings)


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"seed is -1.*batch-size is 0"):
        RunConfig.from_mapping({"seed": -1, "batch-size": 0})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"over-selection": 2}, "over-selection is 2, which needs clients-per-round above 0"),
        ({"min-replies": 5, "clients-per-round": 3}, "min-replies is 5, clients-per-round only 3"),
        ({"min-replies": 4, "clients-per-round": 3}, "min-replies is 4, clients-per-round only 3"),
        ({"mode": "async", "over-selection": 1, "clients-per-round": 3}, "over-selection is for mode 'sync'"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(settings: dict[str, str | int], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^run config: {named}"):
        RunConfig.from_mapping(settings)


def test_settings_that_just_fit_together_are_taken() -> None:
    RunConfig.from_mapping({"min-replies": 3, "clients-per-round": 3})
    RunConfig.from_mapping({"min-replies": 3})


def test_equal_settings_have_one_fingerprint_and_others_another() -> None:
    assert RunConfig().fingerprint == RunConfig.from_mapping(RunConfig().to_mapping()).fingerprint
    others = {RunConfig(seed=2).fingerprint, RunConfig(local_epochs=2).fingerprint, RunConfig(sealing="on").fingerprint}
    assert len(others | {RunConfig().fingerprint}) == 4
    assert all(len(item) == 32 for item in others)
