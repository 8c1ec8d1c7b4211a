"""What can go wrong when a run is looked up, changed or asked to stop."""

from __future__ import annotations

from collections.abc import Sequence

from fedcomp.errors import FedcompError

_NAMED = 10


class RunNotFound(FedcompError, LookupError):
    """No run fits the reference; the message names it."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"no run {reference!r}: give a run's id, the start of an id, a run's name, or 'latest'")
        self.reference = reference


class AmbiguousRun(FedcompError, LookupError):
    """Several run ids begin with the reference; `candidates` holds them, newest first, and the message names them."""

    def __init__(self, reference: str, candidates: Sequence[str]) -> None:
        more = f" and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
        named = ", ".join(candidates[:_NAMED])
        super().__init__(f"{reference!r} fits {len(candidates)} runs: {named}{more}; give more of the id")
        self.reference = reference
        self.candidates = tuple(candidates)


class RunEnded(FedcompError):
    """A run that is neither queued nor running was asked to stop; `status` is what it is."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"run {run_id} is {status} already: only a queued or running run can be asked to stop")
        self.run_id = run_id
        self.status = status


class BadCursor(FedcompError, LookupError):
    """A page was asked for after a run that is not there."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"cursor {cursor!r} names no run; begin again without a cursor")


class RunInUse(FedcompError):
    """A run that is queued or running was to be deleted; `status` is what it is."""

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"run {run_id} is {status}: stop it first; only a run that has ended can be deleted")
        self.run_id = run_id
        self.status = status


class TokenNotFound(FedcompError, LookupError):
    """There is no such access token."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f"no token {token_id!r}: list the tokens to see their ids")
