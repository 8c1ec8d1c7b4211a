"""One run in this process: the apps that `flwr run` would start, on a LocalGrid.

``python -m fedcomp.flower.local_run JOB`` runs one, for :mod:`fedcomp.sweeps.worker`, which starts such processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.supercore.object_ref import load_app
from flwr.supercore.task_identity import TaskIdentity

from fedcomp.app_bundle import settings_file
from fedcomp.config import Value
from fedcomp.errors import FedcompError
from fedcomp.flower.local_grid import LocalGrid

_SERVER_NODE = 1
_STANDARD_INPUT = 0


class AppNotFound(FedcompError):
    """The app's settings file, or an app that it names, is not there."""


def load_components() -> tuple[ServerApp, ClientApp, Mapping[str, Value]]:
    """Return the server app, the client app and the settings' defaults, found as Flower finds them.

    Raises
    ------
    AppNotFound
        When pyproject.toml names none, or what it names is no such app.
    """
    root = Path(__file__).resolve().parents[2]
    path = settings_file()
    try:
        settings: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        names = settings["components"]
        server, client = (load_app(names[key], AppNotFound, root) for key in ("serverapp", "clientapp"))
    except (OSError, KeyError, ImportError, tomllib.TOMLDecodeError) as error:
        raise AppNotFound(f"{path} names no server and client app ({error!r}); install fedcomp anew") from error
    if not isinstance(server, ServerApp) or not isinstance(client, ClientApp):
        raise AppNotFound(f"{path}: {names} are a {type(server).__name__} and a {type(client).__name__}")
    return server, client, settings["config"]


def run_locally(run_config: Mapping[str, Value], *, clients: int, flower_run_id: int) -> None:
    """Run one federation to its end in this process.

    Guarantee: the model is that of Flower's simulation with the same settings and secret, bit by bit, as long as torch
    uses one thread here, as it does in simulated clients, and nothing depends on the order in which clients answer.

    Parameters
    ----------
    run_config
        Overrides of the app's settings.
    clients
        Number of clients; client i holds partition i.
    flower_run_id
        The number that the run's record is found by, in [1, 2**63).

    Raises
    ------
    FedcompError
        Whatever the server app raises; the run is then recorded as failed.
    """
    server, client, defaults = load_components()
    # Without an identity no Message can be made.
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = flower_run_id, _SERVER_NODE, flower_run_id
    settings = {**defaults, **run_config}
    grid = LocalGrid(client, clients=clients, run_config=settings, run_id=flower_run_id)
    context = Context(
        run_id=flower_run_id, node_id=_SERVER_NODE, node_config={}, state=RecordDict(), run_config=settings
    )
    server(grid=grid, context=context)


def _main(job: str) -> int:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, _interrupt_once)
    signal.signal(signal.SIGINT, _interrupt_once)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    wanted = json.loads(job)
    try:
        run_locally(wanted["settings"], clients=wanted["clients"], flower_run_id=wanted["flower_run_id"])
    except FedcompError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, so that the run is recorded as cancelled; a second signal does not disturb that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Wait for the end of standard input, which comes when the parent is gone, however it went."""
    # Not through sys.stdin, whose lock would hinder the interpreter's end while this thread waits.
    with contextlib.suppress(OSError):
        while os.read(_STANDARD_INPUT, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
