"""An ordinary Flower ClientApp: it trains a small classifier on points of its own."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model for some steps and reply with the result."""
    model = load(message)
    inputs, targets = points(int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loss = torch.tensor(0.0)
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    arrays = ArrayRecord(model.state_dict())
    metrics = MetricRecord({"num-examples": len(inputs), "loss": loss.item()})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Reply with the received model's accuracy on points that nobody trains on."""
    model = load(message)
    inputs, targets = points(1000 + int(context.node_config["partition-id"]))
    accuracy = float((model(inputs).argmax(1) == targets).float().mean())
    metrics = MetricRecord({"num-examples": len(inputs), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def load(message: Message) -> nn.Module:
    """Return the model with the arrays that the message holds."""
    model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.BatchNorm1d(256), nn.Linear(256, 10))
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model


def points(seed: int) -> tuple[Tensor, Tensor]:
    """Draw points around ten centres and say which centre each belongs to."""
    centres = torch.randn(10, 32, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed + 1)
    targets = torch.randint(10, (200,), generator=generator)
    return centres[targets] + torch.randn(200, 32, generator=generator), targets
