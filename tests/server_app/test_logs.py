from __future__ import annotations

import io
import logging
import sys

import pytest

from server_app.logs import log_to_stdout


def test_lines_go_to_what_standard_output_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("fedcomp.server")
    log_to_stdout("info")
    log_to_stdout("info")
    for _ in range(2):
        output = io.StringIO()
        monkeypatch.setattr(sys, "stdout", output)
        log.info("round %d", 3)
        log.debug("not shown")
        assert output.getvalue() == "round 3\n"


def test_the_level_is_the_one_asked_for_last(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("fedcomp.server")
    log_to_stdout("error")
    log.warning("quiet")
    log_to_stdout("debug")
    log.debug("loud")
    assert capsys.readouterr().out == "loud\n"
