"""No mass assignment: a form takes its own fields, and of others none, though they bear the names of columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import ForeignKey

from ratings.models import Assignment, Study
from ratings.web.rater.consent_form import DEGREES
from tests.support import access_world
from tests.support.access_world import World, names
from wetbench_site.access_table import TABLE

pytestmark = pytest.mark.django_db
PERSONS = {"superuser": ("superuser",), "admin": ("account", "staff", "admin"), "rater": ("account", "rater")}
SENTINEL = "987654321"  # a text, a number, a key and a truth at once
FORM = "application/x-www-form-urlencoded"
ROOMS = ("ratings", "simulation", "auth", "axes", "otp_totp", "otp_static")
# Columns that bear the name of a field of forms that scripts send, or that come in two steps.
OWN_NAMES = {
    "ratings:draft": {"note", "verdict", "confidence", "marks"},
    "ratings:sign_in_here": {"username", "password", "code"},
}


def columns() -> set[str]:
    """Every column of every model, as forms and as databases call it."""
    models = [model for model in apps.get_models() if model._meta.app_label in ROOMS]
    fields = [field for model in models for field in model._meta.concrete_fields]
    return {name for field in fields for name in (field.name, field.attname)}


class Fields(HTMLParser):
    """What a page's forms would send: one for each of their buttons, filled in where something is asked for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._choosing = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", "")))
        if not self.forms:
            return
        own, name, value = self.forms[-1].fields, given.get("name", ""), given.get("value", "")
        if tag == "button" and name:
            self.forms[-1].buttons.append((name, value))
        elif tag in ("input", "textarea") and name:
            if given.get("type") not in ("radio", "checkbox"):
                own[name] = value or (FILLED.get(given.get("type", ""), "x") if "required" in given else "")
            elif "checked" in given or name not in own:
                own[name] = value or "on"
        elif tag == "select":
            self._choosing = name
        elif tag == "option" and self._choosing and ("selected" in given or not own.get(self._choosing)):
            own[self._choosing] = value

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._choosing = ""


FILLED = {"number": "3", "email": "a@example.org", "url": "https://example.org/"}


@dataclass
class Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def sent(self) -> Iterator[dict[str, str]]:
        """What each button sends; without a name it sends the fields alone."""
        yield from ({**self.fields, name: value} for name, value in self.buttons or [("", "")])


class Writes:
    """What is written while it is entered: each statement with its truths and numbers, and the texts by themselves."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, list[Any]]] = []
        self.texts: list[str] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and "django_session" not in sql:
            self.statements.append((sql, [one for one in params or () if one is None or isinstance(one, int)]))
            self.texts += [
                str(one) for one in params or () if "axes_accessattempt" not in sql
            ]  # its log of what was sent
        return execute(sql, params, many, context)

    def steady(self, one: "Writes", other: "Writes") -> "Writes":
        """Without the numbers in which two runs of the same form differ, as drawn seeds do."""
        kept = Writes()
        kept.texts = self.texts
        runs = zip_longest(self.statements, one.statements, other.statements, fillvalue=("", []))
        for (sql, numbers), (_, these), (_, those) in runs:
            known = zip_longest(numbers, these, those)
            kept.statements.append((sql, [number for number, this, that in known if this == that]))
        return kept


def writes(world: World, person: str, path: str, fields: dict[str, str]) -> Writes:
    """What such a form writes; all of it undone."""
    with connection.execute_wrapper(written := Writes()), transaction.atomic():
        world.ask(person, "POST", path, data=urlencode(fields), content_type=FORM)
        transaction.set_rollback(True)
    return written


def forms(world: World, person: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(name, address, what is sent) for every form that this person is shown; addresses that no page has a form for get an
    empty one."""
    mine = {name: {method for role in PERSONS[person] for method in TABLE[name][role]} for name in sorted(names())}
    shown: list[tuple[str, Form]] = []
    for path in sorted(
        {world.path(name) for name in mine if "GET" in mine[name] and (name in SHOW or "POST" in mine[name])}
    ):
        with transaction.atomic():
            answer = world.ask(person, "GET", path)
            transaction.set_rollback(True)
        if not answer.streaming and answer.get("Content-Type", "").startswith("text/html"):
            shown += [(form.action or path, form) for form in Fields(answer.content.decode()).forms]
    for name, path in ((name, world.path(name)) for name in mine if "POST" in mine[name]):
        every = [sent for action, form in shown if action == path for sent in form.sent()]
        alike = {tuple((name, value) for name, value in one.items() if name not in NEW_EACH_TIME): one for one in every}
        yield from ((name, path, sent) for sent in alike.values() or [{}])


NEW_EACH_TIME = {"csrfmiddlewaretoken", "submission_id"}


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


def others(world: World, person: str) -> dict[str, str]:
    """By the name of a column: a row that is there and is somebody else's, as far as one value can be that for all models."""
    found = {
        "slug": world.other.slug,
        "seat": str(world.other.raters.order_by("pk")[0].code),
        "id": str(world.other.pk),
    }
    found["code"] = str(Assignment.objects.filter(rater__study=world.other).order_by("pk")[0].code)
    for model in apps.get_models():
        for one in model._meta.concrete_fields if model._meta.app_label in ROOMS else ():
            if isinstance(one, ForeignKey):
                rows = one.related_model._default_manager.order_by("pk" if person == "superuser" else "-pk")
                row = world.other if one.related_model is Study else rows.first()
                found |= {one.name: str(row.pk), one.attname: str(row.pk)} if row else {}
    return found


# Addresses whose forms saved something as they stood.
LEAST = {"admin": 30, "rater": 12, "superuser": 35}


@pytest.mark.parametrize("person", ["admin", "rater", "superuser"])
def test_a_form_takes_no_column_that_is_no_field_of_its_own(world: World, person: str) -> None:
    every, wrong, saved = columns(), set(), set()
    for values in (dict.fromkeys(every, SENTINEL), others(world, person)):
        for name, path, own in forms(world, person):
            more = {
                one: value for one, value in values.items() if one not in own and one not in OWN_NAMES.get(name, ())
            }
            plain, full = writes(world, person, path, own), writes(world, person, path, {**more, **own})
            saved |= {name} if plain.statements else set()
            if plain.statements != full.statements:
                again = writes(world, person, path, own)
                plain, full = plain.steady(plain, again), full.steady(plain, again)
            if plain.statements != full.statements or any(SENTINEL in text for text in full.texts):
                wrong.add(f"{name}: {[one for one in full.statements if one not in plain.statements]}"[:300])
    assert wrong == set()
    assert len(saved) >= LEAST[person]


def test_the_watch_sees_a_column_that_was_taken(world: World) -> None:
    """The control: the profile's form, once as it is sent and once with another year."""
    path, own = world.path("ratings:profile"), {"save": "about", "degree": DEGREES[-1][0], "field": "x", "years": "3"}
    taken = writes(world, "rater", path, {**own, "field": SENTINEL})
    assert any(SENTINEL in text for text in taken.texts)
    assert taken.statements != writes(world, "rater", path, {**own, "years": "4"}).statements
