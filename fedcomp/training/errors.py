"""What can go wrong while a client trains."""

from __future__ import annotations

from fedcomp.errors import FedcompError


class TrainingOutOfMemory(FedcompError):
    """A client's training does not fit into its memory; the message says what can be switched on."""
