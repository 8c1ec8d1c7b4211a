"""A sweep's results as pictures, a panel a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedcomp.sweeps.results import ArmResult, SweepResult

_WIDTH, _HEIGHT, _LEGEND = 5.2, 4.6, 2.6
Draw = Callable[[Any, Sequence[ArmResult]], None]


def plot_all(result: SweepResult, folder: Path) -> list[tuple[Path, str]]:
    """Write all figures as PNG and return their paths with captions."""
    figures: tuple[tuple[str, str, Draw], ...] = (
        ("accuracy-rounds.png", "Accuracy against round", _against_round),
        ("accuracy-uplink.png", "Accuracy against megabytes sent by all clients", _against_uplink),
        ("accuracy-bits.png", "Final accuracy against bits per coordinate", _accuracy_against_bits),
        ("nmse-bits.png", "Error of the aggregated update against bits per coordinate", _nmse_against_bits),
    )
    for file, title, draw in figures:
        _plot(result, folder / file, title, draw)
    return [(folder / file, title) for file, title, _ in figures]


def _plot(result: SweepResult, path: Path, title: str, draw: Draw) -> None:
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = result.tasks
    figure = Figure(figsize=(_WIDTH * len(panels) + _LEGEND, _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    entries: dict[str, Any] = {}
    for index, task in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), index)
        axes.set_prop_cycle(color=[colormaps["tab20"](place) for place in range(20)])
        draw(axes, result.of_task(task))
        axes.set_title(task)
        axes.grid(visible=True, which="both", alpha=0.25)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.suptitle(title)
    if entries:
        figure.legend(list(entries.values()), list(entries), loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=120)


def _against_round(axes: Any, arms: Sequence[ArmResult]) -> None:
    for arm in arms:
        points = [point for point in arm.curve() if point.accuracy is not None]
        axes.plot([p.round_index for p in points], [p.accuracy for p in points], label=arm.arm)
    axes.set(xlabel="round", ylabel="accuracy on held-out data")


def _against_uplink(axes: Any, arms: Sequence[ArmResult]) -> None:
    for arm in arms:
        points = [point for point in arm.curve() if point.accuracy is not None and point.uplink_mb > 0]
        axes.plot([p.uplink_mb for p in points], [p.accuracy for p in points], label=arm.arm)
    axes.set(xlabel="uplink payload of all clients, MB", ylabel="accuracy on held-out data", xscale="log")


def _accuracy_against_bits(axes: Any, arms: Sequence[ArmResult]) -> None:
    _lines(axes, arms, lambda arm: (arm.accuracy, arm.accuracy_deviation))
    axes.set(xlabel="bits per coordinate on the wire", ylabel="final accuracy", xscale="log")


def _nmse_against_bits(axes: Any, arms: Sequence[ArmResult]) -> None:
    # What has no error has no place on a logarithmic axis.
    _lines(axes, [arm for arm in arms if arm.nmse > 0], lambda arm: (arm.nmse, arm.nmse_deviation))
    axes.set(xlabel="bits per coordinate on the wire", ylabel="NMSE of the mean", xscale="log", yscale="log")


def _lines(axes: Any, arms: Sequence[ArmResult], value: Callable[[ArmResult], tuple[float, float | None]]) -> None:
    """Draw a line a family, with the standard deviation over the seeds where there are several."""
    for family in dict.fromkeys(arm.family for arm in arms):
        line = sorted((arm for arm in arms if arm.family == family), key=lambda arm: arm.bits)
        line = [arm for arm in line if math.isfinite(arm.bits) and math.isfinite(value(arm)[0])]
        if line:
            means, deviations = zip(*(value(arm) for arm in line), strict=True)
            bars = [deviation or 0.0 for deviation in deviations]
            axes.errorbar([arm.bits for arm in line], means, yerr=bars, marker="o", capsize=3, label=family)
