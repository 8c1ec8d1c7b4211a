"""One round's replies: what is used, what is rejected and why, and how many bytes came."""

from __future__ import annotations

import logging

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from fedcomp.errors import FedcompError
from fedcomp.flower.intake import Asked, Intake
from fedcomp.flower.mailbox import Failure, failure_of
from fedcomp.flower.messages import MalformedMessage, message_bytes
from fedcomp.flower.rounds import CompressedRound, Rejection
from fedcomp.flower.update import EncodedArrays

log = logging.getLogger("flwr.fedcomp")


class Collection:
    """Hands good replies to an intake and turns bad ones into error replies.

    Parameters
    ----------
    intake
        What becomes of the good ones.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._accepted: list[Asked] = []
        self._rejected: list[Rejection] = []
        self._errors: list[Message] = []
        self._payloads = 0
        self._payload_bytes = 0
        self._envelope_bytes = 0

    def take(self, asked: Asked, reply: Message | Failure) -> None:
        """Take one reply, or the reason why none came."""
        failure = failure_of(reply)
        if isinstance(reply, Failure) or reply.has_error():
            self._note(asked, str(failure))
            self._errors += [reply] if isinstance(reply, Message) else []
            return
        self._envelope_bytes += message_bytes(reply)
        try:
            if failure is not None:
                raise MalformedMessage(failure)
            encoded = EncodedArrays.from_content(reply.content)
            self._payloads += 1
            self._payload_bytes += len(encoded.payload)
            self._envelope_bytes -= len(encoded.payload)
            self._intake.take(asked, encoded, reply)
            self._accepted.append(asked)
        except FedcompError as error:
            self._reject(asked, error)

    def results(self) -> list[Message]:
        """Return what the strategy is given: the intake's results and the error replies."""
        results: list[Message] = []
        if self._accepted:
            try:
                results = self._intake.results()
            except FedcompError as error:
                for asked in self._accepted:
                    self._reject(asked, error)
                self._accepted = []
        return results + self._errors

    def record(self, *, round_index: int, compressor: str, dim: int, streamed: bool) -> CompressedRound:
        """Return the round's record."""
        return CompressedRound(
            round_index=round_index,
            compressor=compressor,
            dim=dim,
            streamed=streamed,
            accepted=len(self._accepted),
            rejected=tuple(self._rejected),
            payloads=self._payloads,
            payload_bytes=self._payload_bytes,
            envelope_bytes=self._envelope_bytes,
        )

    def _reject(self, asked: Asked, error: FedcompError) -> None:
        reason = f"{type(error).__name__}: {error}"
        self._note(asked, reason)
        # Flower's code for a mod that could not do its work; the reason says more.
        self._errors.append(Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=asked.message))

    def _note(self, asked: Asked, reason: str) -> None:
        node = asked.message.metadata.dst_node_id
        log.warning("client %d of the round (node %d) rejected: %s", asked.position, node, reason)
        self._rejected.append(Rejection(asked.position, node, reason))
