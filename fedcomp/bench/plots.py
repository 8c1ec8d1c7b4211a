"""Error against bits, as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcomp.bench.dme import DmeResult, shannon_vnmse
from fedcomp.config import Spec, parse_spec

# The options that choose a rate: schemes that differ in no other are points of one line.
_RATES = ("bits", "levels", "fraction", "rank")

# The authors' code, run on any vector; its bits are of a vector padded to a power of two.
_PUBLISHED_EDEN = {0.25: 5.28, 0.5: 2.142, 1: 0.571, 1.5: 0.3166, 2: 0.133, 3: 0.0358, 4: 0.0096}


def family(spec: str) -> str:
    """Return the spec without the options that choose its rate."""
    parsed = parse_spec(spec)
    return str(Spec(parsed.name, {key: value for key, value in parsed.options.items() if key not in _RATES}))


def plot_errors(results: Sequence[DmeResult], path: Path) -> None:
    """Write vNMSE against bits on the wire as PNG, a line a scheme, with the Shannon bound and published EDEN.

    One panel a combination of distribution and dim.
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys((item.distribution, item.dim) for item in results))
    figure = Figure(figsize=(5.2 * len(panels) + 4.2, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    for index, (distribution, dim) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), index)
        axes.set_prop_cycle(color=[colormaps["tab20"](place) for place in range(20)])
        shown = [item for item in results if (item.distribution, item.dim) == (distribution, dim) and item.vnmse > 0]
        for name in dict.fromkeys(family(item.spec) for item in shown):
            line = sorted((i for i in shown if family(i.spec) == name), key=lambda i: i.bits_per_coordinate)
            axes.plot([i.bits_per_coordinate for i in line], [i.vnmse for i in line], marker="o", label=name)
        if shown:
            padded = 2 ** math.ceil(math.log2(dim)) / dim
            axes.plot(
                [bits * padded for bits in _PUBLISHED_EDEN],
                list(_PUBLISHED_EDEN.values()),
                color="grey",
                linestyle="--",
                marker="x",
                label="EDEN as published",
            )
            low, high = (f(i.bits_per_coordinate for i in shown) for f in (min, max))
            bits = np.linspace(max(low, 0.05), min(high, 8.5), 200)
            axes.plot(
                bits, [shannon_vnmse(b) for b in bits], color="black", linestyle=":", label="Shannon bound (Gaussian)"
            )
        axes.set(
            yscale="log", xlabel="bits per coordinate on the wire", ylabel="vNMSE", title=f"{distribution}, dim {dim:,}"
        )
        axes.grid(visible=True, which="both", alpha=0.25)
    # Every panel has the same lines.
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=120)
