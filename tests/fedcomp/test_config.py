from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.config import Spec, parse_spec
from fedcomp.errors import ConfigError

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
VALUES = st.one_of(st.integers(-(10**9), 10**9), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), NAMES)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_spec_prints_as_what_it_was_parsed_from(name: str, options: dict[str, str | int | float | bool]) -> None:
    spec = Spec(
        name, {key: value for key, value in options.items() if value not in ("nan", "inf", "infinity", "true", "false")}
    )
    assert parse_spec(str(spec)) == spec


def test_values_have_types() -> None:
    assert parse_spec("eden:bits=2,scale=mmse,flag=true,rate=0.5").options == {
        "bits": 2,
        "scale": "mmse",
        "flag": True,
        "rate": 0.5,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "'' is not a name"),
        (":bits=1", "'' is not a name"),
        ("eden:", "'' is not key=value"),
        ("eden:bits", "'bits' is not key=value"),
        ("eden:bits=", "'bits=' is not key=value"),
        ("eden:bits=1,", "'' is not key=value"),
        ("eden:bits=1,bits=2", "key 'bits' is given twice"),
        ("e d e n", "'e d e n' is not a name"),
    ],
)
def test_malformed_specs_are_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_spec(text)


def test_a_spec_must_be_a_string() -> None:
    with pytest.raises(ConfigError, match="spec 2 is a int"):
        parse_spec(2)  # type: ignore[arg-type]
