"""Who may do what: tokens in a header or behind a signed cookie, CSRF values in forms, and a limit on wrong tries."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass

from fastapi import Request
from itsdangerous import BadSignature, URLSafeTimedSerializer
from sqlalchemy.orm import Session
from starlette.responses import Response

from dashboard.tokens import Scope, TokenInfo, check_token, valid_token
from fedcomp.errors import FedcompError

COOKIE = "fedcomp_session"
SESSION_SECONDS = 14 * 24 * 3600
TRIES = 5
TRY_SECONDS = 60.0
_MOST_ADDRESSES = 10_000


class NotAllowed(FedcompError):
    """A request is refused; `status` is the HTTP status that says so."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True)
class Visit:
    """A browser's session: a random id, and the token it logged in with, if it did."""

    id: str
    token_id: str | None = None


@dataclass(frozen=True)
class Access:
    """What a request may do; `by` says who asks, for people."""

    scope: Scope
    by: str
    with_header: bool = False

    def allows(self, scope: Scope) -> bool:
        """Return whether this may be done; who may write may read."""
        return self.scope == "write" or scope == "read"


class Attempts:
    """Counts wrong tokens by address: after five within a minute, further tries are refused unread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise ``NotAllowed`` (429) where `address` has failed too often."""
        now = time.monotonic()
        with self._lock:
            times = self._failed.get(address, deque())
            while times and now - times[0] > TRY_SECONDS:
                times.popleft()
            if len(times) >= TRIES:
                wait = max(1, round(TRY_SECONDS - (now - times[0])))
                raise NotAllowed(429, f"too many wrong tokens; try again in {wait} s", retry_after=wait)

    def failed(self, address: str) -> None:
        """Note a wrong token from `address`."""
        with self._lock:
            self._failed.setdefault(address, deque()).append(time.monotonic())
            self._failed.move_to_end(address)
            while len(self._failed) > _MOST_ADDRESSES:
                self._failed.popitem(last=False)


class Gate:
    """Lets requests in, or not.

    Parameters
    ----------
    secret
        Key of cookies and CSRF values.
    token_required
        Whether who has no token is refused; else they may do everything.
    """

    def __init__(self, secret: str, *, token_required: bool) -> None:
        self.token_required = token_required
        self._key = hashlib.sha256(secret.encode()).digest()
        self._signer = URLSafeTimedSerializer(self._key, salt="fedcomp session")
        self._attempts = Attempts()

    def visit(self, request: Request) -> Visit | None:
        """Return the session that the request's cookie proves, or None."""
        try:
            visit_id, token_id = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=SESSION_SECONDS)
        except (BadSignature, ValueError, TypeError):
            return None
        return Visit(visit_id, token_id)

    def remember(self, request: Request, response: Response, visit: Visit) -> None:
        """Put the session's cookie on a response."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps([visit.id, visit.token_id]),
            max_age=SESSION_SECONDS,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )

    def csrf(self, visit: Visit) -> str:
        """Return what forms of this session must carry."""
        return hmac.new(self._key, f"csrf {visit.id}".encode(), hashlib.sha256).hexdigest()

    def check_csrf(self, request: Request, given: str) -> None:
        """Raise ``NotAllowed`` (403) unless `given` is what the session's forms carry."""
        visit = self.visit(request)
        if visit is None or not hmac.compare_digest(self.csrf(visit).encode(), given.encode(errors="replace")):
            raise NotAllowed(403, "this form is no longer valid: reload the page and try again")

    def token(self, request: Request, session: Session, text: str) -> TokenInfo:
        """Return what is known of a token. Raises ``NotAllowed``: 401, or 429 after too many wrong ones."""
        address = request.client.host if request.client else "unknown"
        self._attempts.check(address)
        found = check_token(session, text)
        if found is None:
            self._attempts.failed(address)
            raise NotAllowed(401, "this token is not known, has expired or was revoked")
        return found

    def access(self, request: Request, session: Session) -> Access:
        """Return what a request may do. Raises ``NotAllowed`` (401) where it needs a token and has none."""
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            found = self.token(request, session, text.strip())
            return Access(found.scope, found.name, with_header=True)
        visit = self.visit(request)
        if visit is not None and visit.token_id is not None:
            known = valid_token(session, visit.token_id)
            if known is not None:
                return Access(known.scope, known.name)
        if self.token_required:
            raise NotAllowed(401, "this dashboard asks for a token: log in, or send Authorization: Bearer TOKEN")
        return Access("write", "this machine")


def new_visit(token_id: str | None = None) -> Visit:
    """Return a session of its own; a login gets a new one, so that nobody can have known its id before."""
    return Visit(secrets.token_urlsafe(16), token_id)
