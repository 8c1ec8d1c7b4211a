"""How many bits a coordinate each client may send, and the compressor that sends so many.

Budgets are of payloads. Flower's envelope, some 500 bytes a reply, comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import fedcomp
from fedcomp.client_bits import MAX_BITS, BudgetRules
from fedcomp.config import MIN_FRACTION, Spec, Value, parse_spec
from fedcomp.errors import ConfigError
from fedcomp.wire import HEADER_BYTES

Source = Literal["run", "rule", "profile", "uplink", "estimate"]

MIN_UPLOAD_BITS = 0.05
REMEMBERED = 5

# What a payload holds beside its coordinates at most: header, parameters, and what rounding up one value costs.
_FIXED_BITS = 8 * (HEADER_BYTES + 16) + 64
_HALVINGS = 40


class BudgetImpossible(ConfigError):
    """The compressor cannot send as few bits as a client's budget allows."""


@dataclass(frozen=True)
class Budget:
    """What one client may send.

    Attributes
    ----------
    bits
        Bits per coordinate asked for; None leaves the run's compressor as it is.
    source
        Who said so: the ``run``, a ``rule``, the site's ``profile``, its ``uplink`` with the target upload time, or the
        ``estimate`` of its uplink with that time.
    """

    bits: float | None
    source: Source


def choose_budget(
    *,
    name: str,
    device: str,
    profile_bits: float | None,
    profile_uplink_mbps: float | None,
    rules: BudgetRules,
    target_upload_seconds: float,
    estimated_mbps: float | None,
    dim: int,
) -> Budget:
    """Return a client's budget, from the first of these that says something.

    The bits in the site's profile, which nothing else can raise; the uplink in its profile; the run's rules; the
    estimated uplink. An uplink of m Mbit/s fills the target of t seconds with m·10^6·t/dim bits a coordinate, cut to
    0.05…32; it needs a target above 0. Below 0.05 the upload takes longer than asked.

    Raises
    ------
    ConfigError
        When a number of the profile is not above 0, or its bits are above 32; reject that client.
    """
    if profile_bits is not None:
        _check(f"bits in the profile of {name}", profile_bits, limit=MAX_BITS)
        return Budget(float(profile_bits), "profile")
    if profile_uplink_mbps is not None:
        _check(f"uplink-mbps in the profile of {name}", profile_uplink_mbps)
        if target_upload_seconds > 0:
            return Budget(_upload_bits(profile_uplink_mbps, target_upload_seconds, dim), "uplink")
    ruled = rules.bits_for(name, device)
    if ruled is not None:
        return Budget(ruled, "rule")
    if estimated_mbps is not None and target_upload_seconds > 0:
        return Budget(_upload_bits(estimated_mbps, target_upload_seconds, dim), "estimate")
    return Budget(None, "run")


def keep_to_cap(budget: Budget, cap: float | None, spec: str) -> Budget:
    """Return the budget, or that of the site's cap where the budget, or the run's compressor, asks for more.

    Parameters
    ----------
    cap
        Bits a coordinate that the site sends at most; None where it does not say.
    spec
        The run's compressor. One whose rate depends on the vector counts as more.

    Raises
    ------
    ConfigError
        When the cap is not above 0, or above 32; reject that client.
    """
    if cap is None:
        return budget
    _check("max-bits in the profile of a site", cap, limit=MAX_BITS)
    asked = fedcomp.compressor(spec).nominal_bits if budget.bits is None else budget.bits
    return budget if asked is not None and asked <= cap else Budget(cap, "profile")


