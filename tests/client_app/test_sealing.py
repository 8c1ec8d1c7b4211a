from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import Context, Message, MessageType, RecordDict

import fedcomp
from client_app.app import app
from client_app.last_request import LastRequest
from client_app.sealing import SiteSeals
from client_app.site import Site
from fedcomp.downlink import ModelPart
from fedcomp.errors import FedcompError
from fedcomp.flower.messages import ClientDescription, ClientFailure, ClientQuery, TrainReply, TrainRequest
from fedcomp.flower.sealed import SealedPart, is_sealed, seal_request
from fedcomp.run_config import RunConfig
from fedcomp.sealing.envelope import Direction, Header, Seal
from fedcomp.sealing.errors import (
    Altered,
    NotSealed,
    Replayed,
    SealingKeyError,
    WrongDirection,
    WrongRound,
    WrongRun,
    WrongSettings,
    WrongSite,
)
from fedcomp.sealing.keys import SERVER_KEY, SITE_KEY, load_key
from server_app.sealing import ServerSeals
from tests.support.runs import identify, settings
from tests.support.sealing_keys import SealedFolders, sealed_folders
from tests.support.tiny_task import TinyTask

LAYOUT = fedcomp.VectorSpec.from_state_dict(TinyTask().build_model(seed=1).state_dict())
VECTOR = LAYOUT.flatten(TinyTask().build_model(seed=1).state_dict())
REQUEST = TrainRequest(
    parts=(ModelPart(3, None, fedcomp.compressor("identity").encode(VECTOR, seed=1), 1),),
    raw={},
    run="a-run",
    version=3,
    layout=LAYOUT.fingerprint,
    client="bank",
    round_index=4,
    compressor="eden:bits=8",
    encode_seed=2,
    training_seed=3,
    learning_rate=0.1,
    batch_size=40,
)
CONFIG = settings(sealing="on")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SealedFolders:
    made = sealed_folders(tmp_path / "keys", ["bank", "factory"])
    monkeypatch.setenv("FEDCOMP_SEALING", str(made.server))
    return made


def server() -> ServerSeals:
    seals = ServerSeals.of(RunConfig.from_mapping(CONFIG))
    assert seals is not None
    return seals


def call(
    content: RecordDict,
    folder: Path | None,
    *,
    kind: str = MessageType.TRAIN,
    sealing: str = "on",
    config: Mapping[str, str | int | float | bool] = CONFIG,
) -> RecordDict:
    """Return what the app of site bank answers; ``config`` and ``sealing`` are the settings that reached it."""
    identify()
    node: dict[str, str | int | float | bool] = {"partition-id": 0, "num-partitions": 2, "site": "bank"}
    node |= {} if folder is None else {"sealing": str(folder)}
    context = Context(
        run_id=1, node_id=5, node_config=node, state=RecordDict(), run_config={**config, "sealing": sealing}
    )
    return app(Message(content, dst_node_id=5, message_type=kind), context).content


def test_a_sealed_request_is_trained_and_answered_as_a_plain_one(folders: SealedFolders) -> None:
    seals = server()
    number = seals.new_id()
    answer = call(seals.request(REQUEST, number), folders.site("bank"))
    found = TrainReply.from_record(seals.open_reply(answer, REQUEST, number))
    plain = TrainReply.from_record(call(REQUEST.to_record(), None, sealing="off"))
    assert found.payload == plain.payload
    assert (found.client, found.round_index) == ("bank", 4)


def test_a_description_says_who_it_is_with_its_key(folders: SealedFolders) -> None:
    seals = server()
    number = seals.new_id()
    answer = call(ClientQuery("a-run", number.hex()).to_record(), folders.site("bank"), kind=MessageType.QUERY)
    found = seals.open_description(answer, run="a-run", request_id=number)
    assert (found.client, found.num_partitions) == ("bank", 2)


@pytest.mark.parametrize("sealing", ["on", "off"])
def test_a_site_with_keys_takes_nothing_plain_whatever_the_run_says(folders: SealedFolders, sealing: str) -> None:
    folder = folders.site("bank")
    with pytest.raises(NotSealed, match="the message is plain"):
        call(REQUEST.to_record(), folder, sealing=sealing)
    for number in ("", "abc", "00" * 15, "zz" * 16):
        with pytest.raises(NotSealed, match="site 'bank' has keys and answers only servers that seal"):
            call(ClientQuery("a-run", number).to_record(), folder, kind=MessageType.QUERY, sealing=sealing)


def test_a_request_is_taken_once(folders: SealedFolders) -> None:
    seals = server()
    older, number = seals.new_id(), seals.new_id()
    sealed = seals.request(REQUEST, number)
    call(sealed, folders.site("bank"))
    with pytest.raises(Replayed, match="this very request"):
        call(sealed, folders.site("bank"))
    # One that was held back does not undo what came after it.
    with pytest.raises(Replayed, match="a later one"):
        call(seals.request(replace(REQUEST, round_index=2), older), folders.site("bank"))


