from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedcomp.errors import ConfigError
from fedcomp.optim.plots import PANELS, plot_schedules
from fedcomp.optim.schedule_specs import SCHEDULES, parse_schedule


def test_every_schedule_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Axes] = []
    save = Figure.savefig

    def saved(figure: Figure, *args: Any, **kwargs: Any) -> None:
        drawn.extend(figure.axes)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", saved)
    plot_schedules(tmp_path / "schedules.png")
    content = (tmp_path / "schedules.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert 800 <= width <= 3000
    assert 600 <= height <= 2000
    assert 20_000 < len(content) < 1_000_000
    lines = {
        str(line.get_label()): np.asarray(line.get_ydata()).tolist() for axes in drawn for line in axes.get_lines()
    }
    assert {spec.partition(":")[0] for spec in lines} == set(SCHEDULES)
    assert list(lines) == [spec for _, specs in PANELS for spec in specs]
    for spec, values in lines.items():
        schedule = parse_schedule(spec, key="schedule")
        assert values == [schedule.factor(index, 60) for index in range(1, 61)]
    legends = [text.get_text() for axes in drawn if (legend := axes.get_legend()) for text in legend.get_texts()]
    assert legends == list(lines)


def test_a_wrong_spec_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="schedule is 'sine'"):
        plot_schedules(tmp_path / "out.png", panels=[("one", ["sine"])])
