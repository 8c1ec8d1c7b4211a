"""What stands for an app's ArrayRecord while its reply travels: one payload, and raw bytes where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from flwr.app import Array, ArrayRecord, RecordDict

from fedcomp.flower.messages import PAYLOAD_STYPE, MalformedMessage

RAW_STYPE = "fedcomp.raw"
_PAYLOAD, _RAW = "payload", "raw"


@dataclass(frozen=True)
class EncodedArrays:
    """A client update in bytes.

    Attributes
    ----------
    payload
        The encoded difference to the received arrays.
    raw
        The integer and bool arrays, as ``arrays.difference`` returns them.
    """

    payload: bytes
    raw: bytes

    def to_record(self) -> ArrayRecord:
        """Return the ArrayRecord; the stypes keep any strategy from averaging it by accident."""
        arrays = {_PAYLOAD: _blob(self.payload, PAYLOAD_STYPE)}
        if self.raw:
            arrays[_RAW] = _blob(self.raw, RAW_STYPE)
        return ArrayRecord(arrays)

    @classmethod
    def from_content(cls, content: RecordDict) -> Self:
        """Read the only ArrayRecord of a reply.

        Raises
        ------
        MalformedMessage
            When it holds anything else.
        """
        record = only_array_record(content)
        payload, raw = record.get(_PAYLOAD), record.get(_RAW)
        if payload is None or payload.stype != PAYLOAD_STYPE:
            raise MalformedMessage(
                f"reply holds arrays {sorted(record)[:5]} and no fedcomp payload; add fedcomp.flower.compression_mod "
                "to the ClientApp's mods"
            )
        if len(record) != 1 + (raw is not None) or (raw is not None and raw.stype != RAW_STYPE):
            raise MalformedMessage(f"reply holds arrays {sorted(record)[:5]}, it may hold a payload and raw bytes only")
        return cls(payload.data, raw.data if raw is not None else b"")


def only_array_record(content: RecordDict) -> ArrayRecord:
    """Return the content's ArrayRecord; raises MalformedMessage unless it has exactly one."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise MalformedMessage(f"reply holds {len(records)} ArrayRecords, with compression it must hold one")
    return records[0]


def with_arrays(content: RecordDict, arrays: ArrayRecord) -> RecordDict:
    """Return ``content`` with ``arrays`` in the place of its only ArrayRecord."""
    return RecordDict({key: arrays if isinstance(record, ArrayRecord) else record for key, record in content.items()})


def _blob(data: bytes, stype: str) -> Array:
    return Array(dtype="uint8", shape=(len(data),), stype=stype, data=data)
