"""Run ids that are short, sort by time, and can be typed."""

from __future__ import annotations

from datetime import UTC, datetime

ENTROPY_BYTES = 4
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u


def new_run_id(now: datetime, entropy: bytes) -> str:
    """Map a time and four random bytes to an id such as ``20261129-175312-k3f9``.

    The time is in UTC, so ids sort by second; one id in a million is shared by two runs of the same second.

    Raises
    ------
    ValueError
        `now` has no time zone, or `entropy` is not four bytes long.
    """
    if now.utcoffset() is None:
        raise ValueError(f"now={now.isoformat()} has no time zone; pass an aware datetime, such as datetime.now(UTC)")
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"entropy has {len(entropy)} bytes; pass {ENTROPY_BYTES} random ones")
    suffix = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in entropy)
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{suffix}"
