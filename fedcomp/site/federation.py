"""The coordinator's folder: what lies where, and ``federation.toml``, which lists the sites."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedcomp.sealing.keys import SITES
from fedcomp.site.errors import BadFederation, UnknownSiteName
from fedcomp.site.files import write_private

_Port = Annotated[int, Field(ge=1, le=65535)]
_STRICT = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"), validate_by_name=True
)
_HEAD = "# The sites of this federation; written by `fedcomp site`, which is the way to change it.\n\n"


class SiteEntry(BaseModel):
    """One site.

    Attributes
    ----------
    partition_id
        Its part of a common data set.
    supernode_key, sealing_key
        The public halves of its keys.
    node_id
        The SuperLink's number for it; empty before it is registered.
    revoked
        The day on which it was revoked; empty when it was not.
    """

    model_config = _STRICT

    partition_id: int
    supernode_key: str
    sealing_key: str
    node_id: str = ""
    revoked: str = ""


class Federation(BaseModel):
    """What ``federation.toml`` holds.

    Attributes
    ----------
    address, port
        Where sites reach the coordinator.
    local_port
        Port on loopback on which the SuperLink listens.
    hosts
        DNS names and IP addresses in the server certificate.
    num_partitions
        How many parts a data set is dealt out in that all sites have in common.
    sealed
        Whether new sites refuse messages that are not sealed.
    retired
        Node ids that the SuperLink still has to forget.
    sites
        By name, revoked ones included.
    """

    model_config = _STRICT

    address: str
    port: _Port
    local_port: _Port
    hosts: tuple[str, ...]
    num_partitions: int
    sealed: bool = True
    retired: tuple[str, ...] = ()
    sites: dict[str, SiteEntry]

    @property
    def active(self) -> dict[str, SiteEntry]:
        """The sites that were not revoked."""
        return {name: site for name, site in self.sites.items() if not site.revoked}

    def with_site(self, name: str, site: SiteEntry) -> Self:
        """Return the federation with this site; the node id of an entry that it replaces is to be forgotten."""
        before = self.sites.get(name)
        lost = before is not None and before.node_id and before.node_id != site.node_id
        retired = (*self.retired, before.node_id) if before is not None and lost else self.retired
        return self.model_copy(update={"sites": {**self.sites, name: site}, "retired": retired})

    def site(self, name: str) -> SiteEntry:
        """Return one site; raises UnknownSiteName."""
        if name not in self.sites:
            raise UnknownSiteName(f"no site {name!r} in this federation; its sites: {', '.join(self.sites) or 'none'}")
        return self.sites[name]


@dataclass(frozen=True)
class FederationFolder:
    """Paths in the coordinator's folder."""

    path: Path

    @property
    def settings(self) -> Path:
        """``federation.toml``."""
        return self.path / "federation.toml"

    @property
    def ca_key(self) -> Path:
        """The authority's private key: whoever has it can pass for the coordinator."""
        return self.path / "authority" / "ca.key"

    @property
    def ca_certificate(self) -> Path:
        """The authority's certificate, which every site has."""
        return self.path / "authority" / "ca.crt"

    @property
    def server_key(self) -> Path:
        """The private key of the server certificate."""
        return self.path / "server" / "server.key"

    @property
    def server_certificate(self) -> Path:
        """The server certificate."""
        return self.path / "server" / "server.pem"

    @property
    def sealing(self) -> Path:
        """Folder of the server app's sealing key and the sites' public ones, for FEDCOMP_SEALING."""
        return self.path / "sealing"

    @property
    def flwr(self) -> Path:
        """FLWR_HOME of the coordinator's host, with the connection to the SuperLink."""
        return self.path / "flwr"

    @property
    def state(self) -> Path:
        """Folder of the SuperLink's database and of FEDCOMP_HOME."""
        return self.path / "state"

    @property
    def deploy(self) -> Path:
        """Folder of the proxy's configuration, the unit and the container files."""
        return self.path / "deploy"

    def environment(self, federation: Federation) -> dict[str, str]:
        """Return the variables of the SuperLink and the server app.

        Where sites take plain messages, no keys are named: a server that has some begins no plain run.
        """
        sealing = {"FEDCOMP_SEALING": str(self.sealing)} if federation.sealed else {}
        return {"FLWR_HOME": str(self.flwr), "FEDCOMP_HOME": str(self.state / "fedcomp"), **sealing}

    def supernode_key(self, site: str) -> Path:
        """Return the path of the public key to register for a site."""
        return self.path / "supernodes" / f"{site}.pub"

    def archive(self, site: str) -> Path:
        """Return the path of what a site gets."""
        return self.path / "archives" / f"{site}.tar.gz"

    def load(self) -> Federation:
        """Read ``federation.toml``; raises BadFederation."""
        try:
            return Federation.model_validate(tomllib.loads(self.settings.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise BadFederation(
                f"{self.path} is no federation's folder: federation.toml is missing; make one with `fedcomp site init`"
            ) from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadFederation(f"{self.settings} cannot be read: {error}; restore it from a backup") from error
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise BadFederation(f"{self.settings}: {wrong}; restore it from a backup") from error

    def save(self, federation: Federation, *, replace: bool) -> None:
        """Write ``federation.toml`` and the list of sealing keys; raises NotWritten."""
        write_private(self.settings, _toml(federation).encode(), replace=replace)
        keys = "".join(f'{name} = "{site.sealing_key}"\n' for name, site in federation.active.items())
        write_private(self.sealing / SITES, f"[sites]\n{keys}".encode(), replace=replace)


def _toml(federation: Federation) -> str:
    # JSON's strings, numbers and lists are TOML's.
    fields = federation.model_dump(by_alias=True)
    sites = fields.pop("sites")
    text = _HEAD + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
    for name, site in sites.items():
        text += f"\n[sites.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in site.items())
    return text
