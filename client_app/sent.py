"""What leaves the site: the operator's cap, and a line for each message that is handed to Flower."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

from client_app.site import Site
from fedcomp.errors import FedcompError
from fedcomp.home import sent_file

# Flower's own logger: what it says is in the SuperNode's log.
log = logging.getLogger("flwr")

# Of a short payload header, parameters and scales may come on top of the rate that it was made for.
_SLACK, _SLACK_BYTES = 1.01, 128


class UplinkCapExceeded(FedcompError):
    """A message would hold more bits a coordinate than the site's ``max-bits``; it is not sent."""


class SentNotWritten(FedcompError):
    """The site wants a line for each message, which cannot be written; the message is not sent."""


def check_cap(site: Site, *, update_bytes: int, dim: int) -> None:
    """Refuse what is longer than the site's cap allows, but for 1 % or 128 bytes.

    Parameters
    ----------
    update_bytes
        All that is sent of the update, in whatever form.
    dim
        Coordinates of the update.

    Raises
    ------
    UplinkCapExceeded
        When there is a cap and it is more.
    """
    if site.max_bits is None:
        return
    allowed = site.max_bits * dim / 8
    if update_bytes > max(allowed * _SLACK, allowed + _SLACK_BYTES):
        raise UplinkCapExceeded(
            f"site {site.name}: {8 * update_bytes / max(dim, 1):.4g} bits a coordinate were asked for, max-bits in its "
            f"profile is {site.max_bits:g}; nothing was sent; let the run ask for less, "
            f"client-bits='{site.name}={site.max_bits:g}'"
        )


def note_sent(site: Site, *, run: str, round_index: int, update_bytes: int, other_bytes: int, dim: int) -> None:
    """Write one line of what leaves now to the log and to ``FEDCOMP_HOME/sent/NAME.jsonl``, when the site wants it.

    Parameters
    ----------
    update_bytes, other_bytes
        Bytes of the update, and of the tensors that travel as they are.

    Raises
    ------
    SentNotWritten
        When the file cannot be written.
    """
    if not site.shows_sent:
        return
    bits = 8 * update_bytes / max(dim, 1)
    line = {
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "run": run,
        "round": round_index,
        "update-bytes": update_bytes,
        "other-bytes": other_bytes,
        "bits-per-coordinate": round(bits, 4),
        "sealed": site.sealing is not None,
    }
    path = sent_file(site.name)
    try:
        _append(path, json.dumps(line) + "\n")
    except OSError as error:
        raise SentNotWritten(
            f"{path} cannot be written: {error.strerror}; make room, or set show-sent = false in the site's profile"
        ) from error
    log.info("sent: run %s, round %d, %d bytes, %.4g bits a coordinate", run, round_index, update_bytes, bits)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(line)
