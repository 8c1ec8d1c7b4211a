"""Downlink compression: one payload a version, the same for all clients, from which all decode the same model.

The server keeps the copy that the clients hold. A new version is the encoded difference between model and copy:

    copy[v] = copy[v-1] + decode(encode(model[v] - copy[v-1]))

With ``e = model - copy``, what encodings have lost so far, the next difference ``model[v] - copy[v-1]`` is the step
``model[v] - model[v-1]`` plus ``e[v-1]``: what one encoding loses is sent with the next. That is error feedback at the
server (Tang, Yu, Lian, Zhang, Liu, "DoubleSqueeze", ICML 2019, arXiv 1905.05957; Gruntkowska, Tyurin, Richtárik,
"EF21-P and friends", ICML 2023, arXiv 2209.15218).

An encoding with vNMSE q leaves the copy at q/(1-q) of a step's energy when the steps are independent, so take
``scale=mmse`` here. Measured over 30 steps with ``eden``: 0.58 instead of 1.39 at 1 bit, 0.135 instead of 0.156 at 2,
the same at 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedcomp.compressors.base import Compressor, Shapes
from fedcomp.compressors.identity import Identity
from fedcomp.compressors.registry import decode
from fedcomp.errors import CheckpointError, ConfigError, DimMismatch, FedcompError, NonFinite, PayloadError
from fedcomp.feedback import check_it_converges
from fedcomp.seeds import SEED_LIMIT
from fedcomp.wire import HEADER_BYTES

ASK_FOR_WHOLE = "ask for a whole model"
"""Ends the message of MissingVersion: of a client's error Flower hands on the words, not always the class."""


class NothingPublished(FedcompError):
    """A model was asked for before the first one was published."""


class MissingVersion(FedcompError):
    """The parts begin with a difference to a version that the client does not hold; it must ask for a whole model."""


class BrokenChain(PayloadError):
    """Model parts do not follow each other, or name an impossible version or seed."""


@dataclass(frozen=True)
class ModelPart:
    """One payload on the way to a version of the model.

    Attributes
    ----------
    version
        The version that a client holds after it.
    base
        The version that ``payload`` is a difference to; None when it replaces whatever the client holds.
    payload
        The encoded vector.
    seed
        What it was encoded with.
    """

    version: int
    base: int | None
    payload: bytes
    seed: int


@dataclass(frozen=True)
class _Published:
    version: int
    seed: int
    copy: Tensor


