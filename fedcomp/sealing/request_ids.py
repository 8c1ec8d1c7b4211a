"""Numbers of requests: when they were made, then chance; a later one is greater.

So a site needs to keep one number a run to know what it has seen, and what is older than that.
"""

from __future__ import annotations

import secrets
import time

from fedcomp.sealing.envelope import REQUEST_ID_BYTES

_TIME_BYTES = 8


class RequestIds:
    """Makes the numbers of one process."""

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> bytes:
        """Return the next number, 16 bytes; greater than all before it even where the clock was set back."""
        self._last = max(time.time_ns(), self._last + 1)
        return self._last.to_bytes(_TIME_BYTES, "big") + secrets.token_bytes(REQUEST_ID_BYTES - _TIME_BYTES)


def made_at(request_id: bytes) -> float:
    """Return when a request was made by its sender's clock, in seconds since 1970."""
    return int.from_bytes(request_id[:_TIME_BYTES], "big") / 1e9
