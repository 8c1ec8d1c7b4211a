"""The ClientApp: says who it is, trains when asked, sends one compressed update back."""

from __future__ import annotations

import time

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedcomp
from client_app.compression import encode_update
from client_app.resources import choose_device
from client_app.training import train_locally
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import ClientDescription, TrainReply, TrainRequest
from fedcomp.run_config import RunConfig
from fedcomp.tasks.registry import load_task
from fedcomp.vectors import VectorSpec

app = ClientApp()


@app.query()
def describe(message: Message, context: Context) -> Message:
    """Answer the server's question who this client is."""
    config = RunConfig.from_mapping(context.run_config)
    partition_id, _ = _partition(context)
    description = ClientDescription(
        client=_client_name(context),
        partition_id=partition_id,
        device=str(choose_device(config.device)),
        version=fedcomp.__version__,
    )
    return Message(description.to_record(), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on this client's examples and reply with the encoded difference."""
    config = RunConfig.from_mapping(context.run_config)
    request = TrainRequest.from_record(message.content)
    if request.client != _client_name(context):
        raise ConfigError(f"request is for client {request.client!r}, this is {_client_name(context)!r}")
    partition_id, num_partitions = _partition(context)
    device = choose_device(config.device)
    task = load_task(config.task)
    model = task.build_model(seed=config.seed)
    layout = VectorSpec.from_state_dict(model.state_dict())
    if layout.fingerprint != request.layout:
        raise ConfigError(
            f"the server's model has layout {request.layout}, this client's {layout.fingerprint}; align versions"
        )
    received = fedcomp.decode(request.payload, seed=request.payload_seed, device=device, expected_dim=layout.dim)
    model.to(device).load_state_dict(layout.unflatten(received, request.raw))
    examples = task.client_examples(partition_id, num_partitions, seed=config.seed)

    started = time.perf_counter()
    result = train_locally(model, task, examples, config, device=device, seed=request.training_seed)
    train_seconds = time.perf_counter() - started
    state = model.state_dict()
    with torch.no_grad():
        update = layout.flatten(state) - received
    encoded = encode_update(update, layout, compressor=request.compressor, seed=request.encode_seed)
    reply = TrainReply(
        payload=encoded.payload,
        raw=layout.raw(state),
        client=request.client,
        round_index=request.round_index,
        device=str(device),
        num_examples=float(len(examples)),
        train_loss=result.loss,
        vnmse=encoded.vnmse,
        train_seconds=train_seconds,
        encode_seconds=encoded.seconds,
    )
    return Message(reply.to_record(), reply_to=message)


def _partition(context: Context) -> tuple[int, int]:
    try:
        partition_id = int(context.node_config["partition-id"])
        num_partitions = int(context.node_config["num-partitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"node config is {dict(context.node_config)}; start the SuperNode with "
            "--node-config 'partition-id=0 num-partitions=10'"
        ) from error
    if not 0 <= partition_id < num_partitions:
        raise ConfigError(f"partition-id is {partition_id}; allowed: 0 to num-partitions - 1 = {num_partitions - 1}")
    return partition_id, num_partitions


def _client_name(context: Context) -> str:
    """Return the site's own name when its node config has one, else its partition; never the node id, which changes."""
    name = context.node_config.get("site")
    return str(name) if name else f"client-{_partition(context)[0]}"
