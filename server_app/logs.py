"""Progress lines on standard output, which Flower carries to `flwr run --stream` and `flwr log`."""

from __future__ import annotations

import logging
import sys


class _StandardOutput(logging.Handler):
    """Writes to what ``sys.stdout`` is at the moment: Flower replaces it when it starts to carry logs."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stdout.write(self.format(record) + "\n")
        sys.stdout.flush()


def log_to_stdout(level: str) -> None:
    """Let the logger ``fedcomp`` write lines of ``level`` and above; may be called again with another level."""
    logger = logging.getLogger("fedcomp")
    logger.setLevel(level.upper())
    logger.propagate = False
    if not any(isinstance(handler, _StandardOutput) for handler in logger.handlers):
        logger.addHandler(_StandardOutput())
