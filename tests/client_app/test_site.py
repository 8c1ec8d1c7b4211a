from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from client_app.site import Site, is_simulated
from fedcomp.errors import ConfigError

PLACE = {"partition-id": 1, "num-partitions": 3}


def test_a_site_is_named_by_its_partition_or_itself() -> None:
    assert Site.of(PLACE) == Site("client-1", 1, 3)
    full = {**PLACE, "site": "bank", "device": "cuda:1", "bits": 2, "uplink-mbps": 0.5, "sealing": "/keys"}
    assert Site.of(full) == Site("bank", 1, 3, "cuda:1", 2.0, 0.5, Path("/keys"))


@pytest.mark.parametrize("value", ["", "keys", "./keys", 3])
def test_the_folder_of_keys_is_an_absolute_path(value: object) -> None:
    with pytest.raises(ConfigError, match=r"node config: sealing is .*; allowed: an absolute path"):
        Site.of({**PLACE, "sealing": value})


@pytest.mark.parametrize("key", ["bits", "uplink-mbps", "max-bits"])
@pytest.mark.parametrize("value", [0, -1, "2", True, float("nan"), float("inf")])
def test_limits_are_numbers_above_zero(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"node config: {key} is .*; allowed: numbers above 0"):
        Site.of({**PLACE, key: value})


@pytest.mark.parametrize("place", [{}, {"partition-id": 3, "num-partitions": 3}, {**PLACE, "partition-id": "x"}])
def test_a_site_without_a_place_is_refused(place: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="partition-id"):
        Site.of(place)


@pytest.mark.parametrize("running", [True, False])
def test_a_ray_worker_is_simulated(monkeypatch: pytest.MonkeyPatch, running: bool) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: running))
    assert is_simulated() == running


def test_without_ray_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert not is_simulated()


PROFILE = """
name = "bank"
partition-id = 2
num-partitions = 5
bits = 1.5
max-bits = 2
device = "cpu"
data = "ours"
sealing = "keys"
"""


def test_a_profile_says_what_a_node_config_does_not(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(PROFILE)
    site = Site.of({"profile": str(path)})
    assert site == Site(
        "bank",
        2,
        5,
        "cpu",
        1.5,
        sealing=tmp_path / "keys",
        max_bits=2.0,
        data=tmp_path / "ours",
        shows_sent=True,
    )
    # All of a data set of its own is trained on; of a common one its part.
    assert site.share == (0, 1)
    assert Site.of(PLACE).share == (1, 3)
    direct = {"partition-id": 0, "num-partitions": 1, "bits": 0.5, "show-sent": False, "data": "/srv/other"}
    other = Site.of({"profile": str(path), **direct})
    assert (other.name, other.partition_id, other.num_partitions, other.bits) == ("bank", 0, 1, 0.5)
    assert (other.shows_sent, other.data, other.max_bits) == (False, Path("/srv/other"), 2.0)


def test_a_profile_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('name = "bank"\nbits = 1')
    assert Site.of({"profile": str(path)}).bits == 1.0
    path.write_text('name = "bank"\nbits = 2')
    assert Site.of({"profile": str(path)}).bits == 2.0


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("site.toml", "node config: profile is 'site.toml'; allowed: an absolute path"),
        ("/nowhere/site.toml", "site profile /nowhere/site.toml cannot be read"),
    ],
)
def test_a_profile_that_cannot_be_used(profile: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Site.of({"profile": profile, **PLACE})
