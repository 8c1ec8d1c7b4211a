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

from fedcomp.downlink import ModelPart
from fedcomp.errors import PayloadError

PAYLOAD_STYPE = "fedcomp.payload"
PARTS = "parts"
"""The record of a request that holds the model's payloads."""
_PAYLOAD = "payload"
_NO_BASE = -1
_ARRAYS, _RAW, _CONFIG, _METRICS, _EXACT, _FAILURE = "arrays", "raw", "config", "metrics", "exact", "failure"


class MalformedMessage(PayloadError):
    """A message lacks a record or field that it must have, or holds one of the wrong kind."""


@dataclass(frozen=True)
class TrainRequest:
    """What the server sends to one client for one round.

    Attributes
    ----------
    parts
        Payloads that lead from the model the client holds to the one it is to train; none when it holds that one.
    raw
        The global model's integer and bool tensors.
    layout
        ``VectorSpec.fingerprint`` of the server's model.
    run, client, round_index
        Of which run, whom it is for, and in which round. In asynchronous mode ``round_index`` counts requests.
    version
        The model's version; in synchronous mode the number of rounds before it.
    compressor
        Spec string of the compressor for the reply.
    encode_seed, training_seed
        Seeds of the rotation and of shuffling and dropout.
    learning_rate, batch_size
        The client's step size and examples a step in this round.
    feedback
        Whether the client adds what earlier encodings lost, and keeps what this one loses.
    last_applied_round
        The last round whose payload of this client is part of the model; 0 for none.
    void_rounds
        First and last round of each stretch that was rolled back, flat: what was kept in those is void.
    replay_from
        No round at or before this one will be asked for again: older state may go.
    keeps_model
        Whether the client keeps the decoded model, for the next request's parts.
    wants_exact
        Whether the client also sends its update as it is, so that the mean estimate's error can be measured.
    """

    parts: tuple[ModelPart, ...]
    raw: Mapping[str, Tensor]
    layout: str
    run: str
    client: str
    round_index: int
    version: int
    compressor: str
    encode_seed: int
    training_seed: int
    learning_rate: float
    batch_size: int
    feedback: bool = False
    last_applied_round: int = 0
    void_rounds: tuple[int, ...] = ()
    replay_from: int = 0
    keeps_model: bool = False
    wants_exact: bool = False

    @property
    def void(self) -> list[tuple[int, int]]:
        """``void_rounds`` as pairs of first and last round."""
        return list(zip(self.void_rounds[::2], self.void_rounds[1::2], strict=True))

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        content = RecordDict({PARTS: ArrayRecord({str(i): blob(part.payload) for i, part in enumerate(self.parts)})})
        _add_raw(content, self.raw)
        values = _config_fields(self, skip=("parts", "raw", "void_rounds"))
        values["void-rounds"] = list(self.void_rounds)
        values["part-versions"] = [part.version for part in self.parts]
        values["part-bases"] = [_NO_BASE if part.base is None else part.base for part in self.parts]
        values["part-seeds"] = [part.seed for part in self.parts]
        content[_CONFIG] = ConfigRecord(values)
        return content

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        config = _record(content, _CONFIG, ConfigRecord)
        arrays = _record(content, PARTS, ArrayRecord)
        columns = [_integers(config, f"part-{name}") for name in ("versions", "bases", "seeds")]
        if any(len(column) != len(arrays) for column in columns):
            raise MalformedMessage(f"record {PARTS!r} has {len(arrays)} arrays, its fields {list(map(len, columns))}")
        parts = tuple(
            ModelPart(version, None if base == _NO_BASE else base, _unblob(arrays, str(i)), seed)
            for i, (version, base, seed) in enumerate(zip(*columns, strict=True))
        )
        values = {
            item.name: _field(config, item.name, str(item.type))
            for item in fields(cls)
            if item.name not in ("parts", "raw", "void_rounds")
        }
        void = tuple(_integers(config, "void-rounds"))
        if len(void) % 2:
            raise MalformedMessage(f"field 'void-rounds' is {void!r}, it must be pairs of first and last round")
        return cls(parts=parts, raw=_raw(content), void_rounds=void, **values)


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
    holds_version
        The version of the model that it keeps; -1 when it keeps none.
    num_examples
        The update's weight.
    train_loss, vnmse
        Mean training loss; error of this very encoding.
    train_seconds, encode_seconds
        Time taken.
    exact
        An ``identity`` payload of the update as trained, where the request wanted it; travels in a record of its own.
    """

    payload: bytes
    raw: Mapping[str, Tensor]
    client: str
    round_index: int
    device: str
    holds_version: int
    num_examples: float
    train_loss: float
    vnmse: float
    train_seconds: float
    encode_seconds: float
    exact: bytes = b""

    _METRIC_NAMES = ("num-examples", "train-loss", "vnmse", "train-seconds", "encode-seconds")

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        content = RecordDict({_ARRAYS: ArrayRecord({_PAYLOAD: blob(self.payload)})})
        _add_raw(content, self.raw)
        if self.exact:
            content[_EXACT] = ArrayRecord({_PAYLOAD: blob(self.exact)})
        values = _config_fields(self, skip=("payload", "raw", "exact"))
        content[_CONFIG] = ConfigRecord({key: value for key, value in values.items() if key not in self._METRIC_NAMES})
        content[_METRICS] = MetricRecord({key: float(values[key]) for key in self._METRIC_NAMES})
        return content

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        arrays = _record(content, _ARRAYS, ArrayRecord)
        if len(arrays) != 1:
            raise MalformedMessage(f"record {_ARRAYS!r} must hold one {PAYLOAD_STYPE} array, it holds {sorted(arrays)}")
        values: dict[str, Any] = {"payload": _unblob(arrays, _PAYLOAD), "raw": _raw(content), "exact": b""}
        config = _record(content, _CONFIG, ConfigRecord)
        metrics = _record(content, _METRICS, MetricRecord)
        for item in fields(cls):
            if item.name not in values:
                source = metrics if _key(item.name) in cls._METRIC_NAMES else config
                values[item.name] = _field(source, item.name, str(item.type))
        return cls(**values)


@dataclass(frozen=True)
class ClientQuery:
    """The server's question who a client is.

    Attributes
    ----------
    run
        For which run; the client says which model of it it keeps.
    request_id
        What a sealed answer must name, 32 hexadecimal digits; empty when answers are plain.
    """

    run: str
    request_id: str = ""

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return RecordDict({_CONFIG: ConfigRecord(_config_fields(self))})

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        record = _record(content, _CONFIG, ConfigRecord)
        return cls(**{item.name: _field(record, item.name, str(item.type)) for item in fields(cls)})


@dataclass(frozen=True)
class ClientDescription:
    """What a client says of itself when asked.

    Attributes
    ----------
    client
        Its name, stable over runs and restarts; seeds and state go by it.
    partition_id, num_partitions
        Which part of the task's data it holds, and of how many.
    device, version
        Where it trains, and the version of fedcomp it runs.
    bits, uplink_mbps, max_bits
        What the site's profile asks for, and what it allows at most; 0 when it does not say.
    holds_version
        The version of the run's model that it keeps; -1 when it keeps none.
    simulated
        Whether it shares a machine with the server, so that no bandwidth can be measured.
    """

    client: str
    partition_id: int
    num_partitions: int
    device: str
    version: str
    bits: float = 0.0
    uplink_mbps: float = 0.0
    max_bits: float = 0.0
    holds_version: int = -1
    simulated: bool = False

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return RecordDict({_CONFIG: ConfigRecord(_config_fields(self))})

    @classmethod
    def from_record(cls, content: RecordDict) -> Self:
        """Read a message's content; raises MalformedMessage."""
        record = _record(content, _CONFIG, ConfigRecord)
        return cls(**{item.name: _field(record, item.name, str(item.type)) for item in fields(cls)})


