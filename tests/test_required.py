"""What a machine lacks is a reason to skip for newcomers, a failure for CI."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.required import NAMES, VARIABLE, skip_without

ROOT = Path(__file__).resolve().parents[1]
SKIPS_BY_ITSELF = re.compile(r"pytest\.skip\(|skipif\(|importorskip\(")


def test_newcomers_skip_and_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no chromium here; `make ci-deps`"):
        skip_without("browser", "no chromium here")
    monkeypatch.setenv(VARIABLE, "postgres, nginx")
    with pytest.raises(pytest.skip.Exception):
        skip_without("browser", "no chromium here")


def test_what_was_promised_and_is_absent_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "postgres, browser")
    with pytest.raises(pytest.fail.Exception, match="FEDCOMP_REQUIRE names browser, but no chromium here"):
        skip_without("browser", "no chromium here")


def test_a_misspelt_name_is_not_silently_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "browser,postgresql")
    with pytest.raises(ValueError, match="names postgresql; allowed are browser, netns, nginx, postgres"):
        skip_without("nginx", "no nginx here")
    with pytest.raises(ValueError, match="'chromium' is none of"):
        skip_without("chromium", "no chromium here")


def test_ci_requires_all_of_them() -> None:
    named = re.findall(rf"{VARIABLE}=(\S+)", (ROOT / ".ci" / "run").read_text())
    assert [set(names.split(",")) for names in named] == [NAMES]


def test_programs_that_ci_installs_are_asked_for_by_skip_without() -> None:
    # Whoever looks for one of these programs must not skip in a way that CI does not see.
    wanted = re.compile(r"chromium|nginx|initdb|netns|playwright|psycopg")
    for folder in ("browser", "dashboard", "deployment"):
        for path in (ROOT / "tests" / folder).rglob("*.py"):
            text = path.read_text()
            if wanted.search(text):
                assert not SKIPS_BY_ITSELF.search(text), path


def install(folder: Path, *programs: str) -> tuple[int, str, list[str]]:
    """Run `.ci/deps` as a user who has only these programs; return its status, its words and the calls it made."""
    for name in programs:
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {folder}/calls\n')
        (folder / name).chmod(0o755)
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "id").chmod(0o755)
    command = ["/bin/bash", str(ROOT / ".ci" / "deps")]
    done = subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return done.returncode, done.stdout + done.stderr, calls


def test_nothing_is_installed_where_all_is_there(tmp_path: Path) -> None:
    status, said, calls = install(tmp_path, "google-chrome", "nginx", "ip", "initdb", "apt-get", "sudo")
    assert (status, calls) == (0, [])
    assert "nothing to install" in said


def test_what_is_absent_is_installed_with_sudo(tmp_path: Path) -> None:
    status, said, calls = install(tmp_path, "nginx", "ip", "initdb", "apt-get", "sudo")
    assert status == 0
    assert calls[0] == "sudo apt-get update -qq"
    assert re.fullmatch(r"sudo env DEBIAN_FRONTEND=noninteractive apt-get install .* chromium", calls[1])
    assert len(calls) == 2
    assert "installed chromium\n" in said


@pytest.mark.parametrize(
    ("there", "advice"),
    [((), "no apt-get"), (("apt-get",), "run as root: apt-get update && apt-get install chromium")],
)
def test_without_a_way_to_install_it_says_what_to_do(tmp_path: Path, there: tuple[str, ...], advice: str) -> None:
    status, said, calls = install(tmp_path, "nginx", "ip", "initdb", *there)
    assert (status, calls) == (1, [])
    assert re.search(advice, said)
    assert "chromium absent" in said
