"""Who is who: maps Flower's node ids, which change, to client names, which do not."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedcomp.errors import ConfigError, FedcompError
from fedcomp.flower.mailbox import POLL_SECONDS, Failure, Mailbox, failure_of
from fedcomp.flower.messages import ClientDescription, ClientQuery, MalformedMessage
from fedcomp.sealing.errors import SealingError
from fedcomp.seeds import COHORT_CLIENT_ID
from server_app.ledger import Ledger
from server_app.sealing import ServerSeals

log = logging.getLogger("fedcomp.server")

INTRODUCTION_SECONDS = 60.0
"""How long the first round waits for nodes that are connected but have not said who they are."""


class TooFewClients(FedcompError):
    """Fewer clients than needed answered within `node-timeout`."""


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
    bits, uplink_mbps
        What its site's profile allows; None when it does not say.
    simulated
        Whether it shares a machine with the server.
    max_bits
        What its site sends at most; None when it does not say.
    """

    name: str
    client_id: int
    node_id: int
    device: str
    version: str
    bits: float | None = None
    uplink_mbps: float | None = None
    simulated: bool = False
    max_bits: float | None = None


class Roster:
    """The clients of one run, each asked once a connection who it is.

    Parameters
    ----------
    grid
        Flower's connection to the nodes.
    run_id
        The run whose state clients are asked for.
    ledger
        What is known of each client; which model it keeps is noted when it connects.
    num_partitions
        Into how many parts the data was divided when the run began; None at its first start.
    seals
        What opens the answers, so that a client has the name whose key it has; None when they are plain.
    """

    def __init__(
        self,
        grid: Grid,
        run_id: str,
        ledger: Ledger,
        num_partitions: int | None = None,
        *,
        seals: ServerSeals | None = None,
    ) -> None:
        self._grid = grid
        self._ledger = ledger
        self._run_id = run_id
        self._by_node: dict[int, Client] = {}
        self._failed: set[int] = set()
        self._nodes: set[int] = set()
        self._queries = Mailbox(grid)
        self._seals = seals
        self._query_ids: dict[int, bytes] = {}
        self._introduced = False
        self.num_partitions = num_partitions

    def wait_for(self, count: int, *, timeout: float, busy: Callable[[], set[int]] = set) -> list[Client]:
        """Return the connected clients that are not busy, in the order of their ids, once there are ``count``.

        Parameters
        ----------
        count
            How many are needed.
        timeout
            Seconds to wait for them.
        busy
            Returns the nodes that still work on an earlier message.

        Raises
        ------
        TooFewClients
            When there are fewer after ``timeout`` seconds.
        ConfigError
            When a client's data are divided into another number of parts than the run's.
        """
        started = time.monotonic()
        announced = ""
        while True:
            connected = self.connected()
            working = busy()
            free = [client for client in connected if client.node_id not in working]
            seconds = time.monotonic() - started
            if self._queries.waiting and not self._introduced and seconds < min(timeout, INTRODUCTION_SECONDS):
                line = f"{len(self._queries.waiting)} nodes have not said who they are"
            elif len(free) >= count:
                # From now on a node that is new joins the round after its answer; no round waits for it.
                self._introduced = True
                return free
            elif seconds > timeout:
                raise TooFewClients(
                    f"{len(connected)} clients answered within {timeout:g} s{_working(len(connected) - len(free))}, "
                    f"min-clients is {count}; start more clients, lower min-clients or raise node-timeout"
                )
            else:
                names = ", ".join(client.name for client in connected if client.node_id in working)
                line = f"{len(free)} of at least {count} are free" + (f"; still at work: {names}" if names else "")
            if line != announced:
                log.info("waiting for clients: %s", line)
                announced = line
            time.sleep(POLL_SECONDS)

    def connected(self) -> list[Client]:
        """Return the clients that are connected and have said who they are, in the order of their ids."""
        nodes = self._nodes = set(self._grid.get_node_ids())
        # A node that could not say who it is may try again when it comes back.
        self._failed &= nodes
        self._queries.drop(self._queries.waiting - nodes)
        new = sorted(nodes - self._by_node.keys() - self._failed - self._queries.waiting)
        if new:
            self._queries.send({node: self._query(node) for node in new})
        for node, reply in self._queries.replies(deadline=0.0):
            self._take(node, reply)
        there = [client for node, client in self._by_node.items() if node in nodes]
        return sorted(there, key=lambda client: client.client_id)

    def at(self, node_id: int) -> Client | None:
        """Return the client that was seen at a node."""
        return self._by_node.get(node_id)

    def _query(self, node: int) -> Message:
        if self._seals is not None:
            self._query_ids[node] = self._seals.new_id()
        query = ClientQuery(self._run_id, self._query_ids.get(node, b"").hex())
        return Message(query.to_record(), dst_node_id=node, message_type=MessageType.QUERY)

    def _take(self, node: int, reply: Message | Failure) -> None:
        reason, query_id = failure_of(reply), self._query_ids.pop(node, b"")
        if reason is None and isinstance(reply, Message):
            try:
                self._admit(node, self._description(reply.content, query_id))
                return
            except MalformedMessage as error:
                reason = str(error)
            except SealingError as error:
                reason = f"{type(error).__name__}: {error}"
        log.warning("node %d did not say who it is: %s", node, reason)
        self._failed.add(node)

    def _description(self, content: RecordDict, query_id: bytes) -> ClientDescription:
        if self._seals is None:
            return ClientDescription.from_record(content)
        return self._seals.open_description(content, run=self._run_id, request_id=query_id)

    def _admit(self, node: int, description: ClientDescription) -> None:
        self.num_partitions = self.num_partitions or description.num_partitions
        if description.num_partitions != self.num_partitions:
            raise ConfigError(
                f"{description.client} divides the data into {description.num_partitions} parts, this run into "
                f"{self.num_partitions}; start all clients with num-partitions={self.num_partitions}"
            )
        if description.holds_version < 0:
            # It lost what it kept. What it has beyond the ledger's word is of rounds that will be played again.
            self._ledger[description.client].held_version = None
        twin = next((c for c in self._by_node.values() if c.name == description.client), None)
        if twin is not None and twin.node_id in self._nodes:
            raise MalformedMessage(
                f"it says it is {description.client}, as node {twin.node_id} does; give each SuperNode its own "
                "partition-id or site"
            )
        if twin is not None:
            # The same client came back under another node id; the old one is gone.
            log.info("%s is back under another node id", description.client)
            del self._by_node[twin.node_id]
        self._by_node[node] = Client(
            description.client,
            _client_id(description),
            node,
            device=description.device,
            version=description.version,
            bits=description.bits or None,
            uplink_mbps=description.uplink_mbps or None,
            max_bits=description.max_bits or None,
            simulated=description.simulated,
        )


def _client_id(description: ClientDescription) -> int:
    """Return the partition of an unnamed client, a hash of a site's name: neither depends on node ids."""
    if description.client == f"client-{description.partition_id}":
        return description.partition_id
    digest = hashlib.blake2b(description.client.encode(), digest_size=8, person=b"fedcomp-site").digest()
    return int.from_bytes(digest, "little") % COHORT_CLIENT_ID


def _working(count: int) -> str:
    return f" ({count} of them still at work)" if count else ""
