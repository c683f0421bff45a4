"""A browser without JavaScript: it has cookies, parses the forms of a page, fills them in and sends them."""

import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


class FormParser(HTMLParser):
    """Collect all forms of a page: address, method, and the current values of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form":
            self.forms.append(
                {"action": attributes.get("action") or "", "method": attributes.get("method", "get"), "fields": {}}
            )
        elif tag == "input" and self.forms and attributes.get("name"):
            is_sent = attributes.get("type") not in ("radio", "checkbox") or "checked" in attributes
            if is_sent:
                self.forms[-1]["fields"].setdefault(attributes["name"], []).append(attributes.get("value") or "")


@dataclass
class Page:
    status: int
    url: str
    text: str
    headers: Any

    def find_form(self, action: str = "") -> dict[str, Any]:
        """Return the first posted form whose address ends with `action`."""
        reader = FormParser()
        reader.feed(self.text)
        post_forms = [form for form in reader.forms if form["method"].lower() == "post"]
        match = next(
            (form for form in post_forms if form["action"].endswith(action) and "logout" not in form["action"]), None
        )
        assert match, f"no form to {action!r} on {self.url}: {[form['action'] for form in post_forms]}"
        return match


@dataclass
class Visitor:
    """One person's browser on one site."""

    site: str
    cookies: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    def get(self, path: str, timeout: float = 60) -> Page:
        return self._send(urllib.request.Request(urllib.parse.urljoin(self.site, path)), timeout)

    def post(self, path: str, fields: dict[str, str], headers: dict[str, str], timeout: float = 60) -> Page:
        """Send these fields as a script of the page would."""
        body = urllib.parse.urlencode(fields).encode()
        return self._send(urllib.request.Request(urllib.parse.urljoin(self.site, path), body, headers), timeout)

    def submit_form(self, page: Page, action: str = "", **values: Any) -> Page:
        """Send a form of a page with its current values, except for these fields."""
        form = page.find_form(action)
        fields = {**form["fields"], **{name.replace("__", "-"): value for name, value in values.items()}}
        body = urllib.parse.urlencode(fields, doseq=True).encode()
        request = urllib.request.Request(urllib.parse.urljoin(page.url, form["action"]), data=body)
        request.add_header("Referer", page.url)
        return self._send(request)

    def _send(self, request: urllib.request.Request, timeout: float = 60) -> Page:
        opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self.cookies), urllib.request.ProxyHandler({})
        )
        try:
            with opener.open(request, timeout=timeout) as response:
                return Page(response.status, response.url, response.read().decode(), response.headers)
        except urllib.error.HTTPError as response:
            return Page(response.code, response.url, response.read().decode(), response.headers)
