from __future__ import annotations

import gc
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, RecordDict

from fedcomp.downlink import ModelPart
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import TrainRequest
from fedcomp.home import sealing_dir
from fedcomp.run_config import RunConfig
from fedcomp.sealing.errors import SealingKeyError, UnknownSite
from fedcomp.sealing.keys import SERVER_PUBLIC, load_public
from server_app.sealing import ServerSeals
from tests.support.sealing_keys import SealedFolders, sealed_folders

ON, OFF = RunConfig(sealing="on"), RunConfig()
PART = ModelPart(3, None, b"model" * 100, 1)
REQUEST = TrainRequest(
    parts=(PART,),
    raw={},
    run="a-run",
    version=3,
    layout="l",
    client="bank",
    round_index=4,
    compressor="eden:bits=8",
    encode_seed=2,
    training_seed=3,
    learning_rate=0.1,
    batch_size=40,
)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SealedFolders:
    made = sealed_folders(tmp_path / "keys", ["bank", "factory"])
    monkeypatch.setenv("FEDCOMP_SEALING", str(made.server))
    return made


def seals(config: RunConfig = ON) -> ServerSeals:
    found = ServerSeals.of(config)
    assert found is not None
    return found


def box(content: RecordDict, name: str, key: str) -> bytes:
    record = content[name]
    assert isinstance(record, ArrayRecord)
    return record[key].data


def test_plain_runs_have_no_seals_and_a_host_that_seals_has_no_plain_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ServerSeals.of(OFF) is None
    monkeypatch.setenv("FEDCOMP_SEALING", str(tmp_path))
    # Settings come from the SuperLink: whoever holds that must not be able to switch sealing off.
    with pytest.raises(ConfigError, match=r"sealing is 'off', but FEDCOMP_SEALING=.* give sealing='on', or unset"):
        ServerSeals.of(OFF)


def test_keys_that_are_missing_are_told_before_anything_begins(folders: SealedFolders) -> None:
    (folders.server / "sites.toml").unlink()
    with pytest.raises(SealingKeyError, match=r"sites\.toml cannot be read"):
        ServerSeals.of(ON)
    folders.write_roster(["bank"])
    (folders.server / "server.key").unlink()
    with pytest.raises(SealingKeyError, match=r"server\.key cannot be read"):
        ServerSeals.of(ON)


def test_who_is_not_in_the_roster_is_unknown(folders: SealedFolders) -> None:
    with pytest.raises(UnknownSite, match=r"site 'shop' has no key in sites\.toml; known: bank, factory; add its"):
        seals().request(replace(REQUEST, client="shop"), bytes(16))


def test_without_a_folder_the_keys_are_throwaway_ones(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fedcomp.server"):
        made = seals()
    assert f"sealed with throwaway keys in {sealing_dir()}" in caplog.text
    public = load_public(sealing_dir() / SERVER_PUBLIC).public_bytes_raw()
    assert made._key.public_key().public_bytes_raw() == seals()._key.public_key().public_bytes_raw() == public
    with pytest.raises(UnknownSite, match=r"'bank' has no throwaway key in .*; a server whose sites are"):
        made.request(REQUEST, bytes(16))


def test_a_part_is_encrypted_once_for_all_as_long_as_somebody_has_it(folders: SealedFolders) -> None:
    made = seals()
    one, other = (made.request(replace(REQUEST, client=name), made.new_id()) for name in ("bank", "factory"))
    assert box(one, "parts", "0") is box(other, "parts", "0")
    assert box(one, "sealed", "envelope") != box(other, "sealed", "envelope")
    # The same part under another server has another key.
    assert box(seals().request(REQUEST, made.new_id()), "parts", "0") != box(one, "parts", "0")
    passing = replace(REQUEST, parts=(replace(PART, version=4),))
    made.request(passing, made.new_id())
    assert len(made._parts) == 2
    del passing
    gc.collect()
    assert len(made._parts) == 1
