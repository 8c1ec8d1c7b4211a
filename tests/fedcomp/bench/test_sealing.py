from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedcomp.bench.sealing import measure, sweep
from fedcomp.commands.main import app
from fedcomp.errors import ConfigError


def test_the_share_is_that_of_the_times_and_the_bytes_are_the_payloads() -> None:
    found = measure("eden:bits=2", dim=5000, repeats=3, seed=1)
    assert found.seal_ms > 0
    assert found.open_ms > 0
    assert found.seal_share == found.seal_ms / found.encode_ms
    assert 5000 / 4 <= found.payload_bytes < 5000 / 4 + 100
    assert found.repeats == 3


def test_all_combinations_are_measured() -> None:
    found = list(sweep(["identity", "eden:bits=1"], dims=[100, 300], repeats=1, seed=1))
    assert [(item.spec, item.dim) for item in found] == [
        ("identity", 100),
        ("eden:bits=1", 100),
        ("identity", 300),
        ("eden:bits=1", 300),
    ]
    with pytest.raises(ConfigError):
        list(sweep(["nothing"], dims=[100], repeats=1, seed=1))


def test_the_command_prints_a_table_and_json() -> None:
    arguments = ["bench", "seal", "--scheme", "identity", "--dim", "1000", "--repeats", "1"]
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 0
    assert "seal/encode" in table.output
    assert "4,032" in table.output
    (item,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert (item["spec"], item["dim"], item["payload_bytes"]) == ("identity", 1000, 4032)
