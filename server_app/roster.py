"""Who is who: maps Flower's node ids, which change, to client names, which do not."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedcomp.errors import FedcompError
from fedcomp.flower.messages import ClientDescription, MalformedMessage
from fedcomp.seeds import COHORT_CLIENT_ID
from server_app.exchange import Failure, exchange

log = logging.getLogger("fedcomp.server")


class TooFewClients(FedcompError):
    """Fewer clients than `min-clients` answered within `node-timeout`."""


@dataclass(frozen=True)
class Client:
    """A client that can be asked to train.

    Attributes
    ----------
    name, client_id
        Its stable name and the number its seeds are derived from.
    node_id
        Where Flower reaches it in this run.
    device, version
        As it describes itself.
    """

    name: str
    client_id: int
    node_id: int
    device: str
    version: str


class Roster:
    """The clients of one run, asked once who they are."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._by_node: dict[int, Client] = {}
        self._failed: set[int] = set()

    def wait_for(self, count: int, *, timeout: float) -> list[Client]:
        """Return the connected clients in the order of their ids once there are ``count``.

        Raises
        ------
        TooFewClients
            When fewer have answered after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        announced = -1
        while True:
            connected = self._connected(deadline)
            if len(connected) >= count:
                return connected
            if len(connected) != announced:
                log.info("waiting for clients: %d of at least %d are there", len(connected), count)
                announced = len(connected)
            if time.monotonic() > deadline:
                raise TooFewClients(
                    f"{len(connected)} clients answered within {timeout:g} s, min-clients is {count}; "
                    "start more clients, lower min-clients or raise node-timeout"
                )
            time.sleep(0.2)

    def _connected(self, deadline: float) -> list[Client]:
        nodes = set(self._grid.get_node_ids())
        new = sorted(nodes - self._by_node.keys() - self._failed)
        if new:
            self._describe(new, deadline)
        connected = [client for node, client in self._by_node.items() if node in nodes]
        return sorted(connected, key=lambda client: client.client_id)

    def _describe(self, nodes: list[int], deadline: float) -> None:
        messages = {
            node: Message(RecordDict({"config": ConfigRecord()}), dst_node_id=node, message_type=MessageType.QUERY)
            for node in nodes
        }
        for node, reply in exchange(self._grid, messages, deadline=max(deadline, time.monotonic() + 30.0)):
            if isinstance(reply, Failure):
                log.warning("node %d did not say who it is: %s", node, reply.reason)
                self._failed.add(node)
                continue
            try:
                description = ClientDescription.from_record(reply.content)
            except MalformedMessage as error:
                log.warning("node %d did not say who it is: %s", node, error)
                self._failed.add(node)
                continue
            client_id = _client_id(description)
            twin = next((c for c in self._by_node.values() if c.name == description.client), None)
            if twin is not None:
                # The same client came back under another node id; the old one is gone.
                del self._by_node[twin.node_id]
            self._by_node[node] = Client(
                description.client, client_id, node, device=description.device, version=description.version
            )


def _client_id(description: ClientDescription) -> int:
    """Return the partition of an unnamed client, a hash of a site's name: neither depends on node ids."""
    if description.client == f"client-{description.partition_id}":
        return description.partition_id
    digest = hashlib.blake2b(description.client.encode(), digest_size=8, person=b"fedcomp-site").digest()
    return int.from_bytes(digest, "little") % COHORT_CLIENT_ID
