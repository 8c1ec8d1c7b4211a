from __future__ import annotations

from pathlib import Path

import pytest

from fedcomp.site.errors import ProfileError
from fedcomp.site.profile import CoordinatorEntry, SiteProfile, read_profile, resolve
from fedcomp.site.profile_text import profile_text

COORDINATOR = CoordinatorEntry(address="fl.example.org", port=8443, fedcomp="0.1.0", flwr="1.42.0")


def read(folder: Path, text: str) -> SiteProfile:
    (folder / "site.toml").write_text(text)
    return read_profile(folder / "site.toml")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_new_profile_reads_back_as_it_was_meant(tmp_path: Path, sealed: bool) -> None:
    profile = read(tmp_path, profile_text("bank", 1, 3, COORDINATOR, sealed=sealed))
    assert profile == SiteProfile(
        name="bank",
        partition_id=1,
        num_partitions=3,
        sealing="sealing" if sealed else None,
        coordinator=COORDINATOR,
    )
    assert profile.show_sent


def test_the_settings_that_are_commented_out_are_right(tmp_path: Path) -> None:
    text = profile_text("bank", 1, 3, COORDINATOR, sealed=True)
    for line in text.splitlines():
        if line.startswith("# ") and " = " in line:
            text = text.replace(line, line[2:])
    profile = read(tmp_path, text.replace("\nbits = 1.0", ""))
    assert (profile.uplink_mbps, profile.max_bits, profile.device) == (10.0, 4.0, "cuda")
    assert profile.data == "/var/lib/fedcomp/fedcomp/data/NAME"
    assert read(tmp_path, text.replace("\nuplink-mbps = 10.0", "")).bits == 1.0


def test_whole_numbers_will_do_and_a_name_is_enough(tmp_path: Path) -> None:
    profile = read(tmp_path, 'name = "Sankt Georg"\nbits = 2\nmax-bits = 2')
    assert (profile.bits, profile.max_bits, profile.partition_id, profile.num_partitions) == (2.0, 2.0, 0, 1)
    assert profile.coordinator is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bits = 0", "bits is 0: input should be greater than 0"),
        ("bits = 33", "bits is 33: input should be less than or equal to 32"),
        ("bits = nan", "bits is nan"),
        ('bits = "1"', "bits is '1': input should be a valid number"),
        ("max-bits = true", "max-bits is True"),
        ("uplink-mbps = -1", "uplink-mbps is -1"),
        ("uplink_mbps = 1", "uplink_mbps is not known; allowed: name, partition-id, .*uplink-mbps"),
        ("colour = 1", "colour is not known; allowed: name"),
        ("partition-id = 3\nnum-partitions = 3", "partition-id is 3; allowed: 0 to num-partitions - 1 = 2"),
        ("bits = 4\nmax-bits = 2", "bits is 4, above max-bits, which is 2; lower one"),
        ("bits = 4\nuplink-mbps = 2", "bits and uplink-mbps are both set; keep one"),
        ("show-sent = 1", "show-sent is 1: input should be a valid boolean"),
        ('[coordinator]\naddress = "a"\nport = 0', "coordinator.port is 0"),
        ('[coordinator]\naddress = "a"', "coordinator.port is missing"),
        ('[coordinator]\naddress = "a"\nport = 1\ncolour = 1', "coordinator.colour is not known; allowed: address"),
        ("bits: 4", "is no TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message) as caught:
        read(tmp_path, f'name = "bank"\n{line}')
    assert str(tmp_path / "site.toml") in str(caught.value)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none.toml cannot be read: No such file.*; give the path of site.toml"):
        read_profile(tmp_path / "none.toml")
    (tmp_path / "none.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="it is no text"):
        read_profile(tmp_path / "none.toml")
    with pytest.raises(ProfileError, match="name is missing"):
        read(tmp_path, "bits = 1")


def test_paths_begin_at_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(Path("a/site.toml"), "keys") == tmp_path / "a" / "keys"
    assert resolve(Path("a/site.toml"), "/srv/keys") == Path("/srv/keys")
