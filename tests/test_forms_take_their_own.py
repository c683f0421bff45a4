"""No mass assignment: a form takes its own fields, and of others none, though they bear the names of columns."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import access_world
import pytest
from access_world import World, names
from django.apps import apps
from django.db import connection, transaction

from ratings.views.consent_form import DEGREES
from wetbench_site.access_table import TABLE

pytestmark = pytest.mark.django_db
PERSONS = {"superuser": ("superuser",), "admin": ("account", "staff", "admin"), "rater": ("account", "rater")}
SENTINEL = "987654321"  # a text, a number, a key and a truth at once
FORM = "application/x-www-form-urlencoded"
ROOMS = ("ratings", "simulation", "auth", "axes", "otp_totp", "otp_static")
# Columns that bear the name of a field which the page has too, but does not show as the world stands.
OWN_NAMES = {
    "note",
    "name",
    "email",
    "label",
    "role",
    "experiments",
    "count",
    "question",
    "document",
    "password",
    "username",
}


def columns() -> set[str]:
    """Every column of every model, as forms and as databases call it."""
    models = [model for model in apps.get_models() if model._meta.app_label in ROOMS]
    fields = [field for model in models for field in model._meta.concrete_fields]
    return {name for field in fields for name in (field.name, field.attname)}


class Fields(HTMLParser):
    """What a page's forms would send as they stand, by the address of each form."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self._own: dict[str, str] = {}
        self._choosing = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._own = self.forms.setdefault(given.get("action", ""), {})
        elif tag in ("input", "textarea", "button") and given.get("name"):
            if given.get("type") not in ("radio", "checkbox") or "checked" in given or given["name"] not in self._own:
                self._own[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._choosing = given.get("name", "")
        elif tag == "option" and self._choosing and ("selected" in given or self._choosing not in self._own):
            self._own[self._choosing] = given.get("value", "")


class Writes:
    """What is written while it is entered: each statement with its truths and numbers, and the texts by themselves."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, list[Any]]] = []
        self.texts: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and "django_session" not in sql:
            self.statements.append((sql, [one for one in params or () if one is None or isinstance(one, int)]))
            self.texts += [str(one) for one in params or ()]
        return execute(sql, params, many, context)


def writes(world: World, person: str, path: str, fields: dict[str, str]) -> Writes:
    """What such a form writes; all of it undone."""
    with connection.execute_wrapper(written := Writes()), transaction.atomic():
        world.ask(person, "POST", path, data=urlencode(fields), content_type=FORM)
        transaction.set_rollback(True)
    return written


def forms(world: World, person: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(name, address, its fields as they stand) of every address that takes a form of this person."""
    mine = {name: {method for role in PERSONS[person] for method in TABLE[name][role]} for name in sorted(names())}
    pages: dict[str, Fields] = {}
    for path in {world.path(name) for name in mine if "GET" in mine[name] and (name in SHOW or "POST" in mine[name])}:
        with transaction.atomic():
            answer = world.ask(person, "GET", path)
            transaction.set_rollback(True)
        if not answer.streaming and answer.get("Content-Type", "").startswith("text/html"):
            pages[path] = Fields(answer.content.decode())
    everywhere = {action: own for page in pages.values() for action, own in page.forms.items() if action}
    for name, path in ((name, world.path(name)) for name in mine if "POST" in mine[name]):
        here = pages[path].forms.get("", {}) if path in pages else {}
        yield name, path, {**here, **everywhere.get(path, {})}


# Pages that take no form themselves and show those of others.
SHOW = {
    "ratings:study",
    "ratings:raters",
    "ratings:desk",
    "simulation:episode",
    "simulation:run",
    "simulation:twin",
    "ratings:job",
}


@pytest.fixture
def world() -> World:
    return access_world.build()


# Forms that saved something as they stood. Superusers have the forms of admins who are staff: theirs in the thorough round.
LEAST = {"admin": 6, "rater": 2, "superuser": 8}


@pytest.mark.parametrize("person", ["admin", "rater", pytest.param("superuser", marks=pytest.mark.thorough)])
def test_a_form_takes_no_column_that_is_no_field_of_its_own(world: World, person: str) -> None:
    every, wrong, saved = columns() - OWN_NAMES, [], 0
    for name, path, own in forms(world, person):
        more = dict.fromkeys(every - set(own), SENTINEL)
        plain, full = writes(world, person, path, own), writes(world, person, path, {**more, **own})
        saved += bool(plain.statements)
        if plain.statements != full.statements or any(SENTINEL in text for text in full.texts):
            wrong.append(f"{name}: {[one for one in full.statements if one not in plain.statements]}")
    assert wrong == []
    assert saved >= LEAST[person]


def test_the_watch_sees_a_column_that_was_taken(world: World) -> None:
    """The control: the profile's form, once as it is sent and once with another year."""
    path, own = world.path("ratings:profile"), {"save": "about", "degree": DEGREES[-1][0], "field": "x", "years": "3"}
    taken = writes(world, "rater", path, {**own, "field": SENTINEL})
    assert any(SENTINEL in text for text in taken.texts)
    assert taken.statements != writes(world, "rater", path, {**own, "years": "4"}).statements
