"""Sessions in the database: they expire after 12 hours without a request, and after 7 days in any case.

The time of a visit is stored at most once in ten minutes, so that most pages cost one read and no write.
"""

import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, SESSION_KEY
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from ratings.accounts import reauthentication
from ratings.models import BrowserSession
from wetbench_site.observability.logs import log_security_event
from wetbench_site.prepared_queries import PreparedQuery

MAX_LIFETIME = timedelta(days=7)
UPDATE_INTERVAL = timedelta(minutes=10)  # a session that is read a hundred times is written once
_STARTED_KEY = "signed_in_at"  # seconds since 1970


class SessionStore(db.SessionStore):
    """The session engine that the settings name. `user_of_row` is the user who was loaded with the session."""

    user_of_row: User | None = None

    @classmethod
    def get_model_class(cls) -> type[BrowserSession]:
        return BrowserSession

    def load(self) -> dict[str, Any]:
        # An expired session is not loaded, so nothing depends on when expired rows are deleted.
        row = _OPEN_SESSION.find_first(self.session_key, timezone.now()) if self.session_key else None
        if row is None:
            self._session_key = None  # like Django's own: an expired key is replaced by another
            return {}
        data: dict[str, Any] = self.decode(row.session_data)
        self.user_of_row = row.user
        # Django stores the path of the sign-in backend in each session and treats the user as signed out if the settings
        # do not list it, so moving the module would sign out everybody. Only our own class is replaced: a backend of
        # another name was removed on purpose.
        path, listed = data.get(BACKEND_SESSION_KEY, ""), settings.AUTHENTICATION_BACKENDS
        if path.startswith("ratings.") and path.endswith(".NameOrEmail") and path not in listed:
            data[BACKEND_SESSION_KEY] = listed[0]
        # Marking it as modified lets Django write the new end with this response.
        if _expiry_time(data) - row.expire_date > UPDATE_INTERVAL:
            self.modified = True
        return data

    def create_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        row = cast(BrowserSession, super().create_model_instance(data))
        # The user is a column, so that all sessions of a person can be ended without decoding every row.
        row.expire_date, row.user_id = _expiry_time(data), int(data[SESSION_KEY]) if data.get(SESSION_KEY) else None
        return row


# This query runs with every request; it is built once, because building it takes longer than executing it.
_OPEN_SESSION = PreparedQuery(
    lambda key, now: (
        BrowserSession.objects.select_related("user")
        .defer("user__date_joined")
        .filter(session_key=key, expire_date__gt=now)
        .order_by()
    ),
    "text",
    "time",
)
_user_of_session: ContextVar[User | None] = ContextVar("user_of_session", default=None)


class SessionAuthentication(AuthenticationMiddleware):
    """Django's middleware, which takes the user that was loaded with the session instead of loading it again."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _authenticate_session(request))  # type: ignore[assignment]  # as in Django


def _authenticate_session(request: HttpRequest) -> Any:
    session = cast(SessionStore, request.session)
    session.get(SESSION_KEY)  # loads it
    token = _user_of_session.set(session.user_of_row)
    try:
        return get_user(request)
    finally:
        _user_of_session.reset(token)


def find_loaded_user(key: Any) -> User | None:
    """Return the user with this key if it was loaded with the session that is being authenticated, else None."""
    user = _user_of_session.get()
    return user if user is not None and user.pk == key else None


class OpenSession(NamedTuple):
    """A session that has not ended. `seen_at` is accurate to ten minutes."""

    key: str
    begun_at: datetime
    seen_at: datetime


def _expiry_time(data: dict[str, Any]) -> datetime:
    idle = datetime.now(UTC) + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    begun = data.get(_STARTED_KEY)
    # A session ends seven days after signing in, however active it is.
    return min(idle, datetime.fromtimestamp(begun, UTC) + MAX_LIFETIME) if isinstance(begun, int) else idle


def on_sign_in(sender: Any, request: HttpRequest, user: User, **_signal: Any) -> None:
    """Record a sign-in by password or link. This is the receiver of Django's signal."""
    request.session[_STARTED_KEY] = int(time.time())
    reauthentication.record_reauthentication(request)
    log_security_event("signed in", request, user=user.pk)


def list_sessions(user: User) -> list[OpenSession]:
    """Return this user's sessions in any browser, the most recently used first."""
    sessions = []
    for row in user.browser_sessions.filter(expire_date__gt=datetime.now(UTC)):
        begun_at = datetime.fromtimestamp(row.get_decoded().get(_STARTED_KEY, 0), UTC)
        # The expiry is the last visit plus the allowed idle time, so the time of that visit can be computed from it.
        seen_at = row.expire_date - timedelta(seconds=settings.SESSION_COOKIE_AGE)
        sessions.append(OpenSession(row.session_key, begun_at, max(seen_at, begun_at)))
    return sorted(sessions, key=lambda one: one.seen_at, reverse=True)


def end_sessions(user: User, why: str, request: HttpRequest | None = None, but: str | None = None) -> int:
    """Sign this user out everywhere, except in the session with key `but`. Return how many sessions ended."""
    # An empty key excludes nothing: no session has it.
    ended, _ = BrowserSession.objects.filter(user_id=user.pk).exclude(session_key=but or "").delete()
    if ended:
        log_security_event("sessions ended", request, user=user.pk, why=why, sessions=ended)
    return ended
