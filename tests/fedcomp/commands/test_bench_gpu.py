from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from fedcomp.bench import gpu_bandwidth
from fedcomp.commands.main import app
from fedcomp.errors import ConfigError
from fedcomp.kernels import gpu, reference


def test_without_a_gpu_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="bench gpu needs a CUDA device"):
        CliRunner().invoke(app, ["bench", "gpu"], catch_exceptions=False)


def test_the_command_prints_a_line_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_bandwidth, "require_cuda", lambda: torch.device("cpu"))
    for name in ("encode_rows", "decode_rows", "accumulate_rows"):
        monkeypatch.setattr(gpu, name, getattr(reference, name))
    result = CliRunner().invoke(app, ["bench", "gpu", "--dim", "20000", "--repeats", "1"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in result.output.splitlines() if line[:1] == "│"
    ]
    operations = ("encode", "decode", "accumulate")
    assert [tuple(line[:2]) for line in lines] == [
        ("copy", "32"),
        *((operation, bits) for bits in ("1", "2", "4") for operation in operations),
    ]
    assert lines[0][4] == "100 %"
    for word in ("share of a copy's", "32,768 coordinates", "medians of 1", "repeat with: fedcomp"):
        assert word in result.output


def test_its_options_are_documented_beside_it() -> None:
    from tests.test_docs import CONFIGURATION

    assert "`fedcomp bench gpu [--dim N] [--repeats N]`" in CONFIGURATION
