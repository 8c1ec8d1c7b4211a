"""What people change about runs: names, tags, notes, whether they are archived; each in a session that writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.errors import RunInUse
from dashboard.models import RunTag
from fedcomp.errors import ConfigError

LONGEST_NAME = 200
LONGEST_TAG = 50
MOST_TAGS = 50
LONGEST_NOTE = 20_000


def set_tags(session: Session, run_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Replace a run's tags and return them as kept: without blanks around them, each once, sorted.

    Raises
    ------
    RunNotFound
        There is no such run.
    ConfigError
        A tag is empty, longer than 50 characters, or holds a comma or a control character; or there are more than 50.
    """
    run = queries.existing(session, run_id, lock=True)
    kept = sorted({tag.strip() for tag in tags})
    for tag in kept:
        if not 1 <= len(tag) <= LONGEST_TAG or "," in tag or not tag.isprintable():
            raise ConfigError(f"tag {tag!r}: a tag has 1 to {LONGEST_TAG} printable characters and no comma")
    if len(kept) > MOST_TAGS:
        raise ConfigError(f"{len(kept)} tags: a run has {MOST_TAGS} at most")
    session.execute(delete(RunTag).where(RunTag.run_id == run.id))
    if kept:
        session.execute(insert(RunTag), [{"run_id": run.id, "tag": tag} for tag in kept])
    return tuple(kept)


def set_note(session: Session, run_id: str, note: str) -> None:
    """Set a run's note (20,000 characters at most); blanks take it away. Raises ``RunNotFound``, ``ConfigError``."""
    if len(note) > LONGEST_NOTE or "\0" in note:
        raise ConfigError(f"a note of {len(note)} characters: {LONGEST_NOTE} at most, and no null character")
    queries.existing(session, run_id, lock=True).note = note.strip() or None


def rename(session: Session, run_id: str, name: str) -> None:
    """Give a run another name; others may have the same. Raises ``RunNotFound`` or ``ConfigError``."""
    name = name.strip()
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise ConfigError(f"name {name[: LONGEST_NAME + 1]!r}: a name has 1 to {LONGEST_NAME} printable characters")
    queries.existing(session, run_id, lock=True).name = name


def archive(session: Session, run_id: str, *, archived: bool) -> None:
    """Put a run away, or take it out again; the first time stays. Raises ``RunNotFound``."""
    run = queries.existing(session, run_id, lock=True)
    run.archived_at = (run.archived_at or datetime.now(UTC)) if archived else None


def delete_run(session: Session, run_id: str) -> None:
    """Delete a run with its rounds, clients and tags; its checkpoints stay on the server's disk.

    Raises
    ------
    RunNotFound
        There is no such run.
    RunInUse
        It is queued or running; an orphaned run can be deleted.
    """
    run = queries.existing(session, run_id, lock=True)
    (summary,) = queries.summaries(session, [run])
    if summary.shown_status in ("queued", "running"):
        raise RunInUse(run_id, summary.shown_status)
    session.delete(run)
