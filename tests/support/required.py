"""What a machine may lack: tests that need it skip with a reason, or fail where it was promised."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

VARIABLE = "FEDCOMP_REQUIRE"


def is_required(name: str) -> bool:
    """Return whether FEDCOMP_REQUIRE, a list with commas, names this."""
    return name in {word.strip() for word in os.environ.get(VARIABLE, "").split(",")}


def skip_without(name: str, reason: str) -> NoReturn:
    """Skip the running test for this reason; fail it where FEDCOMP_REQUIRE names what is absent."""
    if is_required(name):
        pytest.fail(f"{VARIABLE} names {name!r}, but {reason}", pytrace=False)
    pytest.skip(reason)
