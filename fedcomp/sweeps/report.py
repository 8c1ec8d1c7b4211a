"""A sweep's results as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from fedcomp.sweeps import saved
from fedcomp.sweeps.plots import plot_all
from fedcomp.sweeps.results import ArmResult, SweepResult
from fedcomp.sweeps.saved import save_runs

FILE = "report.md"
_HEAD = (
    "| arm | compressor | bits/coordinate | uplink MB | smaller than float32 | accuracy | seeds | NMSE of the mean |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
)
_FLOAT32_BITS = 32.0


def write_report(result: SweepResult, folder: Path) -> Path:
    """Write ``report.md``, its figures and the runs into ``folder``, made when missing, and return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = plot_all(result, folder)
    lines = [f"# Sweep {result.name}", ""]
    for task in result.tasks:
        lines += [*_section(task, result.of_task(task)), ""]
    lines += _notes(result)
    for path, caption in figures:
        lines += ["", f"![{caption}]({path.name})"]
    save_runs([run for arm in result.arms for run in arm.runs], folder / saved.FILE)
    path = folder / FILE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _section(task: str, arms: Sequence[ArmResult]) -> list[str]:
    runs = [run for arm in arms for run in arm.runs]
    labels = list(dict.fromkeys(run.data_label for run in runs))
    shown = [f"Data: {labels[0]}."] if len(labels) == 1 else ["**The runs were on different data:**"]
    shown += [f"- {label}" for label in labels] if len(labels) > 1 else []
    clients = " or ".join(sorted({str(run.key.clients) for run in runs}))
    rounds = sorted({len(run.points) for run in runs})
    dims = " or ".join(sorted({f"{run.dim:,}" for run in runs}))
    spread = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    about = f"{clients} clients, {spread} rounds, {dims} coordinates."
    return [f"## {task}", "", *shown, about, "", *_HEAD, *(_row(arm) for arm in arms)]


def _row(arm: ArmResult) -> str:
    cells = (
        arm.arm,
        f"`{arm.runs[0].compressor}`",
        f"{arm.bits:.3f}",
        f"{arm.uplink_mb:.2f}",
        f"{_FLOAT32_BITS / arm.bits:.1f}×",
        _with_deviation(arm.accuracy, arm.accuracy_deviation),
        str(len(arm.runs)),
        _error(arm.nmse),
    )
    return f"| {' | '.join(cells)} |"


def _notes(result: SweepResult) -> list[str]:
    notes = [
        "Bits are 8 × payload bytes / coordinates, header included. Accuracy is that of the last round on held-out "
        "data, mean ± standard deviation over the seeds. NMSE is ‖mean x̂ − mean x‖² / mean ‖x‖², averaged over the "
        "rounds; where a run has `measure-nmse = false` it is what follows from the clients' own errors, as if these "
        "were independent."
    ]
    if result.unfinished:
        notes += ["", f"Not in the tables, {len(result.unfinished)} runs that are not finished:", ""]
        notes += [f"- `{name}`: {status}" for name, status in sorted(result.unfinished.items())]
    return notes


def _with_deviation(value: float, deviation: float | None) -> str:
    return f"{value:.4f}" if deviation is None else f"{value:.4f} ± {deviation:.4f}"


def _error(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
