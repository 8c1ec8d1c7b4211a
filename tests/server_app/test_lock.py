from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from server_app.lock import RunIsHeld, hold_run

HOLD = """
import sys
from pathlib import Path
from server_app.lock import hold_run
with hold_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_held_by_one_process_until_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "20261201-000000-abcd"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(RunIsHeld, match="run 20261201-000000-abcd is being run by"),
            hold_run(folder),
        ):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with hold_run(folder):
            pass


def test_it_is_let_go_of_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="why"), hold_run(tmp_path):
        raise ValueError("why")
    with hold_run(tmp_path), pytest.raises(RunIsHeld), hold_run(tmp_path):
        pass
