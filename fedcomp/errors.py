"""One error class per failure; each message names the value, what is allowed and what to do.

Everything derives from :class:`FedcompError`. What can be wrong with a client's payload derives from
:class:`PayloadError`, so that a server rejects one client with a single ``except`` and the round goes on.
"""

from __future__ import annotations


class FedcompError(Exception):
    """Base class of every error that fedcomp raises on purpose."""


class ConfigError(FedcompError, ValueError):
    """A setting or spec string is wrong; the message names the key, the value and what is allowed."""


class VectorSpecError(FedcompError, ValueError):
    """A state dict does not fit its VectorSpec, or holds a tensor that cannot be sent."""


class EmptyMean(FedcompError):
    """A mean was asked for before anything with a positive weight was added."""


class CheckpointError(FedcompError):
    """A checkpoint could not be written or read; the last good one is untouched."""


class PayloadError(FedcompError, ValueError):
    """Base class: a payload, or the weight sent with it, cannot be used."""


class BadMagic(PayloadError):
    """The bytes do not begin like a fedcomp payload."""


class UnsupportedVersion(PayloadError):
    """The payload's format version is not one this release reads."""


class UnknownScheme(PayloadError):
    """The payload names a scheme this release does not have."""


class Truncated(PayloadError):
    """The payload is shorter than its header says."""


class TrailingBytes(PayloadError):
    """The payload is longer than its header says."""


class DimMismatch(PayloadError):
    """The payload's dim is not the expected one, or larger than allowed."""


class ChecksumMismatch(PayloadError):
    """The payload was altered or damaged on its way."""


class SeedMismatch(PayloadError):
    """The payload was encoded with another seed."""


class InvalidParams(PayloadError):
    """The scheme's parameters in the header are impossible or contradict the payload's length."""


class NonFinite(PayloadError):
    """A NaN or an infinity where only finite numbers are allowed."""


class InvalidWeight(PayloadError):
    """A client's weight is NaN, infinite, negative or absurdly large."""
