"""A site's end of sealed messages: its key, the server's pinned key, and what it opens and seals with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from flwr.app import RecordDict

from client_app.last_request import LastRequest
from client_app.site import Site
from fedcomp.flower.messages import ClientDescription, ClientFailure, ClientQuery, TrainRequest
from fedcomp.flower.sealed import is_sealed, open_request, read_header, seal_content
from fedcomp.home import sealing_dir, simulated_site_dir
from fedcomp.run_config import RunConfig
from fedcomp.sealing.envelope import REQUEST_ID_BYTES, Direction, Header, Seal
from fedcomp.sealing.errors import NotSealed, SealingKeyError, WrongRound, WrongRun, WrongSite
from fedcomp.sealing.keys import SERVER_PUBLIC, SITE_KEY, SITE_PUBLIC, load_key, load_public, make_key, save_public

log = logging.getLogger("fedcomp.client")

_HOW = "start its SuperNode with sealing='/folder/of/keys' in --node-config"


@dataclass(frozen=True)
class SiteSeals:
    """Opens requests and seals answers.

    Attributes
    ----------
    name
        The site's name.
    key, server
        Its private key, and the server's pinned public one.
    settings
        Fingerprint of the run's settings as they reached this site.
    """

    name: str
    key: X25519PrivateKey
    server: X25519PublicKey
    settings: str

    @classmethod
    def of(cls, site: Site, config: RunConfig) -> Self | None:
        """Return what seals this site's messages, or None when they are plain.

        A site with a folder of keys seals, whatever the run's settings say: those come from the network. Without one,
        a sealed run takes throwaway keys where the server app shares FEDCOMP_HOME, as in a simulation.

        Raises
        ------
        SealingKeyError
            When a key is missing or unusable.
        """
        if site.sealing is not None:
            key, server = load_key(site.sealing / SITE_KEY), load_public(site.sealing / SERVER_PUBLIC)
        elif config.sealing == "on":
            key, server = _throwaway_keys(site.name)
        else:
            return None
        return cls(site.name, key, server, config.fingerprint)

    def describe(self, description: ClientDescription, query: ClientQuery) -> RecordDict:
        """Return the sealed answer to the question who this site is; raises NotSealed when the server does not seal."""
        try:
            request_id = bytes.fromhex(query.request_id)
        except ValueError:
            request_id = b""
        if len(request_id) != REQUEST_ID_BYTES:
            raise NotSealed(
                f"site {self.name!r} has keys and answers only servers that seal; start the run with sealing='on'"
            )
        header = Header(Direction.DESCRIPTION, query.run, 0, self.name, request_id)
        return seal_content(description.to_record(), self._to_send(header))

    def open(self, content: RecordDict) -> TrainRequest:
        """Return a request; it cannot be opened again.

        Raises
        ------
        SealingError
            Naming why it cannot be trusted.
        PayloadError
            When what was sealed is no request.
        """
        header, head = read_header(content)
        header.check(Header(Direction.REQUEST, header.run, header.round_index, self.name, header.request_id))
        seal = Seal.received(head, recipient=self.key, sender=self.server)
        request = open_request(content, seal, settings=self.settings)
        if request.run != header.run:
            raise WrongRun(f"a request of run {request.run!r} was sealed for run {header.run!r}")
        if request.round_index != header.round_index:
            raise WrongRound(f"a request of round {request.round_index} was sealed for round {header.round_index}")
        if request.client != header.site:
            raise WrongSite(f"a request to {request.client!r} was sealed for site {header.site!r}")
        # Only now: what nobody sealed must not change what this site remembers.
        LastRequest.of(run=request.run, client=self.name).accept(header.request_id, now=time.time())
        return request

    def answer(self, content: RecordDict, work: Callable[[], RecordDict]) -> RecordDict:
        """Return the sealed reply to a request that was opened: what ``work`` returns, or why it failed.

        An error's words may hold what the site keeps to itself, and Flower would send them in the clear.
        """
        header, _ = read_header(content)
        try:
            reply = work()
        except Exception as error:
            log.warning("round %d failed", header.round_index, exc_info=True)
            reply = ClientFailure(f"{type(error).__name__}: {error}").to_record()
        answer = Header(Direction.REPLY, header.run, header.round_index, self.name, header.request_id)
        return seal_content(reply, self._to_send(answer))

    def _to_send(self, header: Header) -> Seal:
        return Seal.to_send(header, sender=self.key, recipient=self.server)


def check_plain(content: RecordDict, site: Site) -> None:
    """Check that a site without keys was not sent something sealed; raises SealingKeyError."""
    if is_sealed(content):
        raise SealingKeyError(f"the request is sealed and site {site.name!r} has no keys: {_HOW}")


def _throwaway_keys(name: str) -> tuple[X25519PrivateKey, X25519PublicKey]:
    """Return a simulated site's key, made on first use, and the server's, which it put beside before it asked."""
    server, folder = sealing_dir() / SERVER_PUBLIC, simulated_site_dir(name)
    if not server.exists():
        raise SealingKeyError(f"this run is sealed and site {name!r} has no keys: {_HOW}")
    key = make_key(folder / SITE_KEY)
    save_public(folder / SITE_PUBLIC, key.public_key())
    return key, load_public(server)
