"""What is known to be in the messages is found in what passes the SuperLink without seals, and not with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from client_app.app import app as client_app
from fedcomp.flower.messages import TrainReply, TrainRequest
from fedcomp.run_config import RunConfig
from fedcomp.tasks.registry import load_task
from fedcomp.vectors import VectorSpec
from server_app.plan import RunPlan
from server_app.secret import run_secret
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import requests_of, run_in_process, settings
from tests.support.sealing_keys import SealedFolders, sealed_folders

NAMES = ("bank", "factory", "clinic")
CONFIG = settings(num_server_rounds=1, task="tests.support.tiny_task:BufferTask", compressor="eden:bits=4")


@dataclass
class Tapped(InProcessGrid):
    """Keeps all that passes, both ways, as the SuperLink's database and the network have it."""

    seen: list[bytes] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)

    def _call(self, message: Message) -> Message:
        reply = super()._call(message)
        self.replies.append(reply)
        for item in (message, reply):
            self.seen += [part.deflate() for part in get_all_nested_objects(item).values()]
        return reply

    def has(self, text: bytes) -> bool:
        return any(text in item for item in self.seen)


@pytest.fixture
def folders(tmp_path: Path) -> SealedFolders:
    return sealed_folders(tmp_path / "keys", NAMES)


def run(nodes: dict[int, dict[str, str | int | float | bool]], sealing: str) -> tuple[Tapped, str]:
    config = {**CONFIG, "sealing": sealing}
    grid = Tapped(client_app, nodes, config)
    found, _ = run_in_process(config, grid=grid)
    return grid, found.id


def known_plaintext(grid: Tapped) -> Iterator[tuple[str, bytes]]:
    """Yield what the messages of a plain run hold, in pieces that nothing else has."""
    request = requests_of(grid)[0]
    yield "model", request.parts[0].payload[40:72]
    yield "compressor", b"eden:bits=4"
    yield "layout", request.layout.encode()
    for reply in grid.replies:
        if "arrays" in reply.content:
            found = TrainReply.from_record(reply.content)
            yield f"update of {found.client}", found.payload[40:72]
            yield f"raw tensors of {found.client}", found.raw["mask"].numpy().tobytes()
    yield "name of a field", b"training-seed"
    yield "name of a metric", b"train-loss"
    yield "description", b"uplink-mbps"


def test_known_plaintext_is_found_without_seals_and_not_with_them(
    folders: SealedFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_nodes = {
        node: {key: value for key, value in item.items() if key != "sealing"}
        for node, item in folders.nodes(NAMES).items()
    }
    plain, _ = run(plain_nodes, "off")
    monkeypatch.setenv("FEDCOMP_SEALING", str(folders.server))
    sealed, run_id = run(folders.nodes(NAMES), "on")
    known = dict(known_plaintext(plain))
    assert len(known) == 12
    assert [what for what, text in known.items() if not plain.has(text)] == []
    assert [what for what, text in known.items() if sealed.has(text)] == []
    # The search does look into what was sealed: who takes part in which run is in the clear.
    assert sealed.has(b"bank")
    assert sealed.has(run_id.encode())


def test_each_client_is_told_its_own_seeds_and_nobody_the_secret(fedcomp_home: Path) -> None:
    config = RunConfig.from_mapping(CONFIG)
    nodes = {1000 + i: {"partition-id": i, "num-partitions": 3} for i in range(3)}
    grid, run_id = run({node: dict(item) for node, item in nodes.items()}, "off")
    secret = run_secret(config.seed, fedcomp_home)
    for text in (secret, secret.hex().encode(), b"the same in every test"):
        assert not grid.has(text)
    requests = {request.client: request for request in requests_of(grid)}
    assert len(requests) == 3
    layout = VectorSpec.from_state_dict(load_task(config.task).build_model(seed=config.seed).state_dict())
    plan = RunPlan.of(run_id, config, layout, secret)
    for i in range(3):
        request = requests[f"client-{i}"]
        seeds = [plan.seed(1, i, "rotation"), plan.seed(1, i, "training")]
        assert [request.encode_seed, request.training_seed] == seeds
        # Of all numbers that others are told none is one of these.
        others = [item for name, item in requests.items() if name != request.client]
        told = {value for other in others for value in numbers(other)}
        assert told.isdisjoint(seeds)


def numbers(request: TrainRequest) -> set[int]:
    config = request.to_record()["config"]
    assert isinstance(config, ConfigRecord)
    found: set[int] = set()
    for value in config.values():
        found |= {item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)}
    return found
