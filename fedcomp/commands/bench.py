"""``fedcomp bench``: measure the compressors, and the dashboard, on this machine."""

from __future__ import annotations

import typer

from fedcomp.commands import bench_dashboard, bench_dme, bench_gpu, bench_seal, bench_speed, bench_updates

app = typer.Typer(help="Measure the compressors, and the dashboard, on this machine.", no_args_is_help=True)
app.command("dashboard")(bench_dashboard.dashboard)
app.command("dme")(bench_dme.dme)
app.command("gpu")(bench_gpu.gpu)
app.command("seal")(bench_seal.seal)
app.command("speed")(bench_speed.speed)
app.command("updates")(bench_updates.updates)


@app.callback()
def bench() -> None:
    """Measure the compressors, and the dashboard, on this machine."""
