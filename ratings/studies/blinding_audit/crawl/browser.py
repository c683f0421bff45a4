"""A browser that sends requests to this process: a WSGI request to Django's handler, without a socket.

It behaves as raters' browsers do. It stores cookies, posts forms in their usual encoding and sends the token of its
forms in the header that the site's htmx requests use, so the site checks each request as it would any other. An
unhandled error of the site is an answer with status 500.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from http.cookies import SimpleCookie
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.middleware.csrf import CSRF_SECRET_LENGTH
from django.utils.crypto import get_random_string

from ratings.accounts import sessions
from ratings.models import Assignment
from ratings.studies.blinding_audit.copy.guard import require_scratch_copy
from ratings.studies.blinding_audit.crawl.pages import Page
from wetbench_site.observability.request_context import AUDIT_REQUEST

HTMX = {"HX-Request": "true"}
_WITHOUT_BODY = (204, 304)  # a server sends none, whatever the application returns
_FORM = "application/x-www-form-urlencoded"


class Response(NamedTuple):
    """What the site returned: `headers` without cookies, and the `cookies` that it sets."""

    status: int
    headers: dict[str, str]
    cookies: "SimpleCookie"
    body: bytes


class Browser:
    """The browser of a rater, or of a stranger if no user is given."""

    def __init__(self, user: User | None = None) -> None:
        self.cookies = {settings.CSRF_COOKIE_NAME: get_random_string(CSRF_SECRET_LENGTH)}
        if user is not None:
            self.cookies[settings.SESSION_COOKIE_NAME] = _create_session(user)

    def send_request(
        self,
        label: str,
        method: str,
        url: str,
        assignment: Assignment | None = None,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Page:
        """Send one request and return the answer as a page. `assignment` is the one that the request is about."""
        environ = self._build_environ(method.upper(), url, data, headers or {})
        # The environment is built before: only the site's own work is timed.
        started_at = perf_counter()
        response = _call_site(environ)
        seconds = perf_counter() - started_at
        self._store_cookies(response.cookies)
        item_id, assignment_id = (assignment.item_id, assignment.pk) if assignment else (0, 0)
        headers_shown = {
            name: "(random)" if _is_request_id(name, value) else value for name, value in response.headers.items()
        }
        return Page(
            label, url, response.status, headers_shown, _decode_body(response), item_id, assignment_id, seconds,
            asked_item=item_id, asked_assignment=assignment_id, cookies=_list_page_cookies(response.cookies),
        )  # fmt: skip

    @contextmanager
    def restore_cookies(self) -> Iterator[None]:
        """Restore the cookies, at the end of the block, to their state at its beginning."""
        saved_cookies = dict(self.cookies)
        try:
            yield
        finally:
            self.cookies = saved_cookies

    def _store_cookies(self, cookies: "SimpleCookie") -> None:
        for name, morsel in cookies.items():
            if morsel["max-age"] in (0, "0"):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value

    def _build_environ(
        self, method: str, url: str, data: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the WSGI environment of the request (PEP 3333)."""
        secure, host = settings.SESSION_COOKIE_SECURE, _choose_host()
        parts = urlsplit(url)
        body = urlencode(data or {}).encode() if method == "POST" else b""
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(parts.path).decode("latin-1"),
            "QUERY_STRING": parts.query,
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": _FORM if method == "POST" else "",
            "SERVER_NAME": host,
            "SERVER_PORT": "443" if secure else "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": host,
            "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if secure else "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": False,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            AUDIT_REQUEST: True,
        }
        # Django refuses an unsafe request over https without its origin and token.
        if method not in ("GET", "HEAD", "OPTIONS"):
            environ["HTTP_ORIGIN"] = f"{environ['wsgi.url_scheme']}://{host}"
            environ["HTTP_X_CSRFTOKEN"] = self.cookies.get(settings.CSRF_COOKIE_NAME, "")
        return environ | {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}


# By the middleware setting: tests change it.
@lru_cache(maxsize=4)
def _load_handler(middleware: tuple[str, ...]) -> WSGIHandler:
    """Return one handler for all browsers: loading its middleware takes longer than most answers."""
    return WSGIHandler()


def _call_site(environ: dict[str, Any]) -> Response:
    """Return the full response. Raises RuntimeError unless the process works on a scratch copy: requests write."""
    require_scratch_copy()
    started: list[tuple[int, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], error: Any = None, /) -> Callable[[bytes], object]:
        started.append((int(status.split(" ", 1)[0]), headers))
        return lambda written: None  # for applications that use write(), which Django never does

    with _keep_connection():
        response: Any = _load_handler(tuple(settings.MIDDLEWARE))(environ, start_response)
        try:
            body = b"".join(response)
        finally:
            response.close()
    # start_response may be called again if an error occurs; the last call counts.
    status, headers = started[-1]
    cookies: SimpleCookie = SimpleCookie()
    for value in _iter_header_values(headers, "set-cookie"):
        cookies.load(value)
    if environ["REQUEST_METHOD"] == "HEAD" or status in _WITHOUT_BODY:
        body = b""
    return Response(status, {name: value for name, value in headers if name.lower() != "set-cookie"}, cookies, body)


@contextmanager
def _keep_connection() -> Iterator[None]:
    """Prevent Django from closing the connection with each request."""
    # A visit is one transaction around many requests; closing the connection would end it.
    request_signals = (request_started, request_finished)
    for signal in request_signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in request_signals:
            signal.connect(close_old_connections)


def _iter_header_values(headers: Iterable[tuple[str, str]], header: str) -> Iterator[str]:
    return (value for name, value in headers if name.lower() == header)


def _decode_body(answer: Response) -> str:
    """Return the body as text, in the encoding that its header names."""
    charset = re.search(r"charset=[\"']?([\w-]+)", answer.headers.get("Content-Type", ""))
    return answer.body.decode(charset[1] if charset else "utf-8", "replace")


def _is_request_id(name: str, value: str) -> bool:
    """Return whether this header is the id of a request, which is new with every response.

    A value of another form is compared like any other header.
    """
    return name == "X-Request-ID" and re.fullmatch("[0-9a-f]{32}", value) is not None


def _create_session(user: User) -> str:
    """Return the key of a session like that of a sign-in. No sign-in is logged, because nobody signs in."""
    require_scratch_copy()
    session = sessions.SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session.create()
    return str(session.session_key)


def _choose_host() -> str:
    # A host that the site accepts: any other is answered with 400.
    host_names = [host for host in settings.ALLOWED_HOSTS if host.strip("*.")]
    return host_names[0].lstrip(".") if host_names else "localhost"


def _list_page_cookies(cookies: "SimpleCookie") -> tuple[str, ...]:
    """Return all cookies that are set except those of the session and of forms, whose values are random."""
    random_cookies = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return tuple(morsel.OutputString() for name, morsel in sorted(cookies.items()) if name not in random_cookies)
