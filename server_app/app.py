"""The ServerApp: from a run config to a trained, recorded, checkpointed model."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

import fedcomp
from fedcomp.home import checkpoints_dir, database_url, home
from fedcomp.run_config import RunConfig
from fedcomp.tasks.registry import load_task
from fedcomp.vectors import VectorSpec
from server_app.checkpoint import CheckpointState, save_checkpoint
from server_app.evaluation import evaluate
from server_app.logs import log_to_stdout
from server_app.reporting import Reporter
from server_app.roster import Roster
from server_app.rounds import RoundPlan, choose_cohort, run_round
from server_app.secret import run_secret
from server_app.strategy import ServerOptimizer, build_strategy

log = logging.getLogger("fedcomp.server")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds; a failure is recorded and raised, so that Flower sees it too."""
    config = RunConfig.from_mapping(context.run_config)
    log_to_stdout(config.log_level)
    with Reporter.open(database_url()) as reporter:
        try:
            train(grid, config, reporter, flower_run_id=context.run_id)
        except BaseException as error:
            reporter.fail(error)
            raise
        reporter.complete()


def train(grid: Grid, config: RunConfig, reporter: Reporter, *, flower_run_id: int) -> dict[str, Tensor]:
    """Run all rounds and return the final model's state dict."""
    # What is wrong with the settings is said before anybody waits for clients.
    codec = fedcomp.compressor(config.compressor)
    optimizer = ServerOptimizer(build_strategy(config))
    task = load_task(config.task)
    model = task.build_model(seed=config.seed)
    layout = VectorSpec.from_state_dict(model.state_dict())
    device = torch.device("cuda" if torch.cuda.is_available() and config.device != "cpu" else "cpu")
    reporter.start(config, data_label=task.data_label, dim=layout.dim, flower_run_id=flower_run_id, device=device)
    log.info("run %s in %s: %s, %s, dim %d", reporter.run_id, home(), config.task, config.compressor, layout.dim)
    log.info("data: %s", task.data_label)
    if not codec.is_unbiased:
        log.warning("%s is biased and the clients do not use error feedback: expect a worse model", config.compressor)

    test = task.test_examples(seed=config.seed)
    plan = RoundPlan(layout, run_secret(config.seed, home()), config.compressor, config.round_timeout)
    roster = Roster(grid)
    vector = layout.flatten(model.state_dict())
    raw: Mapping[str, Tensor] = layout.raw(model.state_dict())
    state = dict(model.state_dict())
    for round_index in range(1, config.num_server_rounds + 1):
        started = time.perf_counter()
        clients = roster.wait_for(config.min_clients, timeout=config.node_timeout)
        cohort = choose_cohort(clients, config.clients_per_round, secret=plan.secret, round_index=round_index)
        outcome = run_round(grid, cohort, plan, model=vector, raw=raw, round_index=round_index)
        if outcome.mean is not None:
            vector = optimizer.step(vector, outcome.mean.mean, weight=outcome.mean.weight, round_index=round_index)
            raw = outcome.raw
        state = layout.unflatten(vector, raw)
        model.load_state_dict(state)
        accuracy, loss = evaluate(model, task, test, device=device)
        seconds = time.perf_counter() - started
        reporter.record(round_index, outcome, dim=layout.dim, accuracy=accuracy, loss=loss, seconds=seconds)
        last = round_index == config.num_server_rounds
        if config.checkpoint_every and (last or round_index % config.checkpoint_every == 0):
            position = CheckpointState(
                reporter.run_id, round_index, str(config.seed), layout.fingerprint, config.to_mapping()
            )
            path = save_checkpoint(checkpoints_dir(reporter.run_id), state, position)
            reporter.checkpoint(str(path))
    return state
