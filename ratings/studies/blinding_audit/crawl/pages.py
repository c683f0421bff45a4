"""A response as a rater's browser gets it: its texts and attributes with their locations, its links and its forms."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urlsplit

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


class PageForm(NamedTuple):
    """A form that is posted to `action`, with the current values of its fields."""

    action: str
    fields: dict[str, str]


@dataclass(frozen=True)
class Page:
    """One answer. `label` names the request without any code; `item` is the key of the item that the page is about
    (0: none).

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
        reader = _PageParser()
        reader.feed(self.text)
        return reader

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
        urls = [value for name, value in self.parsed_html.links if not value.startswith(("#", "mailto:"))]
        urls += [self.headers[name] for name in ("Location", "HX-Push-Url", "HX-Redirect") if name in self.headers]
        return [link for link in dict.fromkeys(urls) if not urlsplit(link).path.startswith("/static/")]

    def find_form_fields(self, action: str) -> dict[str, str]:
        """Return the fields of the form that is posted to `action`, including hidden ones; {} if there is no such
        form.

        For a group of radio buttons it is the value of the first.
        """
        for form in self.parsed_html.forms:
            if urlsplit(form.action).path == urlsplit(action).path:
                return dict(form.fields)
        return {}

    def split_stable_parts(self) -> list[str]:
        """Return the answer in pieces, without the parts that change from visit to visit, so that equal pages give
        equal pieces.
        """
        headers = [f"{name}: {value}" for name, value in sorted(self.headers.items()) if _is_compared_header(name)]
        headers += [f"Set-Cookie: {cookie}" for cookie in self.cookies]
        # Cut at tags, so that a difference is reported as the piece in which it is.
        body = re.split(r"(?<=>)|(?=<)", self.text)
        return [f"status {self.status}"] + [
            remove_changing_parts(piece) for piece in [*headers, *body] if piece.strip()
        ]


def _is_compared_header(header: str) -> bool:
    return header.lower() not in _SKIPPED_HEADERS


def remove_changing_parts(text: str) -> str:
    """Return the text without codes, tokens and times."""
    return _CHANGING.sub(lambda match: f"({match.lastgroup})", _UUID.sub("(code)", text))


@dataclass
class _PageParser(HTMLParser):
    places: list[LocatedText] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    forms: list[PageForm] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._tag = "page"
        self._by_id: dict[str, dict[str, str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._tag = tag
        self.places += [
            LocatedText(f"attribute {name} of <{tag}>", f"{name}={value}") for name, value in attributes.items()
        ]
        self.links += [(name, value) for name, value in attributes.items() if name in _LINKS and value]
        if tag == "form":
            self._open_form(attributes)
        elif tag in ("input", "textarea", "button", "select") and attributes.get("name"):
            self._add_field(tag, attributes)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.places.append(LocatedText(f"text of <{self._tag}>", data.strip()))

    def handle_comment(self, data: str) -> None:
        self.places.append(LocatedText("a comment", data.strip()))

    def _open_form(self, attributes: Mapping[str, str]) -> None:
        # Inputs outside a form may belong to it by its id, before or after the form itself.
        fields: dict[str, str] = self._by_id.setdefault(attributes.get("id", ""), {}) if attributes.get("id") else {}
        self.forms.append(PageForm(attributes.get("hx-post") or attributes.get("action", ""), fields))

    def _add_field(self, tag: str, attributes: Mapping[str, str]) -> None:
        kind = attributes.get("type", "text")
        # A browser sends neither unticked boxes nor the buttons that were not pressed.
        if tag == "button" or kind in ("checkbox", "submit") or (not self.forms and "form" not in attributes):
            return
        fields = self._by_id.setdefault(attributes["form"], {}) if "form" in attributes else self.forms[-1].fields
        fields.setdefault(attributes["name"], attributes.get("value", ""))
