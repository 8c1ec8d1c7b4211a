from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from dashboard.errors import TokenNotFound
from dashboard.models import Token
from dashboard.store import RunStore
from dashboard.tokens import (
    PREFIX,
    Scope,
    TokenInfo,
    check_token,
    create_token,
    list_tokens,
    note_use,
    revoke_token,
    valid_token,
)
from fedcomp.errors import ConfigError


def made(store: RunStore, name: str = "laptop", scope: Scope = "read") -> tuple[str, TokenInfo]:
    with store.writing() as session:
        return create_token(session, name, scope)


def checked(store: RunStore, text: str) -> TokenInfo | None:
    with store.reading() as session:
        return check_token(session, text)


def kept(store: RunStore, info: TokenInfo) -> TokenInfo | None:
    with store.reading() as session:
        return valid_token(session, info.id)


def test_a_token_is_known_by_its_text(store: RunStore) -> None:
    text, info = made(store, " laptop ")
    assert text.startswith(PREFIX)
    assert len(text) > 40
    assert text != made(store)[0]
    assert checked(store, text) == info
    assert (info.name, info.scope, info.expires_at) == ("laptop", "read", None)


@pytest.mark.parametrize("text", ["", "fedcomp_", "x" * 10_000, "\ud800", "ü", "%", "\0"])
def test_any_other_text_is_no_token(store: RunStore, text: str) -> None:
    made(store)
    assert checked(store, text) is None


def test_the_database_does_not_hold_it(store: RunStore) -> None:
    text, _ = made(store)
    with store.reading() as session:
        row = session.scalars(select(Token)).one()
        everything = " ".join(str(getattr(row, column.key)) for column in Token.__table__.columns)
    assert text not in everything
    assert text.removeprefix(PREFIX) not in everything


def test_a_revoked_token_is_none(store: RunStore) -> None:
    text, info = made(store)
    with store.writing() as session:
        revoke_token(session, info.id)
    assert checked(store, text) is None
    with store.writing() as session, pytest.raises(TokenNotFound, match="'nobody'"):
        revoke_token(session, "nobody")
    assert kept(store, info) is None
    with store.reading() as session:
        assert [item.is_valid() for item in list_tokens(session)] == [False]


def test_an_expired_token_is_none(store: RunStore) -> None:
    with store.writing() as session:
        text, info = create_token(session, "short", "read", valid_for=timedelta(hours=1))
    assert checked(store, text) == kept(store, info) == info
    with store.writing() as session:
        session.get_one(Token, info.id).expires_at = datetime.now(UTC) - timedelta(seconds=1)
    assert checked(store, text) is kept(store, info) is None
    with store.reading() as session:
        assert [item.is_valid() for item in list_tokens(session)] == [False]


def test_use_is_remembered(store: RunStore) -> None:
    text, info = made(store)
    with store.writing() as session:
        note_use(session, info.id)
        note_use(session, "nobody")
    found = checked(store, text)
    assert found is not None
    assert found.last_used_at is not None


def test_what_is_wrong_is_named(store: RunStore) -> None:
    with store.writing() as session:
        for name in ("", " ", "x" * 101, "a\nb"):
            with pytest.raises(ConfigError, match="token name"):
                create_token(session, name, "read")
        with pytest.raises(ConfigError, match="scope='admin'"):
            create_token(session, "a", "admin")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="above zero"):
            create_token(session, "a", "read", valid_for=timedelta())
    with store.reading() as session:
        assert list_tokens(session) == []