@dataclass(frozen=True)
class ClientFailure:
    """What a client says when it failed and its words are sealed; plain ones go as Flower's own error replies.

    Attributes
    ----------
    reason
        The error's class and message.
    """

    reason: str

    def to_record(self) -> RecordDict:
        """Return the message's content."""
        return RecordDict({_FAILURE: ConfigRecord(_config_fields(self))})

    @classmethod
    def find(cls, content: RecordDict) -> Self | None:
        """Return the failure that a content tells of, or None; raises MalformedMessage."""
        if _FAILURE not in content:
            return None
        return cls(reason=_field(_record(content, _FAILURE, ConfigRecord), "reason", "str"))


def take_exact(content: RecordDict) -> bytes:
    """Take the update as it is out of a reply, and return it; empty when there is none, or none that can be read.

    What is left is what would have travelled without the measurement, to the byte; of a sealed reply 15 bytes more.
    """
    record = content.pop(_EXACT, None)
    array = record.get(_PAYLOAD) if isinstance(record, ArrayRecord) else None
    return b"" if array is None else array.data


def message_bytes(message: Message) -> int:
    """Return the bytes of the objects that make up the message on the wire, each once, as Flower stores them."""
    return sum(len(item.deflate()) for item in get_all_nested_objects(message).values())


def _config_fields(item: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    return {_key(field.name): getattr(item, field.name) for field in fields(item) if field.name not in skip}


def _key(name: str) -> str:
    return name.replace("_", "-")


def blob(payload: bytes) -> Array:
    """Return the array that carries a payload."""
    return Array(dtype="uint8", shape=(len(payload),), stype=PAYLOAD_STYPE, data=payload)


def _unblob(arrays: ArrayRecord, name: str) -> bytes:
    array = arrays.get(name)
    if array is None or array.stype != PAYLOAD_STYPE:
        kinds = {key: item.stype for key, item in arrays.items()}
        raise MalformedMessage(f"a {PAYLOAD_STYPE} array {name!r} is missing, there are {kinds}")
    return array.data


def _add_raw(content: RecordDict, raw: Mapping[str, Tensor]) -> None:
    if raw:
        content[_RAW] = ArrayRecord({name: Array(tensor.cpu().numpy()) for name, tensor in raw.items()})


def _raw(content: RecordDict) -> dict[str, Tensor]:
    if _RAW not in content:
        return {}
    return {name: _raw_tensor(name, array) for name, array in _record(content, _RAW, ArrayRecord).items()}


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
    kind = {"str": str, "int": int, "float": float, "bool": bool}[annotation]
    value = record.get(_key(name))
    if type(value) is not kind:
        raise MalformedMessage(f"field {_key(name)!r} is {value!r}, it must be a {kind.__name__}")
    return value


def _integers(record: Mapping[str, Any], key: str) -> list[int]:
    value = record.get(key)
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise MalformedMessage(f"field {key!r} is {value!r}, it must be a list of integers")
    return value
