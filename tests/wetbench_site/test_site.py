"""What holds for the whole site."""

import json

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from ratings.management.commands.state_diagram import document
from ratings.protocol import protocols
from wetbench_site.access_table import TABLE, Row
from wetbench_site.headers import CONTENT_SECURITY_POLICY

OPEN = {"login", "rater_link", "admin_link", "sign_in_here", "mail_link", "healthz", "readyz", "metrics"}
ONES_OWN = {"account", "confirm", "second_step", "sign_in_code"}  # of whoever is signed in


def patterns(resolver: URLResolver | None = None, prefix: str = "") -> list[tuple[str, URLPattern]]:
    """Every address of ours (Django's admin guards itself) with its pattern."""
    found = []
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLResolver):
            found += [] if entry.app_name == "admin" else patterns(entry, prefix + str(entry.pattern))
        else:
            found.append((prefix + str(entry.pattern), entry))
    return found


def address(pattern: str) -> str:
    """An address of that form under which nothing is."""
    for kind, example in (
        ("<uuid:code>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<uuidstr:code>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<slug:slug>", "no-such"),
        ("<slug:other>", "no-such-either"),
        ("<uuid:seat>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<slug:step>", "question"),
        ("<int:number>", "0"),
        ("<slug:label>", "R99"),
        ("<str:token>", "forged"),
        ("<uuid:job>", "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"),
        ("<int:file>", "0"),
        ("<slug:name>", "rates"),
        ("<ending:ending>", "svg"),
    ):
        pattern = pattern.replace(kind, example)
    assert "<" not in pattern, f"give {pattern} an example above"
    return "/" + pattern


@pytest.mark.django_db
@pytest.mark.parametrize(("pattern", "entry"), patterns(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_address_asks_strangers_to_sign_in_and_sends_the_policy(
    client: Client, pattern: str, entry: URLPattern
) -> None:
    response = client.get(address(pattern))
    assert response["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    if entry.name in OPEN:
        assert response.status_code in (200, 404) or entry.name == "readyz"  # 503: no worker runs here
    elif pattern.startswith("api/"):  # programs come with a token, and are not sent to sign in
        assert response.status_code == (200 if entry.name == "openapi" else 401)
    else:
        assert response.status_code == 302 and response.url.startswith("/login/")


@pytest.mark.django_db
@pytest.mark.parametrize(("pattern", "entry"), patterns(), ids=lambda value: value if isinstance(value, str) else "")
def test_for_a_user_without_a_role_there_is_nothing_anywhere(client: Client, pattern: str, entry: URLPattern) -> None:
    client.force_login(User.objects.create_user("nobody"))
    response = client.get(address(pattern))
    if entry.name in (*OPEN, *ONES_OWN, "logout", "home"):
        assert response.status_code in (200, 302, 404, 405) or entry.name == "readyz"
    elif pattern.startswith("api/"):
        assert response.status_code == (200 if entry.name == "openapi" else 401)
    else:  # 405 where nobody may GET: it is said before anything is looked up, so it tells nothing
        assert response.status_code in (404, 405)
        assert response.status_code == 404 or not any("GET" in row for row in _row(entry).values())


def _row(entry: URLPattern) -> Row:
    return next(row for name, row in TABLE.items() if name.split(":")[-1] == entry.name)


def test_a_fragment_for_a_stranger_is_a_401_that_loads_its_page_anew(client: Client, db: None) -> None:
    response = client.get("/episodes/", headers={"HX-Request": "true"})
    assert (response.status_code, response["HX-Refresh"]) == (401, "true")


def test_the_page_of_states_is_as_the_models_say(settings) -> None:
    assert (settings.BASE_DIR / "docs/states.md").read_text() == document() + "\n"


def test_the_study_document_in_the_docs_is_one(settings) -> None:
    text = (settings.BASE_DIR / "docs/operations.md").read_text()
    document = json.loads(text.split("```json\n")[1].split("```")[0])
    casts = [source["cast"] for source in document["sources"]]
    read = protocols.read(document, casts, []).to_json()
    assert read | document == read
