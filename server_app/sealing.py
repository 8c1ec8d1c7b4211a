"""The server's end of sealed messages: its key, the sites' pinned keys, and what is sealed and opened with them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self
from weakref import WeakKeyDictionary

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from flwr.app import RecordDict

from fedcomp.downlink import ModelPart
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import ClientDescription, TrainRequest
from fedcomp.flower.sealed import SealedPart, open_content, read_header, seal_request
from fedcomp.home import sealing_dir, simulated_site_dir
from fedcomp.run_config import RunConfig
from fedcomp.sealing.envelope import Direction, Header, Seal
from fedcomp.sealing.errors import UnknownSite, WrongSite
from fedcomp.sealing.keys import (
    SERVER_KEY,
    SERVER_PUBLIC,
    SITE_PUBLIC,
    SITES,
    load_key,
    load_public,
    load_sites,
    make_key,
    save_public,
)
from fedcomp.sealing.request_ids import RequestIds

log = logging.getLogger("fedcomp.server")

ENVIRONMENT_VARIABLE = "FEDCOMP_SEALING"


class ServerSeals:
    """Seals requests and opens answers.

    Parameters
    ----------
    key
        The server's private key, whose public half is pinned at the sites.
    key_of
        Returns the pinned public key of a site; raises UnknownSite.
    settings
        Fingerprint of the run's settings.
    """

    def __init__(self, key: X25519PrivateKey, key_of: Callable[[str], X25519PublicKey], *, settings: str) -> None:
        self._key = key
        self._key_of = key_of
        self._settings = settings
        self._ids = RequestIds()
        # As long as somebody has a part, its sealed form, with the one key that it has, is there too.
        self._parts: WeakKeyDictionary[ModelPart, SealedPart] = WeakKeyDictionary()

    @classmethod
    def of(cls, config: RunConfig) -> Self | None:
        """Return what seals a run's messages, or None when they are plain.

        The keys are in the folder that ``FEDCOMP_SEALING`` names. Without it they are throwaway ones in FEDCOMP_HOME,
        where simulated clients find theirs.

        Raises
        ------
        SealingKeyError
            When a key is missing or unusable.
        ConfigError
            When this host has keys and the run's settings say that nothing is sealed.
        """
        folder = os.environ.get(ENVIRONMENT_VARIABLE)
        if config.sealing == "off":
            if folder:
                raise ConfigError(
                    f"sealing is 'off', but {ENVIRONMENT_VARIABLE}={folder} says that this server seals: give "
                    f"sealing='on', or unset {ENVIRONMENT_VARIABLE} where plain runs are allowed"
                )
            return None
        if folder:
            sites = load_sites(Path(folder) / SITES)
            log.info("messages are sealed for the %d sites of %s", len(sites), Path(folder) / SITES)
            return cls(load_key(Path(folder) / SERVER_KEY), _Pinned(sites), settings=config.fingerprint)
        log.info("messages are sealed with throwaway keys in %s, as simulations do", sealing_dir())
        key = make_key(sealing_dir() / SERVER_KEY)
        save_public(sealing_dir() / SERVER_PUBLIC, key.public_key())
        return cls(key, _simulated_key, settings=config.fingerprint)

    def new_id(self) -> bytes:
        """Return the number of a new request or question."""
        return self._ids.new()

    def request(self, request: TrainRequest, request_id: bytes) -> RecordDict:
        """Return the sealed content of a request; raises UnknownSite."""
        header = _header(Direction.REQUEST, request, request_id)
        seal = Seal.to_send(header, sender=self._key, recipient=self._key_of(request.client))
        parts = [self._sealed(part, request.run) for part in request.parts]
        return seal_request(request, seal, parts, settings=self._settings)

    def open_reply(self, content: RecordDict, request: TrainRequest, request_id: bytes) -> RecordDict:
        """Return the content of a reply to a request; raises SealingError, or PayloadError for what no reply is."""
        return self._open(content, _header(Direction.REPLY, request, request_id))

    def open_description(self, content: RecordDict, *, run: str, request_id: bytes) -> ClientDescription:
        """Return what a client says of itself, when it has the key of the site that it says it is.

        Raises
        ------
        SealingError
            When it has not, or answers another question.
        PayloadError
            When what it says is no description.
        """
        # Nobody knows who it is yet: the name is the message's own word until its box opens with that site's key.
        site = read_header(content)[0].site
        opened = self._open(content, Header(Direction.DESCRIPTION, run, 0, site, request_id))
        description = ClientDescription.from_record(opened)
        if description.client != site:
            raise WrongSite(f"it is sealed by site {site!r} and says it is {description.client!r}")
        return description

    def _open(self, content: RecordDict, expected: Header) -> RecordDict:
        header, head = read_header(content)
        header.check(expected)
        return open_content(content, Seal.received(head, recipient=self._key, sender=self._key_of(header.site)))

    def _sealed(self, part: ModelPart, run: str) -> SealedPart:
        found = self._parts.get(part)
        if found is None:
            found = self._parts[part] = SealedPart.of(part, run=run)
        return found


class _Pinned:
    """The keys of a roster."""

    def __init__(self, sites: dict[str, X25519PublicKey]) -> None:
        self._sites = sites

    def __call__(self, name: str) -> X25519PublicKey:
        if name not in self._sites:
            known = ", ".join(sorted(self._sites)) or "none"
            raise UnknownSite(
                f"site {name!r} has no key in {SITES}; known: {known}; add its public key there and resume the run"
            )
        return self._sites[name]


def _simulated_key(name: str) -> X25519PublicKey:
    path = simulated_site_dir(name) / SITE_PUBLIC
    if not path.exists():
        raise UnknownSite(
            f"{name!r} has no throwaway key in {path.parent}; a server whose sites are elsewhere needs "
            f"{ENVIRONMENT_VARIABLE}, the folder of its key and roster"
        )
    return load_public(path)


def _header(direction: Direction, request: TrainRequest, request_id: bytes) -> Header:
    return Header(direction, request.run, request.round_index, request.client, request_id)
