"""What a machine may lack: tests that need it skip with a reason, or fail where it was promised."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

VARIABLE = "FEDCOMP_REQUIRE"
NAMES = frozenset({"browser", "netns", "nginx", "postgres"})


def required() -> frozenset[str]:
    """Return what FEDCOMP_REQUIRE, a list with commas, names. Raises ``ValueError`` for what no test asks about."""
    named = frozenset(word.strip() for word in os.environ.get(VARIABLE, "").split(",") if word.strip())
    if unknown := named - NAMES:
        raise ValueError(f"{VARIABLE} names {', '.join(sorted(unknown))}; allowed are {', '.join(sorted(NAMES))}")
    return named


def skip_without(name: str, reason: str) -> NoReturn:
    """Skip the running test for this reason; fail it where FEDCOMP_REQUIRE names what is absent."""
    if name not in NAMES:
        raise ValueError(f"{name!r} is none of {', '.join(sorted(NAMES))}; new names belong into {__name__}")
    if name in required():
        pytest.fail(f"{VARIABLE} names {name}, but {reason}", pytrace=False)
    pytest.skip(f"{reason}; `make ci-deps` installs it")
