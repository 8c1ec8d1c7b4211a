"""Progress lines on standard output, which Flower carries to `flwr run --stream` and `flwr log`, and in a file."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


@contextmanager
def log_to_file(path: Path) -> Iterator[None]:
    """Let the logger ``fedcomp`` write its lines, with UTC times, to a file too while the ``with`` block lasts.

    An error that ends the block is written with its traceback. A file that is there stays as it is: `fedcomp simulate`
    keeps all that Flower says of a run under the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        yield
        return
    logger, handler = logging.getLogger("fedcomp"), logging.StreamHandler(file)
    lines = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
    lines.converter = time.gmtime
    handler.setFormatter(lines)
    with file:
        logger.addHandler(handler)
        try:
            yield
        except BaseException:
            file.write(traceback.format_exc())
            raise
        finally:
            logger.removeHandler(handler)