def spec_with_bits(spec: str, bits: float | None, source: Source, *, dim: int) -> str:
    """Return the spec string of the same scheme at the highest rate that ``bits`` allows; ``spec`` itself for None.

    A scheme with fractional ``bits`` (``eden``) gets exactly the budget, or its most where that is less; where header
    and scales are more than 1 % of a budget (below 0.62 bits at 100,000 coordinates), ``eden`` sends them on top. One
    with whole ``bits`` gets the most whose nominal rate is within the budget; its header comes on top. One with a
    ``fraction`` gets the largest whose payload of ``dim`` coordinates, header and all, is within it. A scheme with one
    rate only stays as it is when that is within the budget.

    Raises
    ------
    BudgetImpossible
        When the scheme cannot send so little, or when its rate depends on the vector.
    ConfigError
        When ``spec`` is not a compressor.
    """
    own = fedcomp.compressor(spec).nominal_bits
    if bits is None:
        return spec
    refusal = f"{spec!r} cannot keep to {bits:g} bits a coordinate (from: {source})"
    advice = "raise that budget or use a scheme of any rate, such as eden"
    if own is None:
        raise BudgetImpossible(f"{refusal}: its rate depends on the vector; {advice}")
    rates = _rates(parse_spec(spec), bits, dim) or {spec: own}
    fitting = {text: rate for text, rate in rates.items() if rate <= bits}
    if not fitting:
        raise BudgetImpossible(f"{refusal}: it sends {min(rates.values()):.4g} bits or more; {advice}")
    return max(fitting, key=lambda text: fitting[text])


class UplinkEstimates:
    """Estimates each client's uplink from how long its replies took.

    A lower bound: all time that is not the client's own work, so waiting, Flower's polling and the downlink too, counts
    as transfer. A client that overstates its own work only raises its own estimate.
    """

    def __init__(self) -> None:
        self._observed: dict[str, list[float]] = {}

    def observe(self, name: str, *, bytes_up: int, seconds: float) -> None:
        """Take one reply of ``bytes_up`` bytes that was ``seconds`` on its way; ignored unless both are above 0."""
        if not (bytes_up > 0 and math.isfinite(seconds) and seconds > 0):
            return
        # No reply takes less than a microsecond; a clock that says so would lead to no usable number.
        mbps = 8 * bytes_up / max(seconds, 1e-6) / 1e6
        self._observed[name] = [*self._observed.get(name, []), mbps][-REMEMBERED:]

    def get(self, name: str) -> float | None:
        """Return the median of the client's last five observations, in Mbit/s; None before the first."""
        observed = self._observed.get(name)
        return median(observed) if observed else None

    def state(self) -> dict[str, Any]:
        """Return what has been seen, ready for JSON."""
        return {"mbps": {name: list(observed) for name, observed in self._observed.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` returned."""
        self._observed = {name: [float(mbps) for mbps in observed] for name, observed in state["mbps"].items()}


def _rates(parsed: Spec, bits: float, dim: int) -> dict[str, float]:
    """Map the spec strings at which the scheme may be set to their rates; empty when it has one rate only.

    Only what can matter is in it: the budget itself, whole bits, the least fraction and the largest that fits.
    """
    exact = int(bits) if float(bits).is_integer() else float(bits)
    by_bits = {text: rate for value in (exact, *range(1, 33)) for text, rate in _rate(parsed, "bits", value)}
    fixed = _FIXED_BITS / max(dim, 1)
    fractions = (MIN_FRACTION, _largest_fraction(parsed, bits - fixed))
    by_fraction = {text: rate + fixed for value in fractions for text, rate in _rate(parsed, "fraction", value)}
    return by_bits | by_fraction


def _rate(parsed: Spec, option: str, value: Value) -> list[tuple[str, float]]:
    """Return spec string and nominal rate with that option; nothing where the scheme refuses it."""
    text = str(Spec(parsed.name, {**parsed.options, option: value}))
    try:
        rate = fedcomp.compressor(text).nominal_bits
    except ConfigError:
        return []
    return [] if rate is None else [(text, rate)]


def _largest_fraction(parsed: Spec, bits: float) -> float:
    """Return the largest fraction whose nominal rate is at most ``bits``, or the least there is."""
    low, high = MIN_FRACTION, 1.0
    if all(rate <= bits for _, rate in _rate(parsed, "fraction", high)):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if all(rate <= bits for _, rate in _rate(parsed, "fraction", middle)):
            low = middle
        else:
            high = middle
    return low


def _upload_bits(mbps: float, seconds: float, dim: int) -> float:
    return min(max(mbps * 1e6 * seconds / max(dim, 1), MIN_UPLOAD_BITS), MAX_BITS)


def _check(what: str, value: float, *, limit: float = math.inf) -> None:
    if not (math.isfinite(value) and 0 < value <= limit):
        most = "" if math.isinf(limit) else f", at most {limit:g}"
        raise ConfigError(f"{what} is {value}; allowed: finite numbers above 0{most}; correct the site's profile")