class Broadcaster:
    """The server's side: encodes each version once and knows the shortest way to it from any other.

    Guarantee: all ways lead to the same bits, on every machine, since decoding and float32 addition are exact
    operations in a fixed order. Memory: the copy, one exact payload of it once that is asked for, and earlier payloads
    that are together shorter than the exact one.

    Parameters
    ----------
    compressor
        For differences. With ``identity`` every version is full and exact, and only the latest is kept.
    full
        For the first version, which has nothing to differ from; ``identity`` makes it exact.
    shapes
        The tensors' shapes, as for ``Compressor.encode``; None when they are not known.

    Raises
    ------
    ConfigError
        When ``compressor`` adds more error than it takes away, as unbiased schemes do at low rates: with error
        feedback the copy would run away from the model.

    >>> import torch
    >>> from fedcomp import compressor
    >>> server = Broadcaster(compressor("eden:bits=4"), full=compressor("eden:bits=8"), shapes=None)
    >>> model = torch.linspace(-1, 1, 4096)
    >>> server.publish(model, version=0, seed=1)
    >>> server.publish(model + 0.01, version=1, seed=2)
    >>> [(part.version, part.base) for part in server.parts_for(None)]
    [(0, None), (1, 0)]
    >>> held = receive(server.parts_for(None), held_version=None, held=None, dim=4096)
    >>> torch.equal(held, server.copy)
    True
    """

    def __init__(self, compressor: Compressor, *, full: Compressor, shapes: Shapes | None) -> None:
        self._always_exact = isinstance(compressor, Identity)
        check_it_converges(compressor, use="downlink-compressor")
        self._compressor, self._full = compressor, full
        self._shapes = None if shapes is None else [tuple(shape) for shape in shapes]
        self._latest: _Published | None = None
        # Parts that lead to the current version, each from the one before; only the first may be a full one. Together
        # they are shorter than the exact payload.
        self._chain: list[ModelPart] = []
        self._exact: ModelPart | None = None

    @property
    def version(self) -> int | None:
        """The version published last; None before the first."""
        return None if self._latest is None else self._latest.version

    @property
    def copy(self) -> Tensor:
        """What a client that received everything holds, float32 of shape (dim,); a clone.

        Raises
        ------
        NothingPublished
            Before the first version.
        """
        return self._published().copy.clone()

    def publish(self, model: Tensor, *, version: int, seed: int) -> None:
        """Encode ``model``, 1-D, as the next version; it is not changed.

        A model that equals the last one is fine: its payload holds what earlier ones lost. Cost: one encoding and one
        decoding, on the CPU.

        Raises
        ------
        ConfigError
            When ``version`` is not above the last one, or ``model`` is no 1-D float vector.
        DimMismatch
            When ``model`` has another dim than the last one.
        NonFinite
            When it holds a NaN or an infinity, or is too large for its difference to the copy to be encoded.
        TypeError, ValueError
            When the seed is not an integer in [0, 2**64).

        After an error the broadcaster is as it was.
        """
        lowest = 0 if self._latest is None else self._latest.version + 1
        if version < lowest:
            raise ConfigError(f"model version is {version}; allowed: {lowest} and above, each once and in order")
        wanted = model.detach().to("cpu", torch.float32)
        if self._latest is not None and self._latest.copy.shape != wanted.shape:
            raise DimMismatch(
                f"model has shape {tuple(wanted.shape)}, earlier versions {tuple(self._latest.copy.shape)}; use one "
                "Broadcaster a model"
            )
        part, copy = self._encode(wanted, version=version, seed=seed)
        chain = [part] if part.base is None else [*self._chain, part]
        longest = _exact_bytes(copy.numel())
        while sum(len(item.payload) for item in chain) >= longest:
            chain.pop(0)
        self._latest, self._chain = _Published(version, seed, copy), chain
        self._exact = part if not chain and part.base is None else None

    def parts_for(self, held: int | None) -> list[ModelPart]:
        """Return the parts with the fewest bytes that take a client from the version it holds to the current one.

        In the order of their bytes: the differences since ``held``; the first version and all differences since; one
        exact float32 payload. The first way that there is, is taken. A version that is unknown, too old or newer than
        the current one is as good as none.

        Raises
        ------
        NothingPublished
            Before the first version.
        """
        latest = self._published()
        if held == latest.version:
            return []
        for index, part in enumerate(self._chain):
            if part.base == held:
                return self._chain[index:]
        if self._chain and self._chain[0].base is None:
            return list(self._chain)
        if self._exact is None:
            payload = Identity().encode(latest.copy, seed=latest.seed)
            self._exact = ModelPart(latest.version, None, payload, latest.seed)
        return [self._exact]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what ``restore`` needs: tensors (the copy, the payloads' bytes) and a mapping that JSON can hold."""
        if self._latest is None:
            return {}, {"version": None, "seed": None, "parts": []}
        tensors = {"copy": self._latest.copy.clone()}
        for part in self._chain:
            tensors[_tensor_name(part.version)] = torch.frombuffer(bytearray(part.payload), dtype=torch.uint8)
        # Seeds as text: they have 64 bits, and many readers of JSON keep 53.
        parts = [{"version": part.version, "base": part.base, "seed": str(part.seed)} for part in self._chain]
        return tensors, {"version": self._latest.version, "seed": str(self._latest.seed), "parts": parts}

    def restore(self, tensors: Mapping[str, Tensor], mapping: Mapping[str, Any]) -> None:
        """Take over what ``state`` returned; the same payloads come out from then on.

        Raises
        ------
        CheckpointError
            When something is missing or does not fit together; the broadcaster is then as it was.
        """
        try:
            latest = None
            if mapping["version"] is not None:
                latest = _Published(mapping["version"], int(mapping["seed"]), tensors["copy"].clone())
            chain = [
                ModelPart(
                    part["version"],
                    part["base"],
                    tensors[_tensor_name(part["version"])].numpy().tobytes(),
                    int(part["seed"]),
                )
                for part in mapping["parts"]
            ]
            _check_order(chain)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"downlink state cannot be used: {error!r}; use an earlier checkpoint") from error
        if latest is not None and not _is_vector(latest.copy):
            raise CheckpointError(
                f"downlink copy is {latest.copy.dtype} of shape {tuple(latest.copy.shape)}, not a float32 vector; use "
                "an earlier checkpoint"
            )
        if chain and (latest is None or chain[-1].version != latest.version):
            raise CheckpointError(
                f"downlink parts end at version {chain[-1].version}, the copy is of {mapping['version']}; use an "
                "earlier checkpoint"
            )
        self._latest, self._chain, self._exact = latest, chain, None

    def _encode(self, wanted: Tensor, *, version: int, seed: int) -> tuple[ModelPart, Tensor]:
        """Return the part for ``wanted`` and the copy after it."""
        if not self._always_exact:
            if self._latest is None:
                payload = self._full.encode(wanted, seed=seed, shapes=self._shapes)
                part = ModelPart(version, None, payload, seed)
            else:
                payload = self._compressor.encode(wanted - self._latest.copy, seed=seed, shapes=self._shapes)
                part = ModelPart(version, self._latest.version, payload, seed)
            if len(payload) < _exact_bytes(wanted.numel()):
                return part, _apply(part, None if self._latest is None else self._latest.copy, dim=wanted.numel())
        # An encoding as long as the vector itself is not worth an error.
        return ModelPart(version, None, Identity().encode(wanted, seed=seed), seed), wanted.clone()

    def _published(self) -> _Published:
        if self._latest is None:
            raise NothingPublished("no version of the model has been published; call publish first")
        return self._latest


