from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path

import pytest

from server_app.logs import log_to_file, log_to_stdout


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


def test_lines_and_what_went_wrong_are_in_the_file(tmp_path: Path) -> None:
    log, path = logging.getLogger("fedcomp.server"), tmp_path / "logs" / "7.log"
    log_to_stdout("info")

    def work() -> None:
        with log_to_file(path):
            log.info("round %d", 3)
            assert path.read_text().endswith("INFO round 3\n")  # at once, not when the file is full
            raise ValueError("no clients")

    with pytest.raises(ValueError, match="no clients"):
        work()
    log.info("after")
    lines = path.read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO round 3", lines[0])
    assert lines[1].startswith("Traceback")
    assert lines[-1] == "ValueError: no clients"


def test_times_in_the_file_are_utc(tmp_path: Path) -> None:
    log_to_stdout("info")
    with log_to_file(tmp_path / "1.log"):
        record = logging.LogRecord("fedcomp.server", logging.INFO, "", 0, "then", (), None)
        record.created = 0.0
        logging.getLogger("fedcomp").handle(record)
    assert (tmp_path / "1.log").read_text() == "1970-01-01 00:00:00 INFO then\n"


def test_a_log_that_somebody_keeps_already_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "7.log"
    path.write_text("streamed\n")
    log_to_stdout("info")
    with log_to_file(path):
        logging.getLogger("fedcomp.server").info("round 3")
    assert path.read_text() == "streamed\n"
