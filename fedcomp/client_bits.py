"""The setting ``client-bits``: rules that say which client sends how many bits a coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fedcomp.errors import ConfigError

MAX_BITS = 32.0

_DEVICE = "device:"
_FORM = "write pattern=bits or device:pattern=bits, separated by commas, with bits above 0 and at most 32"


@dataclass(frozen=True)
class Rule:
    """Clients whose name (or device) fits ``pattern`` send ``bits`` bits a coordinate."""

    pattern: str
    bits: float
    by_device: bool = False


@dataclass(frozen=True)
class BudgetRules:
    """Rules in the order in which they are tried."""

    rules: tuple[Rule, ...] = ()

    def bits_for(self, name: str, device: str) -> float | None:
        """Return the bits of the first rule that fits, or None."""
        for rule in self.rules:
            if fnmatchcase(device if rule.by_device else name, rule.pattern):
                return rule.bits
        return None


def parse_rules(text: str) -> BudgetRules:
    """Map ``"site-a=4, device:cuda*=2, client-1?=0.5, *=1"`` to rules; the first that fits a client decides.

    Patterns are those of a shell (``*``, ``?``, ``[abc]``), upper and lower case differ. Blank text means no rules.

    Raises
    ------
    ConfigError
        Naming the part that cannot be read.
    """
    if not text.strip():
        return BudgetRules()
    return BudgetRules(tuple(_parse_rule(part.strip()) for part in text.split(",")))


def _parse_rule(part: str) -> Rule:
    pattern, equals, value = (piece.strip() for piece in part.rpartition("="))
    by_device = pattern.startswith(_DEVICE)
    pattern = pattern.removeprefix(_DEVICE).strip()
    try:
        bits = float(value)
    except ValueError:
        bits = math.nan
    if not equals or not pattern or not 0 < bits <= MAX_BITS:
        raise ConfigError(f"client-bits: {part!r} is not a rule; {_FORM}")
    return Rule(pattern, bits, by_device)