def receive(
    parts: Sequence[ModelPart],
    *,
    held_version: int | None,
    held: Tensor | None,
    dim: int,
    device: str | torch.device = "cpu",
) -> Tensor:
    """Apply model parts to what a client holds and return the model, float32 of shape (dim,) on ``device``.

    Parts that lead to ``held_version`` are skipped, so a client may hold more than the server knew when it chose them.
    Decoding is done on the CPU, so that all clients get the same bits. ``held`` is not changed; one of another dim or
    dtype counts as none.

    Parameters
    ----------
    parts
        From ``Broadcaster.parts_for``; none when the server knows that the client is up to date.
    held_version, held
        What the client holds, float32 of shape (dim,); None when it holds nothing.
    dim
        Coordinates of the client's own model.
    device
        Where the result is wanted.

    Raises
    ------
    MissingVersion
        When the parts do not begin with a full one and the client holds none of the versions on their way.
    BrokenChain
        When the parts do not follow each other.
    PayloadError
        When one of the payloads cannot be used, or NonFinite when their sum is not finite.
    """
    _check_order(parts)
    copy = held.detach().to("cpu") if held is not None and _is_vector(held) and held.numel() == dim else None
    on_the_way = [part.base for part in parts[:1]] + [part.version for part in parts]
    if copy is not None and held_version is not None and held_version in on_the_way:
        parts = parts[on_the_way.index(held_version) :]
    elif parts and parts[0].base is None:
        copy = None
    elif parts or copy is None:
        sent = f"a difference to version {parts[0].base}" if parts else "nothing, as to a client that is up to date"
        has = f"no model of dim {dim}" if copy is None else f"version {held_version}"
        raise MissingVersion(f"the server sent {sent}, this client holds {has}; {ASK_FOR_WHOLE}")
    for part in parts:
        copy = _apply(part, copy, dim=dim)
    if copy is None:
        raise MissingVersion(f"there is no model and nothing to make one of; {ASK_FOR_WHOLE}")
    return copy.to(device, copy=True)


def _apply(part: ModelPart, copy: Tensor | None, *, dim: int) -> Tensor:
    """Return the copy after a part, on the CPU; server and client both come here, so both have the same bits."""
    decoded = decode(part.payload, seed=part.seed, expected_dim=dim)
    result = decoded if part.base is None or copy is None else copy + decoded
    if not bool(torch.isfinite(result).all()):
        index = int((~torch.isfinite(result)).to(torch.uint8).argmax())
        raise NonFinite(f"model version {part.version} has {float(result[index])} at coordinate {index}; do not use it")
    return result


def _check_order(parts: Sequence[ModelPart]) -> None:
    """Raise BrokenChain unless each part builds on the one before; the first may build on anything earlier."""
    for index, part in enumerate(parts):
        before = parts[index - 1].version if index else part.base
        if part.base != before or part.version < 0 or (before is not None and not 0 <= before < part.version):
            raise BrokenChain(
                f"model part {index} leads from version {part.base} to {part.version}; allowed: from {before}, or from "
                f"none if it is the first, to a later one; {ASK_FOR_WHOLE}"
            )
        if not 0 <= part.seed < SEED_LIMIT:
            raise BrokenChain(f"model part {index} has seed {part.seed}; allowed: integers in [0, 2**64)")


def _is_vector(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.dim() == 1


def _exact_bytes(dim: int) -> int:
    return HEADER_BYTES + 4 * dim


def _tensor_name(version: int) -> str:
    return f"part-{version}"
