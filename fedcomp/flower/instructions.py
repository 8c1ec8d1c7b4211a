"""What a CompressedGrid adds to a train message, and the client mod takes out before the app sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from flwr.app import ConfigRecord, RecordDict

from fedcomp.flower.messages import MalformedMessage

RECORD = "fedcomp.compression"


@dataclass(frozen=True)
class Instructions:
    """How one client encodes one reply.

    Attributes
    ----------
    compressor
        Spec string.
    seed
        Seed of this very encoding, in [0, 2**64).
    raw
        Name to dtype of the arrays that travel as they are; all others are part of the vector.
    """

    compressor: str
    seed: int
    raw: Mapping[str, str] = field(default_factory=dict)

    def added_to(self, content: RecordDict) -> RecordDict:
        """Return a content with the same records and the instructions; messages share ``content``, it is unchanged."""
        record = ConfigRecord({"compressor": self.compressor, "seed": self.seed})
        record["raw-names"], record["raw-dtypes"] = list(self.raw), list(self.raw.values())
        return RecordDict({**content, RECORD: record})

    @classmethod
    def taken_from(cls, content: RecordDict) -> Self | None:
        """Remove the instructions from ``content`` and return them; None when there are none.

        Raises
        ------
        MalformedMessage
            When they are not what ``added_to`` writes.
        """
        if RECORD not in content:
            return None
        record = content.pop(RECORD)
        if isinstance(record, ConfigRecord):
            spec, seed = record.get("compressor"), record.get("seed")
            names, dtypes = record.get("raw-names"), record.get("raw-dtypes")
            if isinstance(spec, str) and type(seed) is int and isinstance(names, list) and isinstance(dtypes, list):
                return cls(spec, seed, {str(name): str(dtype) for name, dtype in zip(names, dtypes, strict=False)})
        raise MalformedMessage(f"record {RECORD!r} is {record!r}; align the versions of fedcomp on server and client")
