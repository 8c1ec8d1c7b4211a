"""What travels in the Flower messages of fedcomp's own apps.

A payload is one opaque Array: a single blob costs a fraction of the envelope of an Array a layer, and its own stype
keeps any Flower strategy from averaging it by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from torch import Tensor

from fedcomp.errors import PayloadError

PAYLOAD_STYPE = "fedcomp.payload"
_PAYLOAD = "payload"
_ARRAYS, _RAW, _CONFIG, _METRICS = "arrays", "raw", "config", "metrics"


class MalformedMessage(PayloadError):
    """A message lacks a record or field that it must have, or holds one of the wrong kind."""


@dataclass(frozen=True)
class TrainRequest:
    """What the server sends to one client for one round.

    Attributes
    ----------
    payload
        The global model's vector, encoded with ``payload_seed``.
    raw
        The global model's integer and bool tensors.
    layout
        ``VectorSpec.fingerprint`` of the server's model.
    client, round_index
        Whom it is for and in which round.
    compressor
        Spec string of the compressor for the reply.
    encode_seed, training_seed
        Seeds of the rotation and of shuffling and dropout.
    """

    payload: bytes
    raw: Mapping[str, Tensor]
    payload_seed: int
    layout: str
    client: str
    round_index: int
    compressor: str
    encode_seed: int
    training_seed: int

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return _to_record(self, metrics=())

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        return cls(**_from_record(cls, content, metrics=()))


@dataclass(frozen=True)
class TrainReply:
    """What a client sends back.

    Attributes
    ----------
    payload
        The client update (trained minus received vector), encoded with the request's ``encode_seed``.
    raw
        The trained model's integer and bool tensors.
    client, round_index
        Who replies, and to which round.
    device
        Where it trained.
    num_examples
        The update's weight.
    train_loss, vnmse
        Mean training loss; error of this very encoding.
    train_seconds, encode_seconds
        Time taken.
    """

    payload: bytes
    raw: Mapping[str, Tensor]
    client: str
    round_index: int
    device: str
    num_examples: float
    train_loss: float
    vnmse: float
    train_seconds: float
    encode_seconds: float

    _METRIC_NAMES = ("num-examples", "train-loss", "vnmse", "train-seconds", "encode-seconds")

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return _to_record(self, metrics=self._METRIC_NAMES)

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        return cls(**_from_record(cls, content, metrics=cls._METRIC_NAMES))


@dataclass(frozen=True)
class ClientDescription:
    """What a client says of itself when asked.

    Attributes
    ----------
    client
        Its name, stable over runs and restarts; seeds and state go by it.
    partition_id
        Which part of the task's data it holds.
    device, version
        Where it trains, and the version of fedcomp it runs.
    """

    client: str
    partition_id: int
    device: str
    version: str

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return RecordDict({_CONFIG: ConfigRecord(_config_fields(self))})

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        record = _record(content, _CONFIG, ConfigRecord)
        return cls(**{item.name: _field(record, item.name, str(item.type)) for item in fields(cls)})


def message_bytes(message: Message) -> int:
    """Return the bytes of the objects that make up the message on the wire, each once, as Flower stores them."""
    return sum(len(item.deflate()) for item in get_all_nested_objects(message).values())


def _config_fields(item: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    return {_key(field.name): getattr(item, field.name) for field in fields(item) if field.name not in skip}


def _key(name: str) -> str:
    return name.replace("_", "-")


def _to_record(item: TrainRequest | TrainReply, metrics: tuple[str, ...]) -> RecordDict:
    payload = Array(dtype="uint8", shape=(len(item.payload),), stype=PAYLOAD_STYPE, data=item.payload)
    values = _config_fields(item, skip=("payload", "raw"))
    content = RecordDict({_ARRAYS: ArrayRecord({_PAYLOAD: payload})})
    if item.raw:
        content[_RAW] = ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in item.raw.items()})
    content[_CONFIG] = ConfigRecord({key: value for key, value in values.items() if key not in metrics})
    if metrics:
        content[_METRICS] = MetricRecord({key: float(values[key]) for key in metrics})
    return content


def _from_record(
    cls: type[TrainRequest] | type[TrainReply], content: RecordDict, metrics: tuple[str, ...]
) -> dict[str, Any]:
    arrays = _record(content, _ARRAYS, ArrayRecord)
    payload = arrays.get(_PAYLOAD)
    if payload is None or payload.stype != PAYLOAD_STYPE or len(arrays) != 1:
        raise MalformedMessage(f"record {_ARRAYS!r} must hold one {PAYLOAD_STYPE} array, it holds {sorted(arrays)}")
    raw: dict[str, Tensor] = {}
    if _RAW in content:
        raw = {name: _raw_tensor(name, array) for name, array in _record(content, _RAW, ArrayRecord).items()}
    values: dict[str, Any] = {"payload": payload.data, "raw": raw}
    config = _record(content, _CONFIG, ConfigRecord)
    for field in fields(cls):
        if field.name in values:
            continue
        source = _record(content, _METRICS, MetricRecord) if _key(field.name) in metrics else config
        values[field.name] = _field(source, field.name, str(field.type))
    return values


def _raw_tensor(name: str, array: Array) -> Tensor:
    try:
        return torch.from_numpy(array.numpy().copy())
    except (TypeError, ValueError) as error:
        raise MalformedMessage(f"raw tensor {name!r} cannot be read: {error}") from error


def _record(content: RecordDict, name: str, kind: type[Any]) -> Any:
    record = content.get(name)
    if not isinstance(record, kind):
        raise MalformedMessage(f"record {name!r} is a {type(record).__name__}, it must be a {kind.__name__}")
    return record


def _field(record: Mapping[str, Any], name: str, annotation: str) -> Any:
    kind = {"str": str, "int": int, "float": float}[annotation]
    value = record.get(_key(name))
    if type(value) is not kind:
        raise MalformedMessage(f"field {_key(name)!r} is {value!r}, it must be a {kind.__name__}")
    return value
