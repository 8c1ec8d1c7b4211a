"""The server's half: a Flower Grid that asks for compressed replies and gives the strategy what it expects."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Iterable, Sequence

from flwr.app import Message, MessageType, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore.run import Run

from fedcomp.compressors.registry import compressor as build_compressor
from fedcomp.errors import ConfigError
from fedcomp.flower.arrays import layout_of
from fedcomp.flower.collection import Collection
from fedcomp.flower.instructions import Instructions
from fedcomp.flower.intake import Asked, DecodedIntake, Intake, MeanIntake
from fedcomp.flower.mailbox import Failure, Mailbox
from fedcomp.flower.rounds import CompressedRound
from fedcomp.flower.strategies import needs_mean_only, weight_key
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed

# Below Flower's own logger, so that the lines come out where and as Flower's do.
log = logging.getLogger("flwr.fedcomp")


class CompressedGrid(Grid):
    """A Grid whose train replies travel compressed; hand it to ``strategy.start`` in the place of Flower's own.

    Each train message with one ArrayRecord is sent with instructions for ``compression_mod``, which the ClientApp must
    have. Evaluate, query and other messages pass unchanged, and so does what goes through ``push_messages`` and
    ``pull_messages``.

    A strategy that needs the mean only (``strategies.needs_mean_only``) is handed one reply that holds mean arrays,
    total weight and mean metrics, and the error replies; one reply is in memory at a time. Any other strategy is handed
    all replies, decoded to arrays of the dtypes that were sent in the first round.

    A reply that cannot be used (broken, of another seed, not finite, of a bad weight) becomes an error reply with the
    reason, and the round goes on. A client that does not answer in time is left out, as Flower does.

    Parameters
    ----------
    grid
        Flower's own.
    compressor
        Spec string, such as ``"eden:bits=1"``.
    strategy
        The one that will use this grid. Without it all replies are decoded, and no weight is looked at.
    stream
        True or False instead of what follows from ``strategy``: form the mean while replies come in.
    secret
        What seeds are derived from; 32 random bytes by default. Give it to repeat a run to the bit.

    Raises
    ------
    ConfigError
        When the spec is wrong, the secret empty, or ``stream`` is true and the strategy names no weight.
    """

    def __init__(
        self,
        grid: Grid,
        compressor: str,
        *,
        strategy: Strategy | None = None,
        stream: bool | None = None,
        secret: bytes | None = None,
    ) -> None:
        if secret is not None and not secret:
            raise ConfigError("secret is empty; give at least one byte, or leave it out to have 32 random ones")
        self._grid = grid
        self._spec = compressor
        self._codec = build_compressor(compressor)
        self._weight_key = weight_key(strategy)
        self._stream = needs_mean_only(strategy) if stream is None else stream
        if self._stream and self._weight_key is None:
            raise ConfigError(
                f"stream is {stream} with strategy {strategy!r}, which has no weighted_by_key; give the strategy, or "
                "leave stream out"
            )
        self._secret = secrets.token_bytes(32) if secret is None else secret
        self._dtypes: dict[str, str] = {}
        self._rounds: list[CompressedRound] = []
        self._round_index = 0

    @property
    def rounds(self) -> Sequence[CompressedRound]:
        """A record of each round of training so far."""
        return tuple(self._rounds)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return what the strategy expects as replies.

        Parameters
        ----------
        messages
            Their contents are replaced by ones that hold the instructions, too.
        timeout
            Seconds until missing replies are left out; None waits for all.

        Raises
        ------
        VectorSpecError
            When a train message holds an array that is not float, integer or bool.
        ConfigError
            When the cohort is too large for the compressor.
        """
        outgoing = list(messages)
        asked = self._ask(outgoing)
        if not asked:
            return self._grid.send_and_receive(messages=outgoing, timeout=timeout)
        intake = self._intake(list(asked.values()))
        collection = Collection(intake)
        others: list[Message] = []
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        mailbox = Mailbox(self._grid)
        mailbox.send(dict(enumerate(outgoing)))
        for index, reply in mailbox.replies(deadline=deadline):
            if index in asked:
                collection.take(asked[index], reply)
            elif isinstance(reply, Message):
                others.append(reply)
        for index in sorted(mailbox.waiting & asked.keys()):
            collection.take(asked[index], Failure("no reply before the timeout"))
        replies = collection.results()
        self._rounds.append(
            collection.record(
                round_index=self._round_index,
                compressor=self._spec,
                dim=max(item.layout.dim for item in asked.values()),
                streamed=isinstance(intake, MeanIntake),
            )
        )
        log.info("%s", self._rounds[-1])
        return others + replies

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages unchanged."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies unchanged."""
        return self._grid.pull_messages(message_ids)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the nodes."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the nodes."""
        return self._grid.get_nodes()

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def _ask(self, outgoing: Sequence[Message]) -> dict[int, Asked]:
        """Add instructions to the train messages; return index to what was asked."""
        chosen = [index for index, message in enumerate(outgoing) if _is_compressible(message)]
        if chosen:
            # Counted before anything is sent: a round that failed half-way used its seeds.
            self._round_index += 1
        asked: dict[int, Asked] = {}
        for position, index in enumerate(chosen):
            message = outgoing[index]
            arrays = dict(next(iter(message.content.array_records.values())))
            layout = layout_of(arrays, self._dtypes)
            self._dtypes |= {entry.name: entry.dtype for entry in layout.tensors}
            member = COHORT_CLIENT_ID if self._codec.shares_seed else position
            instructions = Instructions(
                compressor=str(self._codec.for_member(position, len(chosen)).spec),
                seed=derive_seed(self._secret, self._round_index, member, "rotation"),
                raw={entry.name: entry.dtype for entry in layout.raws},
            )
            message.content = instructions.added_to(message.content)
            asked[index] = Asked(message, position, instructions.seed, arrays, layout)
        return asked

    def _intake(self, asked: Sequence[Asked]) -> Intake:
        # All clients must have trained the same arrays for a mean of differences to be the difference of a mean.
        if self._stream and self._weight_key is not None and all(item.arrays == asked[0].arrays for item in asked):
            return MeanIntake(self._weight_key, asked[0])
        return DecodedIntake(self._weight_key)


def _is_compressible(message: Message) -> bool:
    if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
        return False
    count = len(message.content.array_records)
    if count != 1:
        log.warning("a train message holds %d ArrayRecords, not one: it and its reply travel uncompressed", count)
    return count == 1
