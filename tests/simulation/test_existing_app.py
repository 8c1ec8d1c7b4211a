"""A user's own app, whose modules have our modules' names, in a real simulation."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from fedcomp.superlink import PrivateSuperLink
from tests.support.existing_app import accuracies, copy

pytestmark = pytest.mark.timeout(300)


def test_an_existing_app_is_compressed_where_its_modules_are_called_as_ours(tmp_path: Path) -> None:
    app = copy(tmp_path / "existing_app", compress=True)
    home, log_path = tmp_path / "superlink", tmp_path / "run.log"
    home.mkdir()
    with PrivateSuperLink(home) as superlink:
        process = superlink.run(
            app,
            run_config={"num-rounds": 2},
            federation={"num-supernodes": 2, "client-resources-num-cpus": 1},
            log_path=log_path,
        )
        while process.poll() is None:
            superlink.observe()
            time.sleep(0.5)
        log = log_path.read_text()
        (run_id,) = re.findall(r"Successfully started run (\d+)", log)
        assert superlink.status(run_id) == "finished:completed", log
    for index in (1, 2):
        (bits,) = re.findall(rf"round {index}: 2 of 2 updates used, eden:bits=1\S*, ([\d.]+) bits per coordinate", log)
        assert float(bits) <= 1.01
    assert accuracies(log)[-1] > 0.9
