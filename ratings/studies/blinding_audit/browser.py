"""A response as a rater's browser gets it: its texts and attributes with their locations, its links and its forms."""

import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html.parser import HTMLParser
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
from ratings.studies.blinding_audit.scratch_copy import require_scratch_copy
from wetbench_site.observability.log_context import AUDIT_REQUEST

HTMX = {"HX-Request": "true"}
_FORM = "application/x-www-form-urlencoded"
_LINKS = ("href", "src", "action", "formaction", "hx-get", "hx-post", "hx-put", "hx-delete", "hx-push-url")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CHANGING = re.compile(  # what differs between two visits of one page: tokens of forms, and times
    r"(?P<token>(?<=[\"' ])[A-Za-z0-9]{64}(?=[\"']))|(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)"
    r"|(?P<date>\d{4}-\d{2}-\d{2}T[\d:.+Z-]+)"
)
_SKIPPED_HEADERS = ("content-length", "set-cookie", "date")  # cookies are compared separately


class LocatedText(NamedTuple):
    """A text and its location: "text of <p>", "attribute class of <article>", "header X-Source"."""

    location: str
    text: str


@dataclass(frozen=True)
class Page:
    """One answer. `label` names the request without any code; `item` is the key of the page's item (0: none).

    `asked_item` and `asked_assignment` are the item and assignment of the request, whatever was returned.
    """

    label: str
    url: str
    status: int
    headers: Mapping[str, str]
    text: str
    item: int = 0
    assignment: int = 0
    seconds: float = 0.0
    asked_item: int = 0
    asked_assignment: int = 0
    cookies: tuple[str, ...] = ()  # as they are set, without those of session and forms

    @cached_property
    def parsed_html(self) -> "_PageParser":
        # Parsed once: texts, links and forms of a page are all needed.
        parser = _PageParser()
        parser.feed(self.text)
        return parser

    @property
    def is_html(self) -> bool:
        return "html" in self.headers.get("Content-Type", "")

    def iter_texts(self) -> Iterator[LocatedText]:
        """Yield every text of the answer: URL, headers, attributes, texts, comments."""
        yield LocatedText("the address", self.url)
        for name, value in self.headers.items():
            yield LocatedText(f"header {name}", f"{name}: {value}")
        for cookie in self.cookies:
            yield LocatedText(f"header Set-Cookie {cookie.partition('=')[0]}", cookie)
        if self.is_html:
            yield from self.parsed_html.places
        else:
            yield LocatedText("the body", self.text)

    def list_links(self) -> list[str]:
        """Return the URLs on this site that the page leads to, by link, form or htmx, and where it redirects."""
        urls = [url for url in self.parsed_html.links if not url.startswith(("#", "mailto:"))]
        urls += [self.headers[name] for name in ("Location", "HX-Push-Url", "HX-Redirect") if name in self.headers]
        return [link for link in dict.fromkeys(urls) if not urlsplit(link).path.startswith("/static/")]

    def find_form_fields(self, action: str) -> dict[str, str]:
        """Return the fields of the form that is posted to `action`, with the first of radio buttons; {} if there is none."""
        forms = (fields for url, fields in self.parsed_html.forms if urlsplit(url).path == urlsplit(action).path)
        return dict(next(forms, {}))

    def split_stable_parts(self) -> list[str]:
        """Return the answer in pieces, without what changes from visit to visit: equal pages give equal pieces."""
        compared = sorted(name for name in self.headers if name.lower() not in _SKIPPED_HEADERS)
        headers = [f"{name}: {self.headers[name]}" for name in compared]
        headers += [f"Set-Cookie: {cookie}" for cookie in self.cookies]
        # Cut at tags, so that a difference is reported as the piece in which it is.
        pieces = [*headers, *re.split(r"(?<=>)|(?=<)", self.text)]
        return [f"status {self.status}", *(remove_changing_parts(piece) for piece in pieces if piece.strip())]


