"""The ServerApp: from a run config to a trained, recorded, checkpointed model."""

from __future__ import annotations

import logging

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedcomp.home import checkpoints_dir, home, log_file, store_url
from fedcomp.run_config import RunConfig
from fedcomp.tasks.registry import load_task
from fedcomp.vectors import VectorSpec
from server_app.asynchronous import AsyncLoop
from server_app.coordinator import Coordinator
from server_app.lock import hold_run
from server_app.logs import log_to_file, log_to_stdout
from server_app.plan import RunPlan
from server_app.reporting import Reporter
from server_app.rounds import RoundLoop
from server_app.secret import run_secret

log = logging.getLogger("fedcomp.server")

ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad", "fedlamb")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds; a failure is recorded and raised, so that Flower sees it too."""
    config = RunConfig.from_mapping(context.run_config)
    log_to_stdout(config.log_level)
    with log_to_file(log_file(str(context.run_id))), Reporter.open(store_url()) as reporter:
        try:
            stop_reason = train(grid, config, reporter, flower_run_id=context.run_id)
        except BaseException as error:
            reporter.fail(error)
            raise
        reporter.complete(stop_reason)


def train(grid: Grid, config: RunConfig, reporter: Reporter, *, flower_run_id: int) -> str | None:
    """Run all rounds; return why the run ended before the last one, or None."""
    # What is wrong with the settings is said before anybody waits for clients, or a run is recorded.
    task = load_task(config.task)
    model = task.build_model(seed=config.seed)
    layout = VectorSpec.from_state_dict(model.state_dict())
    plan = RunPlan.of("", config, layout, run_secret(config.seed, home()))
    plan.new_broadcaster()
    device = torch.device("cuda" if torch.cuda.is_available() and config.device != "cpu" else "cpu")
    if config.resume:
        run_id = reporter.find(config)
    else:
        run_id = reporter.start(
            config, data_label=task.data_label, dim=layout.dim, flower_run_id=flower_run_id, device=device
        )
    with hold_run(checkpoints_dir(run_id)):
        coordinator = Coordinator(grid, plan.for_run(run_id), task, model, reporter, device=device)
        log.info("run %s in %s: %s, %s, dim %d", run_id, home(), config.task, config.compressor, layout.dim)
        log.info("data: %s", task.data_label)
        _announce(plan)
        if config.resume:
            coordinator.resume()
            after = coordinator.state.round_index
            reporter.resume(run_id, after, config, dim=layout.dim, flower_run_id=flower_run_id)
        else:
            coordinator.begin()
        loop = AsyncLoop(coordinator) if config.mode == "async" else RoundLoop(coordinator)
        while not coordinator.done():
            coordinator.finish(loop.run_round())
    return coordinator.stop_reason


def _announce(plan: RunPlan) -> None:
    """Say what clients will keep on their disks, and what a setting will not do."""
    config = plan.config
    if plan.uses_feedback:
        log.info("clients keep what their encodings lose and add it to their next update (error-feedback)")
    elif not plan.codec.is_unbiased:
        log.warning("%s is biased and error-feedback is off: expect a worse model", config.compressor)
    if config.strategy in ADAPTIVE and config.server_learning_rate >= 1:
        log.warning(
            "server-learning-rate is %g with %s, which moves weights by about that much a round; 0.01 to 0.1 is usual",
            config.server_learning_rate,
            config.strategy,
        )
    if plan.uses_feedback or plan.compresses_downlink:
        megabytes = plan.client_state_bytes() / 1e6
        log.info(
            "each client needs up to %.1f MB of disk: %.1f MB a state, kept since the oldest checkpoint",
            megabytes * plan.client_states_kept,
            megabytes,
        )
