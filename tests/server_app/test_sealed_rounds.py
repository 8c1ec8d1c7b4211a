"""Sealed rounds, and what somebody who holds the SuperLink can do to them: make a client miss a round."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from client_app.app import app as client_app
from client_app.last_request import LastRequest
from dashboard.schemas import RunDetail
from fedcomp.flower.sealed import read_header
from server_app.roster import TooFewClients
from tests.support.in_process_grid import InProcessGrid, Tamper
from tests.support.runs import final_model, run_in_process, same, settings
from tests.support.sealing_keys import SealedFolders, sealed_folders

NAMES = ("bank", "factory", "clinic")
BANK, FACTORY = 1000, 1001


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SealedFolders:
    made = sealed_folders(tmp_path / "keys", NAMES)
    monkeypatch.setenv("FEDCOMP_SEALING", str(made.server))
    return made


def sealed_run(
    folders: SealedFolders, tamper: Mapping[int, Tamper] | None = None, **changes: str | int | float | bool
) -> RunDetail:
    config = settings(sealing="on", **changes)
    run, _ = run_in_process(config, grid=InProcessGrid(client_app, folders.nodes(NAMES), config), tamper=tamper)
    return run


def reasons(run: RunDetail, client: str) -> list[str | None]:
    return [item.reject_reason for row in run.rounds for item in row.client_results if item.client == client]


def on_training(change: Tamper) -> Tamper:
    """Change replies to training only."""
    return lambda message: message if message.metadata.message_type == MessageType.QUERY else change(message)


def box(message: Message, name: str, key: str) -> Array:
    record = message.content[name]
    assert isinstance(record, ArrayRecord)
    return record[key]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mode": "async", "async_buffer_size": 2},
        {"downlink_compressor": "eden:bits=3,scale=mmse", "compressor": "topk:fraction=0.1"},
        {"task": "tests.support.tiny_task:BufferTask", "measure_nmse": True},
    ],
    ids=["plain", "asynchronous", "feedback and downlink", "raw tensors and nmse"],
)
def test_a_sealed_run_ends_with_the_model_of_a_plain_one(
    folders: SealedFolders, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | int | float | bool]
) -> None:
    sealed = sealed_run(folders, None, **changes)
    monkeypatch.delenv("FEDCOMP_SEALING")
    config = settings(**changes)
    nodes = {node: {k: v for k, v in item.items() if k != "sealing"} for node, item in folders.nodes(NAMES).items()}
    plain, _ = run_in_process(config, grid=InProcessGrid(client_app, nodes, config))
    assert same(final_model(sealed), final_model(plain))
    for one, other in zip(sealed.rounds, plain.rounds, strict=True):
        assert (one.clients, one.rejected, one.nmse) == (other.clients, 0, other.nmse)
        # Payloads count as payloads; seals are envelope.
        assert one.uplink_payload_bytes == other.uplink_payload_bytes
        assert one.downlink_payload_bytes == other.downlink_payload_bytes
        for with_seal, without in zip(one.client_results, other.client_results, strict=True):
            # Raw tensors share one box and so one object, which is even shorter than an object each.
            assert 0 < abs(with_seal.envelope_bytes - without.envelope_bytes) < 700
            assert 0 < abs(with_seal.downlink_envelope_bytes - without.downlink_envelope_bytes) < 700


def flip(message: Message, name: str, key: str, place: int) -> Message:
    array = box(message, name, key)
    data = bytearray(array.data)
    data[place] ^= 1
    array.data = bytes(data)
    return message


def error_of(name: str) -> Callable[[Message], Message]:
    def make(message: Message) -> Message:
        message.content[name] = ConfigRecord({"x": 1})
        return message

    return make


CHANGES: dict[str, tuple[Callable[[Message], Message], str]] = {
    "payload": (lambda m: flip(m, "arrays", "payload", 0), "Altered: sealed 'arrays/payload'"),
    "tag": (lambda m: flip(m, "arrays", "payload", -1), "Altered: sealed 'arrays/payload'"),
    "rest": (lambda m: flip(m, "sealed", "envelope", -20), "Altered: sealed 'rest'"),
    "magic": (lambda m: flip(m, "sealed", "envelope", 0), "NotSealed: "),
    "version": (lambda m: flip(m, "sealed", "envelope", 4), "UnsupportedSeal: "),
    "direction": (lambda m: flip(m, "sealed", "envelope", 5), "WrongDirection: a sealed request came for a reply"),
    "round": (lambda m: flip(m, "sealed", "envelope", 6), "WrongRound: sealed for round 0, this is round 1"),
    "request id": (lambda m: flip(m, "sealed", "envelope", 20), "Replayed: it answers request "),
    "ephemeral key": (lambda m: flip(m, "sealed", "envelope", 40), "Altered: sealed 'rest'"),
    "run": (lambda m: flip(m, "sealed", "envelope", 66), "WrongRun: sealed for run "),
    "plain record": (error_of("config"), "NotSealed: the message has a plain ConfigRecord"),
    "no seal": (error_of("sealed"), "NotSealed: the message has a plain ConfigRecord"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_reply_that_was_changed_is_rejected_by_name_and_the_round_goes_on(folders: SealedFolders, name: str) -> None:
    change, reason = CHANGES[name]
    run = sealed_run(folders, {BANK: on_training(change)}, num_server_rounds=1)
    (found,) = reasons(run, "bank")
    assert str(found).startswith(reason)
    assert (run.status, run.rounds[0].clients, run.rounds[0].rejected) == ("completed", 2, 1)
    (item,) = [item for item in run.rounds[0].client_results if item.client == "bank"]
    assert item.envelope_bytes > 300
    assert item.payload_bytes == 0


def first_again() -> Tamper:
    """Return what puts the first reply that came in the place of each later one, whoever sent it."""
    kept: list[Message] = []

    def change(message: Message) -> Message:
        kept.append(copy.deepcopy(message))
        return copy.deepcopy(kept[0])

    return change


def test_a_reply_in_another_sites_place_is_rejected(folders: SealedFolders) -> None:
    again = on_training(first_again())
    # Clients are asked in the order of their ids, and the factory's is less than the bank's.
    run = sealed_run(folders, {BANK: again, FACTORY: again}, num_server_rounds=1)
    assert reasons(run, "factory") == [None]
    assert reasons(run, "bank") == ["WrongSite: sealed for or by site 'factory', awaited was 'bank'"]


def test_an_old_reply_is_rejected(folders: SealedFolders) -> None:
    run = sealed_run(folders, {BANK: on_training(first_again())})
    found = reasons(run, "bank")
    assert found == [None, *(f"WrongRound: sealed for round 1, this is round {index}" for index in (2, 3))]


def test_a_reply_by_somebody_with_another_key_is_rejected(folders: SealedFolders) -> None:
    # What calls itself the bank has the bank's name and the factory's key.
    nodes = folders.nodes(NAMES)
    nodes[BANK]["sealing"] = str(folders.site("factory"))
    config = settings(sealing="on", num_server_rounds=1)
    run, _ = run_in_process(config, grid=InProcessGrid(client_app, nodes, config))
    assert reasons(run, "bank") == []
    assert run.rounds[0].clients == 2


def test_a_request_that_comes_twice_is_trained_once(folders: SealedFolders) -> None:
    answers: list[Message] = []

    class Twice(InProcessGrid):
        def _call(self, message: Message) -> Message:
            first = super()._call(message)
            if message.metadata.message_type != MessageType.QUERY:
                answers.append(super()._call(message))
            return first

    config = settings(sealing="on", num_server_rounds=2)
    run, _ = run_in_process(config, grid=Twice(client_app, folders.nodes(NAMES), config))
    assert [item.rejected for item in run.rounds] == [0, 0]
    assert len(answers) == 6
    assert all("Replayed: this very request" in str(answer.error.reason) for answer in answers)
    assert LastRequest.of(run=run.id, client="bank").path.exists()


def swap_requests(change: Callable[[dict[int, Message]], None]) -> type[InProcessGrid]:
    """Return a grid on which training requests of a round are exchanged before they arrive."""

    class Swapping(InProcessGrid):
        def push_messages(self, messages):  # type: ignore[no-untyped-def]
            sent = {message.metadata.dst_node_id: message for message in messages}
            if all(message.metadata.message_type == MessageType.TRAIN for message in sent.values()):
                change(sent)
            return super().push_messages(sent.values())

    return Swapping


def test_requests_that_change_places_or_bytes_are_not_trained(folders: SealedFolders) -> None:
    def change(sent: dict[int, Message]) -> None:
        bank, factory = sent[BANK].content, sent[FACTORY].content
        bank["sealed"], factory["sealed"] = factory["sealed"], bank["sealed"]
        flip(sent[1002], "parts", "0", 30)

    config = settings(sealing="on", num_server_rounds=1)
    grid = swap_requests(change)(client_app, folders.nodes(NAMES), config)
    run, _ = run_in_process(config, grid=grid)
    assert run.rounds[0].status == "skipped"
    for name, words in (
        ("bank", "WrongSite: sealed for or by site 'factory', awaited was 'bank'"),
        ("factory", "WrongSite: sealed for or by site 'bank', awaited was 'factory'"),
        ("clinic", "Altered: model part 0 "),
    ):
        (found,) = reasons(run, name)
        assert words in str(found)


def test_a_plain_client_takes_no_part_in_a_sealed_run(
    folders: SealedFolders, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = folders.nodes(NAMES)
    del nodes[BANK]["sealing"]
    config = settings(sealing="on", num_server_rounds=1)
    run, _ = run_in_process(config, grid=InProcessGrid(client_app, nodes, config))
    assert reasons(run, "bank") == []
    assert run.rounds[0].clients == 2
    said = capsys.readouterr().out
    assert "node 1000 did not say who it is: client error" in said
    assert "this run is sealed and site 'bank' has no keys: start its SuperNode with sealing=" in said


def test_names_lead_to_keys(folders: SealedFolders, capsys: pytest.CaptureFixture[str]) -> None:
    folders.write_roster(["bank", "factory"])
    run = sealed_run(folders, num_server_rounds=1)
    assert run.rounds[0].clients == 2
    assert "UnknownSite: site 'clinic' has no key in sites.toml; known: bank, factory" in capsys.readouterr().out


def test_an_introduction_in_another_nodes_place_is_refused(
    folders: SealedFolders, capsys: pytest.CaptureFixture[str]
) -> None:
    again = first_again()
    # All nodes introduce themselves with the bank's words.
    with pytest.raises(TooFewClients):
        sealed_run(folders, {1000 + index: again for index in range(3)}, node_timeout=0.3)
    assert capsys.readouterr().out.count("did not say who it is: Replayed: it answers request") == 2


def test_a_plain_introduction_is_refused(folders: SealedFolders, capsys: pytest.CaptureFixture[str]) -> None:
    def strip(message: Message) -> Message:
        del message.content["sealed"]
        return message

    with pytest.raises(TooFewClients):
        sealed_run(folders, {1000 + index: strip for index in range(3)}, node_timeout=0.3)
    assert "did not say who it is: NotSealed: the message is plain" in capsys.readouterr().out


def test_a_client_that_fails_says_so_under_seal(folders: SealedFolders) -> None:
    seen: list[bytes] = []

    def look(message: Message) -> Message:
        assert not message.has_error()
        seen.extend(item.deflate() for item in get_all_nested_objects(message).values())
        return message

    run = sealed_run(folders, {BANK: look}, num_server_rounds=1, task="tests.support.tiny_task:FailingTask")
    assert reasons(run, "bank") == ["client error: RuntimeError: record of Rosalind Example cannot be read"]
    assert run.rounds[0].clients == 2
    assert seen
    assert not any(b"Rosalind" in data for data in seen)


def test_a_run_that_goes_on_later_ends_with_the_same_model(folders: SealedFolders) -> None:
    whole = sealed_run(folders, num_server_rounds=4, compressor="topk:fraction=0.1")
    begun = sealed_run(folders, num_server_rounds=2, compressor="topk:fraction=0.1")
    ended = sealed_run(folders, num_server_rounds=4, compressor="topk:fraction=0.1", resume=begun.id)
    assert ended.rounds_done == 4
    assert same(final_model(ended), final_model(whole))


def _headers(grid: InProcessGrid) -> Iterator[bytes]:
    for message in grid.pushed:
        if message.metadata.message_type == MessageType.TRAIN:
            yield read_header(message.content)[0].request_id


def test_each_request_has_a_number_of_its_own(folders: SealedFolders) -> None:
    config = settings(sealing="on", num_server_rounds=2)
    grid = InProcessGrid(client_app, folders.nodes(NAMES), config)
    run_in_process(config, grid=grid)
    assert len(set(_headers(grid))) == 6
