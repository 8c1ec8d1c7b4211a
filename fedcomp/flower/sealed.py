"""Sealed messages in Flower's form.

What is large has a box and an Array of its own, so that it is copied only once, into its box: the payload of a reply,
and model parts, which are the same for all clients. All else of a message is one box behind the header. A part is
encrypted once, under a random key which each client finds in the request that is sealed for it alone, since Flower
stores equal arrays once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictProto
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from fedcomp.downlink import ModelPart
from fedcomp.flower.messages import PARTS, PAYLOAD_STYPE, MalformedMessage, TrainRequest, blob
from fedcomp.sealing.box import close_box, new_key, open_box
from fedcomp.sealing.envelope import Header, Seal, split
from fedcomp.sealing.errors import Altered, NotSealed, WrongSettings

SEALED_STYPE = "fedcomp.sealed"
_SEALED, _ENVELOPE = "sealed", "envelope"
_REST = "rest"  # the box of all that has none of its own
_INDEX, _BOXES = "index", "boxes"
_SECRET, _KEYS, _SETTINGS = "secret", "part-keys", "settings"


@dataclass(frozen=True)
class SealedPart:
    """A model part, encrypted for all clients.

    Attributes
    ----------
    key
        For the eyes of the run's clients.
    box
        The encrypted payload.
    """

    key: bytes
    box: bytes

    @classmethod
    def of(cls, part: ModelPart, *, run: str) -> Self:
        """Encrypt a part under a new key."""
        key = new_key()
        return cls(key, close_box(part.payload, key=key, context=_part_context(run, part.version, part.base)))


def is_sealed(content: RecordDict) -> bool:
    """Whether a message's content claims to be sealed."""
    return _SEALED in content


def read_header(content: RecordDict) -> tuple[Header, bytes]:
    """Return what a message says of itself, unchecked, and the bytes that ``Seal.received`` needs.

    Raises
    ------
    NotSealed, UnsupportedSeal, Altered
        When there is no header that can be read.
    """
    header, head, _ = split(_envelope(content))
    return header, head


def seal_content(content: RecordDict, seal: Seal) -> RecordDict:
    """Return the sealed form of a message's content, for ``open_content``; payloads have boxes of their own."""
    outside, inside = RecordDict(), RecordDict()
    for name, record in content.items():
        if isinstance(record, ArrayRecord) and all(array.stype == PAYLOAD_STYPE for array in record.values()):
            outside[name] = ArrayRecord({key: _array(seal.close(f"{name}/{key}", record[key].data)) for key in record})
        else:
            inside[name] = record
    inside[_INDEX] = ConfigRecord({_BOXES: _names(outside)})
    rest = recorddict_to_proto(inside).SerializeToString()
    outside[_SEALED] = ArrayRecord({_ENVELOPE: _array(seal.head + seal.close(_REST, rest))})
    return outside


def open_content(content: RecordDict, seal: Seal) -> RecordDict:
    """Return what was sealed.

    Raises
    ------
    Altered
        When anything was changed, left out or added.
    NotSealed
        When there is something plain beside the boxes.
    MalformedMessage
        When what was sealed is no content of a message.
    """
    _, _, rest = split(_envelope(content))
    opened = _parse(seal.open(_REST, rest))
    outside = RecordDict({name: record for name, record in content.items() if name != _SEALED})
    names = _taken(opened, _INDEX).get(_BOXES)
    if names != _names(outside):
        raise Altered(f"the message came with boxes {_names(outside)}, it was sealed with {names!r}")
    for name, record in outside.items():
        boxes = {key: _unarray(array) for key, array in _arrays(record).items()}
        opened[name] = ArrayRecord({key: blob(seal.open(f"{name}/{key}", box)) for key, box in boxes.items()})
    return opened


def seal_request(request: TrainRequest, seal: Seal, parts: Sequence[SealedPart], *, settings: str) -> RecordDict:
    """Return the sealed form of a request.

    Parameters
    ----------
    parts
        ``request.parts``, sealed.
    settings
        Fingerprint of the run's settings, which reach the site on a way of their own.
    """
    content = request.to_record()
    del content[PARTS]
    content[_SECRET] = ConfigRecord({_KEYS: [part.key for part in parts], _SETTINGS: settings})
    sealed = seal_content(content, seal)
    sealed[PARTS] = ArrayRecord({str(index): _array(part.box) for index, part in enumerate(parts)})
    return sealed


def open_request(content: RecordDict, seal: Seal, *, settings: str) -> TrainRequest:
    """Return the request that was sealed.

    Raises
    ------
    WrongSettings
        When the run's settings here are others than the server's.
    Altered, NotSealed, MalformedMessage
        As ``open_content``.
    """
    boxes = {key: _unarray(array) for key, array in _arrays(content.get(PARTS)).items()}
    opened = open_content(RecordDict({name: record for name, record in content.items() if name != PARTS}), seal)
    secret = _taken(opened, _SECRET)
    if secret.get(_SETTINGS) != settings:
        raise WrongSettings(
            "the run's settings at this site are not the server's: the run config was changed on its way, or the two "
            "ends have different releases of fedcomp"
        )
    keys = secret.get(_KEYS)
    if not isinstance(keys, list) or len(keys) != len(boxes):
        raise Altered(f"the message came with {len(boxes)} model parts, it was sealed with another number")
    opened[PARTS] = ArrayRecord({key: blob(box) for key, box in boxes.items()})
    request = TrainRequest.from_record(opened)
    parts = tuple(_open_part(part, key, run=request.run) for part, key in zip(request.parts, keys, strict=True))
    return replace(request, parts=parts)


def _open_part(part: ModelPart, key: Any, *, run: str) -> ModelPart:
    context = _part_context(run, part.version, part.base)
    return replace(part, payload=open_box(part.payload, key=key, context=context, what=f"model part {part.version}"))


def _part_context(run: str, version: int, base: int | None) -> bytes:
    return f"fedcomp part v1 {version} {base} {run}".encode()


def _parse(data: bytes) -> RecordDict:
    try:
        return recorddict_from_proto(RecordDictProto.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise MalformedMessage(f"what was sealed is no content of a message: {error}") from error


def _names(outside: RecordDict) -> list[str]:
    """Return the names of all boxes outside of the envelope."""
    return sorted(f"{name}/{key}" for name, record in outside.items() for key in _arrays(record))


def _taken(opened: RecordDict, name: str) -> ConfigRecord:
    record = opened.pop(name, None)
    if not isinstance(record, ConfigRecord):
        raise MalformedMessage(f"record {name!r} of a sealed message is a {type(record).__name__}")
    return record


def _envelope(content: RecordDict) -> bytes:
    envelope = _arrays(content.get(_SEALED)).get(_ENVELOPE)
    if envelope is None:
        raise NotSealed(f"the message is plain: it has records {sorted(content)} and no seal")
    return _unarray(envelope)


def _arrays(record: object) -> dict[str, Array]:
    if record is None:
        return {}
    if not isinstance(record, ArrayRecord):
        raise NotSealed(f"the message has a plain {type(record).__name__}; only sealed arrays are taken")
    return dict(record)


def _array(box: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(box),), stype=SEALED_STYPE, data=box)


def _unarray(array: Array) -> bytes:
    if array.stype != SEALED_STYPE:
        raise NotSealed(f"the message has a plain array of type {array.stype!r}; only sealed ones are taken")
    return array.data
