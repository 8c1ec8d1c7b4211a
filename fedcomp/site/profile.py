"""The site profile, one TOML file: who a site is, what it may send, and how it reaches the coordinator."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedcomp.site.errors import ProfileError

PROFILE_FILE = "site.toml"

_Bits = Annotated[float, Field(gt=0, le=32, allow_inf_nan=False)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_STRICT = ConfigDict(
    frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.replace("_", "-"), validate_by_name=True
)


class CoordinatorEntry(BaseModel):
    """How the site reaches the coordinator; paths are relative to the profile's folder.

    Attributes
    ----------
    address, port
        Where the Fleet API answers.
    ca, key
        Files: the certificate of the federation's authority, the SuperNode's private key.
    local_port
        Port on loopback that the SuperNode uses for itself.
    fedcomp, flwr
        The versions that the site should have.
    """

    model_config = _STRICT

    address: str
    port: _Port
    ca: str = "ca.crt"
    key: str = "supernode.key"
    local_port: _Port = 9094
    fedcomp: str = ""
    flwr: str = ""


class SiteProfile(BaseModel):
    """What ``site.toml`` holds.

    Attributes
    ----------
    name
        Seeds, kept state and records go by it.
    partition_id, num_partitions
        Which part of a data set that all sites have in common is this site's.
    bits, uplink_mbps
        What the site wants to send, in bits a coordinate, or its bandwidth in Mbit/s; None leaves it to the run.
    max_bits
        What the site may send at most, whatever a run asks.
    device
        Where it trains; None leaves it to the run.
    data
        Folder of a prepared data set that is the site's own, all of it.
    show_sent
        Whether each message that leaves is written down.
    sealing
        Folder of the sealing keys.
    coordinator
        How it reaches the coordinator; None in a profile that only a SuperNode started by hand uses.
    """

    model_config = _STRICT

    name: Annotated[str, Field(min_length=1, max_length=200)]
    partition_id: Annotated[int, Field(ge=0)] = 0
    num_partitions: Annotated[int, Field(ge=1)] = 1
    bits: _Bits | None = None
    uplink_mbps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_bits: _Bits | None = None
    device: str | None = None
    data: str | None = None
    show_sent: bool = True
    sealing: str | None = None
    coordinator: CoordinatorEntry | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.partition_id >= self.num_partitions:
            raise ValueError(
                f"partition-id is {self.partition_id}; allowed: 0 to num-partitions - 1 = {self.num_partitions - 1}"
            )
        if self.bits is not None and self.max_bits is not None and self.bits > self.max_bits:
            raise ValueError(f"bits is {self.bits:g}, above max-bits, which is {self.max_bits:g}; lower one")
        if self.bits is not None and self.uplink_mbps is not None:
            raise ValueError("bits and uplink-mbps are both set; keep one")
        return self


def read_profile(path: Path) -> SiteProfile:
    """Read a site's profile.

    Raises
    ------
    ProfileError
        When the file is missing or no TOML, or a key is unknown or has a value that is not allowed; names each.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ProfileError(f"site profile {path} cannot be read: {reason}; give the path of site.toml") from error
    try:
        return SiteProfile.model_validate(tomllib.loads(text), by_alias=True, by_name=False)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"site profile {path} is no TOML: {error}; strings need quotes, numbers none") from error
    except ValidationError as error:
        raise ProfileError(f"site profile {path}: {'; '.join(_lines(error))}") from error


def resolve(profile_path: Path, path: str) -> Path:
    """Return a path of the profile as an absolute one; relative ones begin at the profile's folder."""
    return (profile_path.absolute().parent / Path(path).expanduser()).absolute()


def _lines(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False):
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            allowed = CoordinatorEntry if "." in key else SiteProfile
            names = ", ".join(name.replace("_", "-") for name in allowed.model_fields)
            lines.append(f"{key} is not known; allowed: {names}")
        elif item["type"] == "missing":
            lines.append(f"{key} is missing")
        elif item["type"] == "value_error":
            lines.append(str(item["ctx"]["error"]))
        else:
            lines.append(f"{key} is {item['input']!r}: {item['msg'][0].lower()}{item['msg'][1:]}")
    return lines