def test_nothing_is_remembered_of_what_nobody_sealed(folders: SealedFolders) -> None:
    seals = server()
    forged = ServerSeals(load_key(folders.site("factory") / SITE_KEY), seals._key_of, settings=seals._settings)
    with pytest.raises(Altered):
        call(forged.request(REQUEST, b"\xff" * 16), folders.site("bank"))
    assert not LastRequest.of(run="a-run", client="bank").path.exists()
    call(seals.request(REQUEST, seals.new_id()), folders.site("bank"))


def test_requests_to_others_and_answers_are_refused_by_name(folders: SealedFolders) -> None:
    seals = server()
    with pytest.raises(WrongSite, match="site 'factory', awaited was 'bank'"):
        call(seals.request(replace(REQUEST, client="factory"), seals.new_id()), folders.site("bank"))
    number = seals.new_id()
    answer = call(seals.request(REQUEST, number), folders.site("bank"))
    with pytest.raises(WrongDirection, match="a sealed reply came for a request"):
        call(answer, folders.site("bank"))


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ({"run": "b-run"}, WrongRun),
        ({"round_index": 5}, WrongRound),
    ],
)
def test_what_is_inside_must_be_what_is_outside(
    folders: SealedFolders, header: dict[str, object], error: type[Exception]
) -> None:
    site = SiteSeals.of(Site("bank", 0, 2, sealing=folders.site("bank")), RunConfig.from_mapping(CONFIG))
    assert site is not None
    outside = Header(Direction.REQUEST, "a-run", 4, "bank", server().new_id())
    outside = replace(outside, **header)  # type: ignore[arg-type]
    seal = Seal.to_send(outside, sender=load_key(folders.server / SERVER_KEY), recipient=site.key.public_key())
    parts = [SealedPart.of(part, run="a-run") for part in REQUEST.parts]
    with pytest.raises(error):
        site.open(seal_request(REQUEST, seal, parts, settings=site.settings))
    inside = replace(REQUEST, client="factory")
    seal = Seal.to_send(
        replace(outside, run="a-run", round_index=4),
        sender=load_key(folders.server / SERVER_KEY),
        recipient=site.key.public_key(),
    )
    with pytest.raises(WrongSite):
        site.open(seal_request(inside, seal, parts, settings=site.settings))


def test_settings_that_were_changed_on_their_way_are_refused(folders: SealedFolders) -> None:
    seals = server()
    with pytest.raises(WrongSettings):
        call(seals.request(REQUEST, seals.new_id()), folders.site("bank"), config={**CONFIG, "local-epochs": 50})


def test_why_a_client_failed_is_sealed_too(folders: SealedFolders) -> None:
    seals = server()
    number = seals.new_id()
    answer = call(seals.request(replace(REQUEST, layout="another"), number), folders.site("bank"))
    assert is_sealed(answer)
    failure = ClientFailure.find(seals.open_reply(answer, REQUEST, number))
    assert failure is not None
    assert failure.reason.startswith("ConfigError: the server's model has layout another")
    assert ClientFailure.find(REQUEST.to_record()) is None


def test_a_site_without_keys_says_what_it_lacks(folders: SealedFolders) -> None:
    seals = server()
    sealed = seals.request(REQUEST, seals.new_id())
    with pytest.raises(SealingKeyError, match="the request is sealed and site 'bank' has no keys: start its SuperNode"):
        call(sealed, None, sealing="off")
    with pytest.raises(SealingKeyError, match="this run is sealed and site 'bank' has no keys: start its SuperNode"):
        call(sealed, None)
    with pytest.raises(FedcompError, match=r"key file .*sealing\.key cannot be read"):
        call(sealed, folders.root)


def test_another_servers_key_is_not_taken(folders: SealedFolders) -> None:
    (folders.site("bank") / "server.pub").write_text(base64.b64encode(bytes(31) + b"\x09").decode())
    with pytest.raises(Altered):
        call(server().request(REQUEST, server().new_id()), folders.site("bank"))


def test_a_description_of_itself_comes_back(folders: SealedFolders) -> None:
    site = SiteSeals.of(Site("bank", 0, 2, sealing=folders.site("bank")), RunConfig.from_mapping(CONFIG))
    assert site is not None
    description = ClientDescription("factory", 0, 2, "cpu", "0.1")
    number = server().new_id()
    sealed = site.describe(description, ClientQuery("a-run", number.hex()))
    with pytest.raises(WrongSite, match="it is sealed by site 'bank' and says it is 'factory'"):
        server().open_description(sealed, run="a-run", request_id=number)
