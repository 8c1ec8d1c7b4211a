"""Run the project's commands as a user does: real processes, nothing shared with the test's own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
QUICK_TASK = "emnist:examples-per-client=40,test-examples=62"


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FLWR_", "FEDCOMP_", "RAY_"))}
    return {**kept, "FEDCOMP_HOME": str(home), "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", **more}


def start(*words: str, home: Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(BIN / words[0]), *words[1:]],
        cwd=cwd,
        env={**environment(home), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    *words: str, home: Path, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300
) -> tuple[int, str, str]:
    process = start(*words, home=home, cwd=cwd, env=env)
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def records(home: Path, cwd: Path) -> list[dict[str, Any]]:
    code, out, err = run("fedcomp", "runs", "--json", home=home, cwd=cwd)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def record(home: Path, cwd: Path, reference: str = "latest") -> dict[str, Any]:
    code, out, err = run("fedcomp", "show", reference, "--json", home=home, cwd=cwd)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def processes_with(variable: str, value: str) -> list[int]:
    """Return the ids of live processes whose environment has variable=value (Linux)."""
    wanted = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def flower_processes() -> set[int]:
    """Return the ids of all live processes of Flower and Ray; Ray's hide their environment, so it cannot tell them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if any(name in words for name in (b"ray::", b"/raylet", b"gcs_server", b"/flwr", b"/flower-")):
            found.add(int(folder.name))
    return found


def free_ports(count: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [item.getsockname()[1] for item in sockets]
    for item in sockets:
        item.close()
    return ports


def copy_checkout(target: Path) -> Path:
    """Copy what git tracks, as a newcomer's clone has it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target
