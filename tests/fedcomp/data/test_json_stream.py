from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data import json_stream
from fedcomp.data.errors import DataError, MalformedData, TruncatedData
from fedcomp.data.json_stream import JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
PATH = Path("some.json")


class Slow(io.StringIO):
    """Gives a few characters at a time, so that values are cut everywhere."""

    def read(self, size: int | None = -1) -> str:
        return super().read(min(size or 1, 3))


def stream(text: str) -> JsonStream:
    return JsonStream(Slow(text), PATH)


@given(VALUES, st.sampled_from([None, 1]))
def test_takes_the_values_that_json_loads(value: object, indent: int | None) -> None:
    found = stream(json.dumps(value, indent=indent) + " ")
    assert found.value() == value
    found.end()


@given(st.dictionaries(st.text(max_size=5), st.lists(VALUES, max_size=3), max_size=4))
def test_enters_objects_and_arrays(value: dict[str, list[object]]) -> None:
    found = stream(json.dumps(value, indent=1))
    entered = {key: [found.value() for _ in found.items()] for key in found.keys()}  # noqa: SIM118 - not a dict
    assert entered == value


@given(st.dictionaries(st.text(max_size=5), st.lists(VALUES, max_size=3), min_size=1, max_size=3), st.data())
def test_a_text_that_ends_too_early_is_refused(value: dict[str, list[object]], data: st.DataObject) -> None:
    text = json.dumps(value)
    found = stream(text[: data.draw(st.integers(0, len(text) - 1))])
    with pytest.raises(DataError, match=r"some.json"):
        {key: [found.value() for _ in found.items()] for key in found.keys()}  # noqa: SIM118 - not a dict


@pytest.mark.parametrize("text", ["", "[1, 2", '{"a": [1', '["abc', "[tru", "[-"])
def test_what_is_missing_is_called_truncated(text: str) -> None:
    found = stream(text)
    with pytest.raises(TruncatedData, match=rf"some.json ends too early, after {len(text)} characters"):
        found.value()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1,, 2, 3, 4, 5, 6, 7, 8, 9]", r"character 3: ', 2.*expected JSON"),
        ("{'a': 1, 'b': 2, 'c': 3}", "character 1: .*expected JSON"),
        ("[" * 100_000, "nested so deeply"),
        ('"' + "a" * 300, "at most 200 characters"),
    ],
)
def test_what_is_no_json_is_called_malformed(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_LONGEST", 200 if "200" in message else 1 << 26)
    found = JsonStream(io.StringIO(text), PATH) if "nested" in message else stream(text)
    with pytest.raises(MalformedData, match=message):
        found.value()


def test_other_forms_are_malformed() -> None:
    with pytest.raises(MalformedData, match=r"character 0: '\[.*expected '\{'"):
        list(stream("[1]").keys())
    with pytest.raises(MalformedData, match="a key in double quotes"):
        list(stream("{1: 2}").keys())
    found = stream("1 2")
    found.value()
    with pytest.raises(MalformedData, match="expected the end of the file"):
        found.end()
    with pytest.raises(MalformedData, match="is not UTF-8"):
        JsonStream(io.TextIOWrapper(io.BytesIO(b'"\xff"'), encoding="utf-8"), PATH).value()
