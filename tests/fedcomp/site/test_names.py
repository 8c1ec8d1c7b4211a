from __future__ import annotations

import pytest

from fedcomp.errors import ConfigError
from fedcomp.site.errors import BadSiteName
from fedcomp.site.names import site_names


def test_names_are_given_or_numbered() -> None:
    assert site_names(3, ()) == ("site-1", "site-2", "site-3")
    assert site_names(None, ("bank", "north-clinic-2")) == ("bank", "north-clinic-2")
    assert site_names(1, ("bank",)) == ("bank",)


@pytest.mark.parametrize(
    ("count", "given", "message"),
    [
        (2, ("bank",), r"--sites 2, but 1 names \(bank\)"),
        (None, ("bank", "bank"), "one is there twice"),
        (None, (), "--sites None; allowed: 1 to 1000"),
        (0, (), "--sites 0; allowed: 1 to 1000"),
    ],
)
def test_numbers_that_disagree_are_refused(count: int | None, given: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        site_names(count, given)


@pytest.mark.parametrize("name", ["", "Bank", "1st", "a b", "../a", "a/b", "a.b", "a" * 49, "bänk", "a\n", '"'])
def test_a_name_must_do_for_a_file(name: str) -> None:
    with pytest.raises(BadSiteName, match="allowed: up to 48 of a-z"):
        site_names(None, (name,))
