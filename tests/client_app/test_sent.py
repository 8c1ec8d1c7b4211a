from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest

from client_app.sent import SentNotWritten, UplinkCapExceeded, check_cap, note_sent
from client_app.site import Site

SITE = Site("bank", 0, 3, max_bits=2.0, shows_sent=True)


@pytest.mark.parametrize(
    ("update_bytes", "dim"),
    [
        (250_000, 1_000_000),
        (252_500, 1_000_000),  # 1 % for a rate that is rounded
        (25 + 128, 100),  # a header
        (0, 0),
    ],
)
def test_what_keeps_to_the_cap_passes(update_bytes: int, dim: int) -> None:
    check_cap(SITE, update_bytes=update_bytes, dim=dim)


@pytest.mark.parametrize(("update_bytes", "dim"), [(252_501, 1_000_000), (25 + 129, 100), (375_000, 1_000_000)])
def test_what_is_above_it_is_refused(update_bytes: int, dim: int) -> None:
    with pytest.raises(UplinkCapExceeded, match=r"max-bits in its profile is 2; nothing was sent.*client-bits='bank=2"):
        check_cap(SITE, update_bytes=update_bytes, dim=dim)
    check_cap(Site("bank", 0, 3), update_bytes=update_bytes, dim=dim)


def note(site: Site, round_index: int) -> None:
    note_sent(site, run="a-run", round_index=round_index, update_bytes=250, other_bytes=8, dim=1000)


def test_a_line_for_each_message(fedcomp_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flwr"):
        logging.getLogger("flwr").addHandler(caplog.handler)
        try:
            note(SITE, 1)
            note(SITE, 2)
        finally:
            logging.getLogger("flwr").removeHandler(caplog.handler)
    path = fedcomp_home / "sent" / "bank.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.pop("time")[-1] for line in lines] == ["Z", "Z"]
    assert lines[1] == {
        "run": "a-run",
        "round": 2,
        "update-bytes": 250,
        "other-bytes": 8,
        "bits-per-coordinate": 2.0,
        "sealed": False,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "sent: run a-run, round 2, 250 bytes, 2 bits a coordinate" in caplog.text


def test_a_site_that_does_not_want_it_writes_nothing(fedcomp_home: Path) -> None:
    note(Site("bank", 0, 3), 1)
    assert not (fedcomp_home / "sent").exists()


def test_where_it_cannot_be_written_nothing_is_sent(fedcomp_home: Path, tmp_path: Path) -> None:
    (fedcomp_home / "sent").mkdir(parents=True)
    (tmp_path / "victim").write_text("")
    (fedcomp_home / "sent" / "bank.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(SentNotWritten, match=r"bank.jsonl cannot be written.*show-sent = false"):
        note(SITE, 1)
    assert (tmp_path / "victim").read_text() == ""
