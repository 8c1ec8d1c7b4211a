"""What a site remembers of the requests that it took: the greatest number of each run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from client_app.state import ClientStateError
from fedcomp.home import client_state_dir
from fedcomp.sealing.errors import Replayed
from fedcomp.sealing.request_ids import made_at

LIFETIME_SECONDS = 7 * 24 * 3600
"""How old a request may be; what a site remembers of a run is kept longer than that."""

_FILE = "last-request"


@dataclass(frozen=True)
class LastRequest:
    """The last request of one run that one site took.

    Attributes
    ----------
    path
        Where its number is kept.
    """

    path: Path

    @classmethod
    def of(cls, *, run: str, client: str) -> Self:
        """Return that of a run and client."""
        return cls(client_state_dir(run, client) / _FILE)

    def accept(self, request_id: bytes, *, now: float) -> None:
        """Remember a request as taken; it is on disk before this returns.

        Parameters
        ----------
        request_id
            From ``RequestIds``; numbers grow with the server's clock.
        now
            Seconds since 1970.

        Raises
        ------
        Replayed
            When it was taken before, or a later one was, or it is older than a week.
        ClientStateError
            When it cannot be written: then a replay could not be told.
        """
        age = now - made_at(request_id)
        if age > LIFETIME_SECONDS:
            raise Replayed(
                f"the request was made {age / 86400:.0f} days ago, at most {LIFETIME_SECONDS // 86400} are allowed; if "
                "it is new, the clock of the server or of this site is wrong"
            )
        try:
            last = self.path.read_bytes() if self.path.exists() else b""
            if request_id <= last:
                which = "this very request" if request_id == last else "a later one"
                raise Replayed(
                    f"{which} of the run was taken before; if it is new, the server's clock was set back by "
                    f"{made_at(last) - made_at(request_id):.0f} s"
                )
            self._write(request_id)
        except OSError as error:
            raise ClientStateError(f"{self.path} could not be read or written: {error}; make room there") from error

    def _write(self, request_id: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{_FILE}-draft")
        with draft.open("wb") as file:
            file.write(request_id)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        os.utime(self.path.parent.parent)  # the run is in use: what is kept of it stays
