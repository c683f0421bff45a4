"""All URLs of the site: sign-in, security headers, and pages of the documentation that are generated."""

import json

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from ratings.protocol import KnownNames, study_protocol
from wetbench_site import access_table
from wetbench_site.access_table import ACCESS_TABLE, AccessRow
from wetbench_site.headers import CONTENT_SECURITY_POLICY
from wetbench_site.management.commands.state_diagram import format_states_page

OPEN = {"login", "rater_link", "admin_link", "sign_in_here", "mail_link", "about", "healthz", "readyz", "metrics"}
ONES_OWN = {"account", "confirm", "second_step", "sign_in_code"}  # for everybody who is signed in


def patterns(resolver: URLResolver | None = None, prefix: str = "") -> list[tuple[str, URLPattern]]:
    """Return every URL pattern of the site. Django's admin site is left out: it has its own checks."""
    result = []
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLResolver):
            result += [] if entry.app_name == "admin" else patterns(entry, prefix + str(entry.pattern))
        else:
            result.append((prefix + str(entry.pattern), entry))
    return result


def address(pattern: str) -> str:
    """Return a URL of this pattern that refers to nothing."""
    for kind, example in (
        ("<uuid:code>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<uuidstr:code>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<slug:slug>", "no-such"),
        ("<slug:other>", "no-such-either"),
        ("<uuid:rater>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<slug:step>", "question"),
        ("<int:number>", "0"),
        ("<slug:label>", "R99"),
        ("<str:token>", "forged"),
        ("<uuid:job>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<int:file>", "0"),
        ("<slug:name>", "rates"),
        ("<ending:ending>", "svg"),
        ("<slug:section>", "rates"),
        ("<slug:key>", "u1-001"),
        ("<str:name>", "no-such.png"),
    ):
        pattern = pattern.replace(kind, example)
    assert "<" not in pattern, f"give {pattern} an example above"
    return "/" + pattern


@pytest.mark.django_db
@pytest.mark.parametrize(("pattern", "entry"), patterns(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_url_redirects_strangers_to_sign_in_and_has_the_security_policy(
    client: Client, pattern: str, entry: URLPattern
) -> None:
    response = client.get(address(pattern))
    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    if entry.name in OPEN:
        assert response.status_code in (200, 404) or entry.name == "readyz"  # 503: no worker runs here
    elif pattern.startswith("api/"):  # programs need a token and are not redirected to the sign-in page
        assert response.status_code == (200 if entry.name == "openapi" else 401)
    else:
        assert response.status_code == 302 and response.url.startswith("/login/")


@pytest.mark.django_db
@pytest.mark.parametrize(("pattern", "entry"), patterns(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_url_for_staff_or_members_is_hidden_from_users_without_a_role(
    client: Client, pattern: str, entry: URLPattern
) -> None:
    client.force_login(User.objects.create_user("nobody"))
    response = client.get(address(pattern))
    if entry.name in (*OPEN, *ONES_OWN, "logout", "home"):
        assert response.status_code in (200, 302, 404, 405) or entry.name == "readyz"
    elif pattern.startswith("api/"):
        assert response.status_code == (200 if entry.name == "openapi" else 401)
    else:  # 405 if nobody may GET: returned before anything is queried, so it reveals nothing
        assert response.status_code in (404, 405)
        assert response.status_code == 404 or not any("GET" in row for row in _row(entry).values())


def test_access_table_names_each_view_once() -> None:
    names = [name for _, names in access_table._ROWS for name in names.split()]
    assert len(names) == len(set(names)) == len(ACCESS_TABLE)


def _row(entry: URLPattern) -> AccessRow:
    return next(row for name, row in ACCESS_TABLE.items() if name.split(":")[-1] == entry.name)


def test_fragment_returns_401_and_reloads_its_page_for_strangers(client: Client, db: None) -> None:
    response = client.get("/episodes/", headers={"HX-Request": "true"})
    assert (response.status_code, response["HX-Refresh"]) == (401, "true")


def test_states_page_matches_the_models(settings) -> None:
    assert (settings.BASE_DIR / "docs/states.md").read_text() == format_states_page() + "\n"


def test_study_document_in_the_docs_is_valid(settings) -> None:
    text = (settings.BASE_DIR / "docs/operations.md").read_text()
    document = json.loads(text.split("```json\n")[1].split("```")[0])
    casts = [source["cast"] for source in document["sources"]]
    read = study_protocol.parse_protocol(document, KnownNames(casts, [])).to_document()
    assert read | document == read
