"""The ClientApp: says who it is, trains when asked, sends one compressed update back."""

from __future__ import annotations

import time

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor

import fedcomp
from client_app.compression import encode_update
from client_app.resources import choose_device
from client_app.sealing import SiteSeals, check_plain
from client_app.sent import check_cap, note_sent
from client_app.site import Site, is_simulated
from client_app.state import ClientState, ClientStore, PendingPayload, settle
from client_app.training import train_locally
from fedcomp.downlink import receive
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import ClientDescription, ClientQuery, TrainReply, TrainRequest
from fedcomp.run_config import RunConfig
from fedcomp.tasks.registry import load_task
from fedcomp.training.settings import training_options
from fedcomp.vectors import VectorSpec

_ALL_ROUNDS = 2**62

app = ClientApp()


@app.query()
def describe(message: Message, context: Context) -> Message:
    """Answer the server's question who this client is."""
    config = RunConfig.from_mapping(context.run_config)
    site = Site.of(context.node_config)
    query = ClientQuery.from_record(message.content)
    held = ClientStore.open(run=query.run, client=site.name).before(_ALL_ROUNDS).version
    description = ClientDescription(
        client=site.name,
        partition_id=site.partition_id,
        num_partitions=site.num_partitions,
        device=str(choose_device(site.device or config.device, partition_id=site.partition_id)),
        version=fedcomp.__version__,
        bits=site.bits or 0.0,
        uplink_mbps=site.uplink_mbps or 0.0,
        max_bits=site.max_bits or 0.0,
        holds_version=-1 if held is None else held,
        simulated=is_simulated(),
    )
    seals = SiteSeals.of(site, config)
    content = description.to_record() if seals is None else seals.describe(description, query)
    return Message(content, reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the received model on this client's examples and reply with the encoded difference."""
    config = RunConfig.from_mapping(context.run_config)
    site = Site.of(context.node_config)
    seals = SiteSeals.of(site, config)
    if seals is None:
        check_plain(message.content, site)
        request = TrainRequest.from_record(message.content)
        return Message(_train(request, config, site).to_record(), reply_to=message)
    request = seals.open(message.content)
    sealed = seals.answer(message.content, lambda: _train(request, config, site).to_record())
    return Message(sealed, reply_to=message)


def _train(request: TrainRequest, config: RunConfig, site: Site) -> TrainReply:
    if request.client != site.name:
        raise ConfigError(f"request is for client {request.client!r}, this is {site.name!r}")
    device = choose_device(site.device or config.device, partition_id=site.partition_id)
    options = training_options(config, learning_rate=request.learning_rate, batch_size=request.batch_size)
    task = load_task(config.task, data=site.data)
    model = task.build_model(seed=config.seed)
    layout = VectorSpec.from_state_dict(model.state_dict())
    if layout.fingerprint != request.layout:
        raise ConfigError(
            f"the server's model has layout {request.layout}, this client's {layout.fingerprint}; align versions"
        )
    keeps = request.feedback or request.keeps_model
    store = ClientStore.open(run=request.run, client=site.name) if keeps else None
    before = ClientState() if store is None else store.before(request.round_index, request.void)
    received = receive(request.parts, held_version=before.version, held=before.model, dim=layout.dim)
    model.to(device).load_state_dict(layout.unflatten(received.to(device), request.raw))
    examples = task.client_examples(*site.share, seed=config.seed)

    started = time.perf_counter()
    result = train_locally(model, task, examples, options, device=device, seed=request.training_seed)
    train_seconds = time.perf_counter() - started
    state = model.state_dict()
    with torch.no_grad():
        update = layout.flatten(state) - received.to(device)
    encoded = encode_update(
        update,
        layout,
        compressor=request.compressor,
        seed=request.encode_seed,
        feedback=request.feedback,
        residual=settle(before, last_applied_round=request.last_applied_round),
    )
    exact = b""
    if request.wants_exact:
        exact = fedcomp.compressor("identity").encode(update, seed=request.encode_seed)
    raw = layout.raw(state)
    update_bytes = len(encoded.payload) + len(exact)
    check_cap(site, update_bytes=update_bytes, dim=layout.dim)
    if store is not None:
        _keep(store, request, encoded.payload, encoded.residual, received)
    note_sent(
        site,
        run=request.run,
        round_index=request.round_index,
        update_bytes=update_bytes,
        other_bytes=sum(tensor.nbytes for tensor in raw.values()),
        dim=layout.dim,
    )
    return TrainReply(
        payload=encoded.payload,
        raw=raw,
        client=request.client,
        round_index=request.round_index,
        device=str(device),
        holds_version=request.version if request.keeps_model else -1,
        num_examples=float(len(examples)),
        train_loss=result.loss,
        vnmse=encoded.vnmse,
        train_seconds=train_seconds,
        encode_seconds=encoded.seconds,
        exact=exact,
    )


def _keep(store: ClientStore, request: TrainRequest, payload: bytes, residual: Tensor | None, received: Tensor) -> None:
    """Write what the next round begins with; before the reply leaves, so that both are there or neither."""
    store.save(
        ClientState(
            round_index=request.round_index,
            residual=None if residual is None else residual.cpu(),
            pending=PendingPayload(payload, request.encode_seed) if request.feedback else None,
            version=request.version if request.keeps_model else None,
            model=received if request.keeps_model else None,
        )
    )
    store.prune(request.replay_from)
