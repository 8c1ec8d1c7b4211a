"""Every schedule as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from fedcomp.optim.schedule_specs import parse_schedule

NUM_ROUNDS = 60

# A panel each: its title and the specs drawn in it.
PANELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("decay", ("constant", "linear:end=0.1", "step:every=10,factor=0.5", "exponential:factor=0.97", "cosine:end=0.0")),
    ("warm restarts", ("cosine:restarts=3", "cosine:restarts=3,growth=2")),
    ("warm-up", ("constant:warmup=10", "linear:end=0.1,warmup=10", "cosine:end=0.0,warmup=20")),
    ("growth, for cohorts and batches", ("step:every=20,factor=2", "linear:end=4", "exponential:factor=1.02")),
)


def plot_schedules(
    path: Path, *, panels: Sequence[tuple[str, Sequence[str]]] = PANELS, num_rounds: int = NUM_ROUNDS
) -> None:
    """Write the factors of schedules over ``num_rounds`` rounds as PNG, a panel each of ``panels``.

    Raises
    ------
    ConfigError
        For a spec that is wrong.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = math.ceil(len(panels) / 2)
    figure = Figure(figsize=(11, 4.4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    rounds = range(1, num_rounds + 1)
    for index, (title, specs) in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, 2, index)
        for spec in specs:
            schedule = parse_schedule(spec, key="schedule")
            factors = [schedule.factor(round_index, num_rounds) for round_index in rounds]
            axes.plot(rounds, factors, marker=".", markersize=4, linewidth=1, label=spec)
        axes.set(xlabel="round", ylabel="factor", title=title)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), fontsize="small")
    figure.savefig(path, dpi=120)