def remove_changing_parts(text: str) -> str:
    """Return the text without codes, tokens and times."""
    return _CHANGING.sub(lambda match: f"({match.lastgroup})", _UUID.sub("(code)", text))


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.places: list[LocatedText] = []
        self.links: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []  # URL, and the current values of the fields
        self._tag = "page"
        self._fields_by_id: dict[str, dict[str, str]] = defaultdict(dict)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag, attributes = tag, {name: value or "" for name, value in attrs}
        located = ((f"attribute {name} of <{tag}>", f"{name}={value}") for name, value in attributes.items())
        self.places += [LocatedText(*one) for one in located]
        self.links += [value for name, value in attributes.items() if name in _LINKS and value]
        kind, form_id = attributes.get("type", "text"), attributes.get("form")
        if tag == "form":
            # Inputs outside a form may belong to it by its id, before or after the form itself.
            fields = self._fields_by_id[attributes["id"]] if attributes.get("id") else {}
            self.forms.append((attributes.get("hx-post") or attributes.get("action", ""), fields))
        elif tag in ("input", "textarea", "select") and (self.forms or form_id is not None):
            fields = self.forms[-1][1] if form_id is None else self._fields_by_id[form_id]
            # A browser sends neither unticked boxes nor the buttons that were not pressed.
            if attributes.get("name") and kind not in ("checkbox", "submit"):
                fields.setdefault(attributes["name"], attributes.get("value", ""))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.places.append(LocatedText(f"text of <{self._tag}>", data.strip()))

    def handle_comment(self, data: str) -> None:
        self.places.append(LocatedText("a comment", data.strip()))


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
        status, sent_headers, body = _call_site(environ)
        seconds = perf_counter() - started_at
        cookies: SimpleCookie = SimpleCookie()
        shown_headers = {}
        for name, value in sent_headers:
            if name.lower() == "set-cookie":
                cookies.load(value)
            else:
                # The id of a request is new with every response; a value of another form is compared like any header.
                is_request_id = name == "X-Request-ID" and re.fullmatch("[0-9a-f]{32}", value)
                shown_headers[name] = "(random)" if is_request_id else value
        for name, morsel in cookies.items():
            if morsel["max-age"] in (0, "0"):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
        charset = re.search(r"charset=[\"']?([\w-]+)", shown_headers.get("Content-Type", ""))
        text = body.decode(charset[1] if charset else "utf-8", "replace")
        # The values of these cookies are random.
        random_cookies = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
        set_cookies = tuple(c.OutputString() for name, c in sorted(cookies.items()) if name not in random_cookies)
        item_id, assignment_id = (assignment.item_id, assignment.pk) if assignment else (0, 0)
        return Page(
            label, url, status, shown_headers, text, item_id, assignment_id, seconds,
            asked_item=item_id, asked_assignment=assignment_id, cookies=set_cookies,
        )  # fmt: skip

    @contextmanager
    def restore_cookies(self) -> Iterator[None]:
        """Restore the cookies, at the end of the block, to their state at its beginning."""
        saved_cookies = dict(self.cookies)
        try:
            yield
        finally:
            self.cookies = saved_cookies

    def _build_environ(
        self, method: str, url: str, data: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the WSGI environment of the request (PEP 3333)."""
        # A host that the site accepts: any other is answered with 400.
        host_names = [host.lstrip(".") for host in settings.ALLOWED_HOSTS if host.strip("*.")]
        secure, host = settings.SESSION_COOKIE_SECURE, next(iter(host_names), "localhost")
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


def _call_site(environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers and body. Raises RuntimeError unless the process works on a scratch copy: requests write."""
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
    # A server sends no body with these, whatever the application returns.
    return status, headers, b"" if environ["REQUEST_METHOD"] == "HEAD" or status in (204, 304) else body


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


def _create_session(user: User) -> str:
    """Return the key of a session like that of a sign-in. No sign-in is logged, because nobody signs in."""
    require_scratch_copy()
    session = sessions.SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session.create()
    return str(session.session_key)
