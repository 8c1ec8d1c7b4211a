"""Spec strings: ``name:key=value,key=value``, the one form in which compressors and tasks are named."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fedcomp.errors import ConfigError

Value = str | int | float | bool
MIN_FRACTION = 2**-16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_KEY = re.compile(r"[a-z][a-z0-9_\-]*")


@dataclass(frozen=True)
class Spec:
    """A parsed spec string.

    Attributes
    ----------
    name
        What is asked for, such as ``"eden"``.
    options
        The options in the order given; values are int, float, bool or str.
    """

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return self.name + ":" + ",".join(f"{key}={_text(value)}" for key, value in self.options.items())


def parse_spec(text: str) -> Spec:
    """Map ``"eden:bits=2"`` to ``Spec("eden", {"bits": 2})``.

    Raises
    ------
    ConfigError
        When the text is not of the form ``name:key=value,key=value`` or repeats a key.
    """
    if not isinstance(text, str):
        raise ConfigError(f"spec {text!r} is a {type(text).__name__}; give a string such as 'eden:bits=2'")
    name, colon, rest = text.strip().partition(":")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"spec {text!r}: {name!r} is not a name; write name or name:key=value,key=value")
    if not colon:
        return Spec(name)
    options: dict[str, Value] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not _KEY.fullmatch(key) or not value:
            raise ConfigError(f"spec {text!r}: {part!r} is not key=value; write name:key=value,key=value")
        if key in options:
            raise ConfigError(f"spec {text!r}: key {key!r} is given twice; give it once")
        options[key] = _parse_value(value)
    return Spec(name, options)


def reject_unknown(spec_name: str, options: Mapping[str, Value], allowed: Collection[str]) -> None:
    """Raise ConfigError when ``options`` has a key that ``allowed`` has not.

    Raises
    ------
    ConfigError
        Naming the first unknown key and the allowed ones.
    """
    for key in options:
        if key not in allowed:
            choices = ", ".join(sorted(allowed)) or "none"
            raise ConfigError(f"{spec_name}: unknown option {key!r} (value {options[key]!r}); allowed: {choices}")


def integer_option(spec: Spec, key: str, default: int, *, low: int, high: int) -> int:
    """Return an integer option; raises ConfigError unless it is from ``low`` to ``high``."""
    value = spec.options.get(key, default)
    if isinstance(value, bool | str) or not low <= value <= high or value != int(value):
        raise ConfigError(f"{spec.name}: {key} is {value!r}; allowed: integers from {low} to {high}")
    return int(value)


def choice_option(spec: Spec, key: str, choices: tuple[str, ...]) -> str:
    """Return an option that is one of ``choices``, the first by default; raises ConfigError unless it is."""
    value = spec.options.get(key, choices[0])
    if value not in choices:
        raise ConfigError(f"{spec.name}: {key} is {value!r}; allowed: {', '.join(choices)}")
    return str(value)


def fraction_option(spec: Spec, key: str, default: float) -> float:
    """Return an option from 2^-16 to 1; raises ConfigError unless it is.

    A smaller share would let a few bytes stand for a vector of any size, which a decoder would have to allocate.
    """
    value = spec.options.get(key, default)
    if isinstance(value, bool | str) or not MIN_FRACTION <= value <= 1:
        raise ConfigError(f"{spec.name}: {key} is {value!r}; allowed: numbers from {MIN_FRACTION} to 1")
    return float(value)


def _parse_value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
