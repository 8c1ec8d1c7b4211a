"""Access tokens of the dashboard: 256 random bits, of which the database keeps a digest.

A digest without salt is enough for a secret that nobody can guess; it lets the database find the row by it.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.errors import TokenNotFound
from dashboard.models import Token
from dashboard.schemas import UtcTime
from fedcomp.errors import ConfigError

Scope = Literal["read", "write"]
PREFIX = "fedcomp_"
_LONGEST_NAME = 100


class TokenInfo(BaseModel):
    """What is known of a token; the token itself is not."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)

    id: str
    name: str
    scope: Scope
    created_at: UtcTime
    expires_at: UtcTime | None
    last_used_at: UtcTime | None
    revoked_at: UtcTime | None

    def is_valid(self) -> bool:
        """Return whether the token opens anything now: it was not revoked and has not expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > datetime.now(UTC))


def create_token(
    session: Session, name: str, scope: Scope, *, valid_for: timedelta | None = None
) -> tuple[str, TokenInfo]:
    """Add a token and return its text, which is told this once, and what is kept of it. Raises ``ConfigError``."""
    name = name.strip()
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ConfigError(f"token name {name[:_LONGEST_NAME]!r}: a name has 1 to {_LONGEST_NAME} printable characters")
    if scope not in get_args(Scope):
        raise ConfigError(f"scope={scope!r}: a token's scope is {' or '.join(get_args(Scope))}")
    if valid_for is not None and valid_for <= timedelta():
        raise ConfigError(f"valid_for={valid_for}: give a time above zero, or None for a token that does not expire")
    now = datetime.now(UTC)
    text = PREFIX + secrets.token_urlsafe(32)
    token = Token(
        id=secrets.token_hex(4),
        name=name,
        scope=scope,
        digest=_digest(text),
        created_at=now,
        expires_at=None if valid_for is None else now + valid_for,
    )
    session.add(token)
    session.flush()
    return text, TokenInfo.model_validate(token)


def check_token(session: Session, text: str) -> TokenInfo | None:
    """Return what is known of a token that is valid now, or None; reads only."""
    return _valid(session.scalars(select(Token).where(Token.digest == _digest(text))).one_or_none())


def valid_token(session: Session, token_id: str) -> TokenInfo | None:
    """Return what is known of the token with this id if it is valid now, or None; reads only."""
    return _valid(session.get(Token, token_id))


def note_use(session: Session, token_id: str) -> None:
    """Remember that a token was used now; callers need not do this at every request."""
    token = session.get(Token, token_id)
    if token is not None:
        token.last_used_at = datetime.now(UTC)


def list_tokens(session: Session) -> list[TokenInfo]:
    """Return all tokens, the oldest first, revoked and expired ones too."""
    return [
        TokenInfo.model_validate(token) for token in session.scalars(select(Token).order_by(Token.created_at, Token.id))
    ]


def revoke_token(session: Session, token_id: str) -> None:
    """Make a token invalid from now on; the first time stays. Raises ``TokenNotFound``."""
    token = session.get(Token, token_id)
    if token is None:
        raise TokenNotFound(token_id)
    token.revoked_at = token.revoked_at or datetime.now(UTC)


def _valid(token: Token | None) -> TokenInfo | None:
    if token is None:
        return None
    info = TokenInfo.model_validate(token)
    return info if info.is_valid() else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
