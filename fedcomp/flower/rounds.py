"""What is kept of each round that went through a CompressedGrid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rejection:
    """A client whose reply was not used.

    Attributes
    ----------
    position
        Place of its message in the round, from 0.
    node_id
        Where the message went.
    reason
        Why, in words.
    """

    position: int
    node_id: int
    reason: str


@dataclass(frozen=True)
class CompressedRound:
    """What one round of training sent up.

    Attributes
    ----------
    round_index
        Counts this grid's rounds of training from 1.
    compressor
        Spec string.
    dim
        Coordinates of one update.
    streamed
        Whether the mean was formed while replies came in.
    accepted
        Replies that were used.
    rejected
        Those that were not, clients that did not answer included.
    payloads, payload_bytes
        Number and total length of the payloads that came, used or not.
    envelope_bytes
        All else that came with replies: integer arrays, metrics, metadata, whole replies without a payload.
    """

    round_index: int
    compressor: str
    dim: int
    streamed: bool
    accepted: int
    rejected: tuple[Rejection, ...]
    payloads: int
    payload_bytes: int
    envelope_bytes: int

    @property
    def bits_per_coordinate(self) -> float | None:
        """Measured bits per coordinate, header included; None when no payload came, or none has coordinates."""
        coordinates = self.payloads * self.dim
        return 8 * self.payload_bytes / coordinates if coordinates else None

    def __str__(self) -> str:
        """Return the line for the log."""
        bits = self.bits_per_coordinate
        return (
            f"round {self.round_index}: {self.accepted} of {self.accepted + len(self.rejected)} updates used, "
            f"{self.compressor}, {'no payload' if bits is None else f'{bits:.4f} bits per coordinate'}, "
            f"{self.payload_bytes:,} bytes of payload + {self.envelope_bytes:,} of envelope up, "
            f"{'mean formed while replies came' if self.streamed else 'all replies decoded'}"
        )
