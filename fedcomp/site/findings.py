"""What a check found: one line that says what, whether it is well, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended; a note is for information, and what was not checked has its reason in another line."""

    OK = "ok"
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Finding:
    """One line of ``fedcomp site check``.

    Attributes
    ----------
    what
        Which check, in a word or two.
    verdict
        How it ended.
    says
        What was found, and what to do about it.
    """

    what: str
    verdict: Verdict
    says: str

    def __str__(self) -> str:
        return f"{self.verdict:<5}  {self.what:<15}  {self.says}"


def ok(what: str, says: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(what, Verdict.OK, says)


def note(what: str, says: str) -> Finding:
    """Return a finding worth knowing."""
    return Finding(what, Verdict.NOTE, says)


def wrong(what: str, says: str) -> Finding:
    """Return a finding that keeps the site from working as its profile says."""
    return Finding(what, Verdict.WRONG, says)
