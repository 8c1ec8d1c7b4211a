from __future__ import annotations

import pytest

from fedcomp.errors import ConfigError
from fedcomp.optim.schedule_specs import SCHEDULES, parse_schedule
from fedcomp.optim.schedules import Constant, Cosine, Exponential, Linear, Schedule, Step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant", Constant()),
        ("constant:warmup=5", Constant(5)),
        ("linear", Linear(0, 0.1)),
        ("linear:end=4,warmup=3", Linear(3, 4.0)),
        ("step", Step(0, 10, 0.5)),
        ("step:warmup=2,every=7,factor=2", Step(2, 7, 2.0)),
        ("exponential", Exponential(0, 0.97)),
        ("exponential:factor=1.05,warmup=1", Exponential(1, 1.05)),
        ("cosine", Cosine(0, 0.01, 0, 1.0)),
        ("cosine:end=0,restarts=3,growth=2,warmup=4", Cosine(4, 0.0, 3, 2.0)),
    ],
)
def test_a_spec_becomes_a_schedule(text: str, expected: Schedule) -> None:
    assert parse_schedule(text, key="server-schedule") == expected


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_name_alone_is_a_schedule_that_begins_with_1(name: str) -> None:
    assert parse_schedule(name, key="k").factor(1, 30) == 1.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sine", "unknown schedule 'sine'; allowed: constant, linear, step, exponential, cosine"),
        ("linear:stop=1", "unknown option 'stop' .value 1.; allowed: end, warmup"),
        ("constant:end=1", "unknown option 'end' .value 1.; allowed: warmup"),
        ("linear:end=-0.1", "linear: end is -0.1; allowed: numbers from 0 to 1000"),
        ("linear:end=1001", "end is 1001; allowed"),
        ("linear:end=nan", "end is nan; allowed"),
        ("linear:end=low", "end is 'low'; allowed"),
        ("linear:end=true", "end is True; allowed"),
        ("step:every=0", "step: every is 0; allowed: integers from 1 to 1000000"),
        ("step:every=1.5", "every is 1.5; allowed"),
        ("step:factor=0", "step: factor is 0; allowed: numbers from 0.001 to 1000"),
        ("exponential:factor=-1", "exponential: factor is -1; allowed: numbers from 0.001 to 1000"),
        ("exponential:factor=inf", "factor is inf; allowed"),
        ("cosine:end=-1", "cosine: end is -1; allowed: numbers from 0 to 1000"),
        ("cosine:restarts=-1", "cosine: restarts is -1; allowed: integers from 0 to 100"),
        ("cosine:growth=0.5", "cosine: growth is 0.5; allowed: numbers from 1 to 10"),
        ("constant:warmup=-1", "constant: warmup is -1; allowed: integers from 0 to 1000000"),
        ("linear:end=1,end=2", "key 'end' is given twice"),
        ("", "'' is not a name"),
    ],
)
def test_a_wrong_spec_names_key_value_and_what_is_allowed(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^server-schedule is '{text}': .*{why}"):
        parse_schedule(text, key="server-schedule")
