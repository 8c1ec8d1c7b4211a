"""What sites may be called, and the names of those that were given none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedcomp.errors import ConfigError
from fedcomp.site.errors import BadSiteName

MOST_SITES = 1000
_NAME = re.compile(r"[a-z][a-z0-9-]{0,47}")


def check_name(name: str) -> str:
    """Return ``name`` when it can be a site's, and so a file's; raises BadSiteName."""
    if not _NAME.fullmatch(name):
        raise BadSiteName(
            f"site name {name!r}; allowed: up to 48 of a-z, 0-9 and -, beginning with a letter, such as north-clinic"
        )
    return name


def site_names(count: int | None, given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of ``count`` sites: those given, or site-1, site-2 and so on.

    Raises
    ------
    ConfigError
        When nothing is given, the numbers disagree, or a name is there twice.
    """
    if given:
        if count is not None and count != len(given):
            raise ConfigError(f"--sites {count}, but {len(given)} names ({', '.join(given)}); give one --name a site")
        if len(set(given)) != len(given):
            raise ConfigError(f"names {', '.join(given)}: one is there twice")
        return tuple(check_name(name) for name in given)
    if count is None or not 1 <= count <= MOST_SITES:
        raise ConfigError(f"--sites {count}; allowed: 1 to {MOST_SITES}, or names: --name hospital --name bank")
    return tuple(f"site-{number}" for number in range(1, count + 1))
