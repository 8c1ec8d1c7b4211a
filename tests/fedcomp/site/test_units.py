from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedcomp.site.containers import coordinator_compose
from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.profile import CoordinatorEntry
from fedcomp.site.units import coordinator_unit, site_unit

BIN = Path(sys.executable).parent
FEDERATION = Federation(
    address="fl.example.org", port=8443, local_port=9092, hosts=("fl.example.org",), num_partitions=1, sites={}
)
COORDINATOR = CoordinatorEntry(address="fl.example.org", port=8443)


def verify(text: str, path: Path) -> str:
    """Return what systemd says against a unit; nothing when all is well."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not on the PATH (Debian: apt-get install systemd)")
    path.write_text(text)
    done = subprocess.run([program, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + (f"exit status {done.returncode}" if done.returncode else "")


def settings(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


@pytest.mark.parametrize("name", ["federation", "two words", "100%", "it's"])
def test_systemd_accepts_the_coordinators_unit(tmp_path: Path, name: str) -> None:
    unit = coordinator_unit(FEDERATION, FederationFolder(tmp_path / name), programs=BIN, user="root")
    assert verify(unit, tmp_path / "fedcomp-coordinator.service") == ""
    # systemd reads %/ and the like as something of its own.
    assert name.replace("%", "%%") + "/" in unit or "'" in name
    # So that silence means something:
    assert "not executable" in verify(unit.replace(str(BIN), "/nowhere"), tmp_path / "broken.service")
    assert "Unknown key" in verify(unit.replace("Restart=", "Restrat="), tmp_path / "misspelt.service")


@pytest.mark.parametrize("folder", ["/etc/fedcomp", "/srv/a site"])
def test_systemd_accepts_a_sites_unit(tmp_path: Path, folder: str) -> None:
    profile, state = Path(folder) / "site.toml", Path("/var/lib/fedcomp")
    unit = site_unit(profile, COORDINATOR, programs=BIN, user="fedcomp", state=state)
    assert verify(unit, tmp_path / "fedcomp-site.service") == ""
    (command,) = settings(unit, "ExecStart")
    # systemd takes words apart as a shell does, but for what this line has none of.
    words = shlex.split(command)
    assert words[words.index("--node-config") + 1] == f'profile="{profile}"'
    assert words[words.index("--root-certificates") + 1] == f"{folder}/ca.crt"
    assert words[words.index("--superlink") + 1] == "fl.example.org:8443"
    assert "--insecure" not in words


def test_what_flower_needs_is_in_the_environment(tmp_path: Path) -> None:
    folder = FederationFolder(tmp_path)
    coordinator = coordinator_unit(FEDERATION, folder, programs=BIN, user="root")
    site = site_unit(Path("/etc/fedcomp/site.toml"), COORDINATOR, programs=BIN, user="fedcomp", state=tmp_path)
    for unit in (coordinator, site):
        variables = dict(line.split("=", 1) for line in settings(unit, "Environment"))
        # Flower starts flower-superexec by name, and hangs without a word when it is not found.
        assert shutil.which("flower-superexec", path=variables["PATH"]) is not None
        assert variables["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
        assert variables["FLWR_TELEMETRY_ENABLED"] == "0"
        # A killed SuperNode's key is refused for up to a minute: it is tried until it is let in.
        assert settings(unit, "Restart") == ["always"]
        assert settings(unit, "StartLimitIntervalSec") == ["0"]
    variables = dict(line.split("=", 1) for line in settings(coordinator, "Environment"))
    assert variables["FEDCOMP_SEALING"] == str(folder.sealing)
    (command,) = settings(coordinator, "ExecStart")
    assert "--host 127.0.0.1 --port 9092" in command
    assert "--enable-supernode-auth" in command


def test_a_server_whose_sites_take_plain_messages_has_no_keys(tmp_path: Path) -> None:
    plain = FEDERATION.model_copy(update={"sealed": False})
    unit = coordinator_unit(plain, FederationFolder(tmp_path), programs=BIN, user="root")
    assert "FEDCOMP_SEALING" not in unit
    compose = coordinator_compose(plain, FederationFolder(tmp_path), version="1", user="1:1")
    assert "FEDCOMP_SEALING" not in compose
    assert "FEDCOMP_HOME" in compose


def test_flower_understands_the_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from flwr.common.config import parse_config_args
    from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

    from fedcomp.site.programs import supernode_command

    for address, expected in (("fl.example.org", "fl.example.org:8443"), ("2001:db8::7", "[2001:db8::7]:8443")):
        entry = COORDINATOR.model_copy(update={"address": address})
        words = supernode_command(Path("/srv/a site/site.toml"), entry)
        read = _parse_args_run_supernode().parse_args(words[1:])
        assert read.superlink == expected
        assert parse_config_args([read.node_config]) == {"profile": "/srv/a site/site.toml"}
        assert not read.runtime_dependency_install
