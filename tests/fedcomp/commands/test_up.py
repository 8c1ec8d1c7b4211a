from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedcomp.commands import coordinator, keep_up, site_up
from fedcomp.commands.main import app
from fedcomp.site.errors import BadFederation, ProfileError, SuperLinkRefused, WrongVersion
from fedcomp.site.federation import FederationFolder
from fedcomp.site.setup import Plan, create_federation
from fedcomp.site.supervisor import Program

PROFILE = """
name = "bank"
[coordinator]
address = "fl.example.org"
port = 8443
fedcomp = "{fedcomp}"
"""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """What would have been kept up."""
    found: list[Program] = []

    def keep(program: Program, *, on_up: object = None) -> None:
        found.append(program)
        if callable(on_up):
            on_up()

    for module in (coordinator, site_up):
        monkeypatch.setattr(module, "keep_up_until_signal", keep)
    return found


def run(*words: str) -> str:
    done = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("sealed", [True, False])
def test_the_coordinator_is_started_as_its_unit_does(
    tmp_path: Path, kept: list[Program], monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    folder = FederationFolder(tmp_path / "federation")
    plan = Plan(hosts=("fl.example.org",), names=("bank",), local_port=19092, sealed=sealed)
    create_federation(folder.path, plan, now=datetime.now(UTC))
    monkeypatch.setattr(coordinator, "synchronize", lambda _: iter(["bank is registered as node 7"]))
    assert "bank is registered as node 7" in run("coordinator", "up", str(folder.path))
    (superlink,) = kept
    command = " ".join(superlink.command)
    assert "flower-superlink --host 127.0.0.1 --port 19092" in command
    assert "--enable-supernode-auth" in command
    assert superlink.port == 19092
    assert superlink.environment.get("FEDCOMP_SEALING") == (str(folder.sealing) if sealed else None)
    assert superlink.environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"


def test_a_superlink_that_takes_no_sites_stays_up(
    tmp_path: Path, kept: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> object:
        raise SuperLinkRefused("no answer")

    create_federation(tmp_path / "f", Plan(hosts=("fl.example.org",), names=("bank",)), now=datetime.now(UTC))
    monkeypatch.setattr(coordinator, "synchronize", refuse)
    assert f"sites could not be let in: no answer; try `fedcomp site sync {tmp_path}/f`" in " ".join(
        run("coordinator", "up", str(tmp_path / "f")).split()
    ).replace(".venv/bin/", "")


def test_a_folder_that_is_no_federation_is_named(tmp_path: Path, kept: list[Program]) -> None:
    with pytest.raises(BadFederation, match=r"federation\.toml is missing"):
        run("coordinator", "up", str(tmp_path))
    assert kept == []


def test_a_site_is_started_with_its_profile(tmp_path: Path, kept: list[Program]) -> None:
    profile = tmp_path / "site.toml"
    profile.write_text(PROFILE.format(fedcomp=""))
    run("site", "up", "--profile", str(profile))
    run("site", "up", "--profile", str(profile), "--state", str(tmp_path / "elsewhere"))
    beside, elsewhere = kept
    assert beside.log == tmp_path / "state" / "supernode.log"
    assert elsewhere.environment["FLWR_HOME"] == str(tmp_path / "elsewhere" / "flwr")
    assert elsewhere.log.parent.is_dir()
    for word in ("fl.example.org:8443", f'profile="{profile}"', str(tmp_path / "ca.crt")):
        assert word in beside.command
    assert beside.port == 9094


def test_a_site_with_other_versions_is_told_which_to_install(tmp_path: Path, kept: list[Program]) -> None:
    profile = tmp_path / "site.toml"
    profile.write_text(PROFILE.format(fedcomp="0.0.9"))
    with pytest.raises(WrongVersion, match=r"0\.1\.0 is installed, the coordinator has 0\.0\.9; install that one"):
        run("site", "up", "--profile", str(profile))
    profile.write_text('name = "bank"\n')
    with pytest.raises(ProfileError, match="no \\[coordinator\\]"):
        run("site", "up", "--profile", str(profile))
    assert kept == []


def test_a_signal_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import signal

    def until_told(program: Program, stop: object, **_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()  # type: ignore[attr-defined]

    monkeypatch.setattr(keep_up, "keep_up", until_told)
    before = signal.getsignal(signal.SIGTERM)
    keep_up.keep_up_until_signal(Program("the server", ("x",), tmp_path, tmp_path / "log", 1))
    assert signal.getsignal(signal.SIGTERM) is before
    assert "starting the server; Ctrl-C or SIGTERM ends it" in capsys.readouterr().out
