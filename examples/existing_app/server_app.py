"""An ordinary Flower ServerApp: federated averaging of a small classifier."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds and print how accurate the model became."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.BatchNorm1d(256), nn.Linear(256, 10))
    strategy = FedAvg(min_available_nodes=int(context.run_config["min-nodes"]))
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(context.run_config["num-rounds"]),
    )
    print("accuracy by round:", [metrics["accuracy"] for metrics in result.evaluate_metrics_clientapp.values()])
