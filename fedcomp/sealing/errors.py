"""Why a sealed message was refused: one class a reason."""

from __future__ import annotations

from fedcomp.errors import ConfigError, PayloadError


class SealingError(PayloadError):
    """Base class: a message cannot be trusted, and nothing in it was used."""


class NotSealed(SealingError):
    """A message is plain where only sealed ones are taken."""


class UnsupportedSeal(SealingError):
    """A sealed message has a format version that this release does not read."""


class Altered(SealingError):
    """A message was changed on its way, cut short, or sealed with other keys than the pinned ones."""


class WrongDirection(SealingError):
    """A message is of another kind: a reply where a request was awaited, for instance."""


class WrongRun(SealingError):
    """A message belongs to another run."""


class WrongSite(SealingError):
    """A message belongs to another site."""


class WrongRound(SealingError):
    """A message belongs to another round."""


class WrongSettings(SealingError):
    """The run's settings at the site are not those at the server."""


class Replayed(SealingError):
    """A message was seen before, is too old, or answers another request."""


class UnknownSite(SealingError):
    """A site has no key in the server's roster; keys are never learned from a message."""


class TooLongToSeal(SealingError):
    """A message is longer than the cipher takes."""


class SealingKeyError(ConfigError):
    """A key or a roster of keys is missing, or cannot be used."""
