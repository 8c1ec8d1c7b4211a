"""From a spec string to a compressor, and from payload bytes back to a vector."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from fedcomp.compressors.base import COORDINATES_PER_BYTE, Compressor
from fedcomp.compressors.catalogue import SCHEMES, Scheme, available_compressors
from fedcomp.config import Spec, Value, parse_spec
from fedcomp.errors import ConfigError, InvalidParams, UnknownScheme
from fedcomp.wire import HEADER_BYTES, MAX_DIM, Buffer, Header, unpack


def compressor(spec: str, **options: Value) -> Compressor:
    """Map a spec string to a compressor; ``compressor("eden", bits=2)`` equals ``compressor("eden:bits=2")``.

    Raises
    ------
    ConfigError
        When the name or an option is unknown or a value is not allowed; it names the key, the value and what is.
    """
    parsed = parse_spec(spec)
    doubled = parsed.options.keys() & options.keys()
    if doubled:
        raise ConfigError(f"compressor {spec!r}: {', '.join(sorted(doubled))} is given twice; give it once")
    for scheme in SCHEMES:
        if scheme.name == parsed.name:
            return _load(scheme).from_spec(Spec(parsed.name, {**parsed.options, **options}))
    raise ConfigError(f"unknown compressor {parsed.name!r}; available: {', '.join(available_compressors())}")


def decode(
    payload: Buffer,
    *,
    seed: int,
    device: str | torch.device = "cpu",
    expected_dim: int | None = None,
    max_dim: int = MAX_DIM,
) -> Tensor:
    """Map payload bytes to the vector estimate, a 1-D float32 tensor on ``device``.

    Depends on the bytes and the seed only. Everything is checked before anything of the size of dim is allocated.

    Parameters
    ----------
    payload
        What ``Compressor.encode`` returned.
    seed
        The seed it was encoded with.
    device
        Where the result is wanted.
    expected_dim
        When given, any other dim is refused.
    max_dim
        A header that claims more is refused; default 2**33.

    Raises
    ------
    PayloadError
        The subclass says what is wrong with the payload.
    """
    scheme, header, body = _open(payload, seed=seed, expected_dim=expected_dim, max_dim=max_dim)
    return scheme.decode_body(header, body, seed=seed, device=torch.device(device))


def accumulate(payload: Buffer, *, seed: int, into: Tensor, weight: float) -> None:
    """Add ``weight`` times the vector estimate to ``into``, a float64 tensor that gives dim and device.

    The same bits as ``into.add_(decode(payload, …), alpha=weight)``, without the decoded vector where a scheme can.

    Raises
    ------
    PayloadError
        As ``decode``, for a dim other than that of ``into`` too; ``into`` is then exactly as it was.
    """
    scheme, header, body = _open(payload, seed=seed, expected_dim=into.numel(), max_dim=MAX_DIM)
    scheme.accumulate_body(header, body, seed=seed, into=into, weight=weight)


def _open(
    payload: Buffer, *, seed: int, expected_dim: int | None, max_dim: int
) -> tuple[type[Compressor], Header, memoryview]:
    """Return the payload's scheme, its header and its body; dim is believable."""
    header, body = unpack(payload, seed=seed, expected_dim=expected_dim, max_dim=max_dim)
    size = HEADER_BYTES + len(header.params) + len(body)
    if header.dim > COORDINATES_PER_BYTE * size:
        raise InvalidParams(
            f"payload of {size} bytes claims {header.dim} coordinates; allowed: at most {COORDINATES_PER_BYTE} a byte"
        )
    for scheme in SCHEMES:
        if scheme.number == header.scheme:
            return _load(scheme), header, body
    numbers = ", ".join(f"{scheme.number} ({scheme.name})" for scheme in SCHEMES)
    raise UnknownScheme(f"payload has scheme number {header.scheme}, this release knows {numbers}; align versions")


def _load(scheme: Scheme) -> type[Compressor]:
    loaded: type[Compressor] = getattr(importlib.import_module(scheme.module), scheme.class_name)
    return loaded
