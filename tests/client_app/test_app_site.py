"""What a site's profile changes in what its client does, asked as Flower asks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, MessageType, RecordDict

import fedcomp
from client_app.app import app
from client_app.sent import UplinkCapExceeded
from client_app.state import ClientStore
from fedcomp.data.sources import prepare
from fedcomp.downlink import ModelPart
from fedcomp.flower.messages import ClientDescription, ClientQuery, TrainReply, TrainRequest
from fedcomp.tasks.emnist import EmnistTask
from fedcomp.tasks.shakespeare import ShakespeareTask
from tests.support.femnist_forms import characters, write_leaf
from tests.support.runs import identify, settings
from tests.support.tiny_task import TinyTask


def profile(folder: Path, *lines: str) -> Path:
    path = folder / "site.toml"
    path.write_text("\n".join(['name = "bank"', *lines]))
    return path


def call(content: RecordDict, path: Path, message_type: str = MessageType.TRAIN, **run_config: Any) -> RecordDict:
    identify()
    message = Message(content, dst_node_id=5, message_type=message_type)
    context = Context(
        run_id=1,
        node_id=5,
        node_config={"profile": str(path)},
        state=RecordDict(),
        run_config=settings(**run_config),
    )
    return app(message, context).content


def request(task: TinyTask | EmnistTask | ShakespeareTask, **changes: Any) -> RecordDict:
    state = task.build_model(seed=1).state_dict()
    layout = fedcomp.VectorSpec.from_state_dict(state)
    whole = fedcomp.compressor("identity").encode(layout.flatten(state), seed=1)
    values: dict[str, Any] = {
        "parts": (ModelPart(3, None, whole, 1),),
        "raw": {},
        "run": "a-run",
        "version": 3,
        "layout": layout.fingerprint,
        "client": "bank",
        "round_index": 4,
        "compressor": "eden:bits=8",
        "encode_seed": 2,
        "training_seed": 3,
        "learning_rate": 0.1,
        "batch_size": 40,
    }
    return TrainRequest(**(values | changes)).to_record()


def test_the_server_is_told_what_the_profile_says(tmp_path: Path) -> None:
    path = profile(tmp_path, "partition-id = 1", "num-partitions = 3", "bits = 1.5", "max-bits = 4", 'device = "cpu"')
    told = ClientDescription.from_record(call(ClientQuery("a-run").to_record(), path, MessageType.QUERY))
    assert (told.client, told.partition_id, told.num_partitions) == ("bank", 1, 3)
    assert (told.bits, told.max_bits, told.device) == (1.5, 4.0, "cpu")


def test_more_than_the_cap_is_not_sent_nor_noted_nor_kept(tmp_path: Path, fedcomp_home: Path) -> None:
    path = profile(tmp_path, "max-bits = 2")
    with pytest.raises(UplinkCapExceeded, match=r"site bank: .* max-bits in its profile is 2"):
        call(request(TinyTask(), compressor="identity", feedback=True), path)
    assert not (fedcomp_home / "sent").exists()
    assert ClientStore.open(run="a-run", client="bank").before(9).is_empty
    # Nor does the measurement of errors, which sends the update as it is, get past it.
    with pytest.raises(UplinkCapExceeded):
        call(request(TinyTask(), compressor="eden:bits=2", wants_exact=True), path)
    assert TrainReply.from_record(call(request(TinyTask(), compressor="eden:bits=2"), path)).client == "bank"


def test_what_is_noted_is_what_is_sent(tmp_path: Path, fedcomp_home: Path) -> None:
    reply = TrainReply.from_record(call(request(TinyTask()), profile(tmp_path)))
    (line,) = (fedcomp_home / "sent" / "bank.jsonl").read_text().splitlines()
    noted = json.loads(line)
    assert (noted["run"], noted["round"], noted["update-bytes"]) == ("a-run", 4, len(reply.payload))
    assert noted["bits-per-coordinate"] == round(fedcomp.bits_per_coordinate(reply.payload), 4)
    call(request(TinyTask(), wants_exact=True), profile(tmp_path))
    noted = json.loads((fedcomp_home / "sent" / "bank.jsonl").read_text().splitlines()[1])
    # The update as it is: four bytes a coordinate, and a header.
    assert noted["update-bytes"] > len(reply.payload) + 4 * fedcomp.wire.read_header(reply.payload).dim
    call(request(TinyTask()), profile(tmp_path, "show-sent = false"))
    assert len((fedcomp_home / "sent" / "bank.jsonl").read_text().splitlines()) == 2


def test_a_site_trains_on_all_of_its_own_data(tmp_path: Path, fedcomp_home: Path) -> None:
    for split, owners in (("train", {"a": 10, "b": 14}), ("test", {"c": 5})):
        write_leaf(tmp_path / "leaf" / split / "0.json", characters(owners, seed=1))
    prepare("emnist", str(tmp_path / "leaf"), name="ours", replace=False)
    (fedcomp_home / "data" / "ours").rename(tmp_path / "elsewhere")
    path = profile(tmp_path, "partition-id = 1", "num-partitions = 3", 'data = "elsewhere"')
    content = request(EmnistTask(model="1m"), compressor="eden:bits=1")
    reply = TrainReply.from_record(call(content, path, task="emnist:model=1m"))
    assert reply.num_examples == 24
