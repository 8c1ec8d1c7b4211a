from __future__ import annotations

from typing import get_args

import pytest
import torch

import fedcomp
from fedcomp.errors import ConfigError
from fedcomp.optim.scaling import Rule
from fedcomp.run_config import RunConfig
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed
from fedcomp.training.options import CHECKPOINTING, OPTIMIZERS, PRECISIONS
from fedcomp.vectors import VectorSpec
from server_app.optimizers import STRATEGIES
from server_app.plan import RunPlan
from server_app.samplers import SAMPLERS
from server_app.weights import WEIGHTS
from tests.support.tiny_task import TinyTask

LAYOUT = VectorSpec.from_state_dict(TinyTask().build_model(seed=1).state_dict())
SECRET = b"a secret of the tests"


def plan(**changes: str | float | bool) -> RunPlan:
    return RunPlan.of("a-run", RunConfig(**changes), LAYOUT, SECRET)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compressor", "feedback", "used"),
    [
        ("eden:bits=2", "auto", False),
        ("eden:bits=2,scale=mmse", "auto", True),
        ("topk:fraction=0.1", "auto", True),
        ("sign", "off", False),
        ("eden:bits=2", "on", True),
    ],
)
def test_biased_schemes_use_feedback_by_default(compressor: str, feedback: str, used: bool) -> None:
    assert plan(compressor=compressor, error_feedback=feedback).uses_feedback == used


def test_clients_need_disk_only_where_something_is_kept() -> None:
    assert plan().client_state_bytes() == 0
    downlink = plan(downlink_compressor="eden:bits=2,scale=mmse")
    both = plan(downlink_compressor="eden:bits=2,scale=mmse", compressor="sign", checkpoint_every=3, checkpoint_keep=4)
    assert downlink.compresses_downlink
    assert downlink.client_state_bytes() >= 4 * LAYOUT.dim
    assert both.client_state_bytes() > downlink.client_state_bytes() + 4 * LAYOUT.dim
    assert both.client_states_kept == 3 * 4 + 2


def test_seeds_come_from_the_secret_and_the_run_is_no_part_of_them() -> None:
    item = plan()
    assert item.seed(3, 5, "rotation") == derive_seed(SECRET, 3, 5, "rotation")
    assert item.cohort_seed(3, "cohort") == derive_seed(SECRET, 3, COHORT_CLIENT_ID, "cohort")
    assert item.for_run("other").seed(3, 5, "rotation") == item.seed(3, 5, "rotation")
    assert item.for_run("other").run_id == "other"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"compressor": "zip"}, "unknown compressor 'zip'"),
        ({"compressor": "qsgd:bits=2", "error_feedback": "on"}, "compressor: 'qsgd:levels=1.*has vNMSE"),
        ({"client_bits": "a=x"}, "client-bits: 'a=x' is not a rule"),
        ({"downlink_compressor": "zip"}, "unknown compressor 'zip'"),
        ({"downlink_compressor": "eden:bits=0.3"}, "eden:bits=0.3"),
    ],
)
def test_wrong_settings_are_told(changes: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        plan(**changes).new_broadcaster()


@pytest.mark.parametrize("key", ["clip_norm", "clip_factor"])
def test_updates_are_looked_at_only_when_asked(key: str) -> None:
    assert not plan().decodes_each_update
    assert plan(**{key: 1.0}).decodes_each_update
    assert plan(outlier_report=True).decodes_each_update


@pytest.mark.parametrize("first", ["identity", "float16", "eden:bits=8"])
def test_the_first_model_goes_out_as_its_own_setting_says_and_the_next_as_the_other(first: str) -> None:
    # powersgd cannot do without the tensors' shapes.
    item = plan(downlink_compressor="powersgd:rank=2", downlink_first_compressor=first)
    model = torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(1))
    server = item.new_broadcaster()
    server.publish(model, version=0, seed=1)
    (whole,) = server.parts_for(None)
    assert whole.payload == fedcomp.compressor(first).encode(model, seed=1, shapes=LAYOUT.shapes)
    server.publish(model + 1e-3, version=1, seed=2)
    (difference,) = server.parts_for(0)
    assert (difference.base, len(difference.payload) < 4 * LAYOUT.dim) == (0, True)


@pytest.mark.parametrize(("downlink", "kept"), [("identity", False), ("float16", True), ("eden:bits=4", True)])
def test_clients_keep_the_model_when_they_get_differences_to_it(downlink: str, kept: bool) -> None:
    assert plan(downlink_compressor=downlink).compresses_downlink == kept


@pytest.mark.parametrize(
    ("setting", "known"),
    [
        ("sampler", SAMPLERS),
        ("weights", WEIGHTS),
        ("strategy", STRATEGIES),
        ("server_rate_scaling", get_args(Rule)),
        ("optimizer", OPTIMIZERS),
        ("precision", PRECISIONS),
        ("activation_checkpointing", CHECKPOINTING),
    ],
)
def test_what_a_setting_allows_is_what_there_is(setting: str, known: tuple[str, ...]) -> None:
    assert set(get_args(RunConfig.model_fields[setting].annotation)) == set(known)
