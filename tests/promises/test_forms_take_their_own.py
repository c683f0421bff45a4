"""No mass assignment: a form accepts its own fields and ignores others, even those named like columns."""

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
from ratings.web.account.profile import DEGREES
from tests.support.access_world import World, list_urls
from wetbench_site.access_table import ACCESS_TABLE

pytestmark = pytest.mark.django_db
PERSONS = {"superuser": ("superuser",), "admin": ("account", "staff", "admin"), "rater": ("account", "rater")}
SENTINEL = "987654321"  # valid as text, number, key and truth value
FORM = "application/x-www-form-urlencoded"
ROOMS = ("ratings", "simulation", "auth", "axes", "otp_totp", "otp_static")
# Columns with the same name as a field of a form that a script sends, or of a form in two steps.
SHARED_NAMES = {
    "ratings:rate": {"calculations"},
    "ratings:draft": {"note", "verdict", "confidence", "marks"},
    "ratings:sign_in_here": {"username", "password", "code"},
}


def list_columns() -> set[str]:
    """Return every column of every model, by field and by database name."""
    models = [model for model in apps.get_models() if model._meta.app_label in ROOMS]
    fields = [field for model in models for field in model._meta.concrete_fields]
    return {name for field in fields for name in (field.name, field.attname)}


class FormCollector(HTMLParser):
    """Collect what a page's forms would send: one submission per button, with required fields filled in."""

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

    def iter_submissions(self) -> Iterator[dict[str, str]]:
        """Yield what each button sends; one without a name sends the fields alone."""
        yield from ({**self.fields, name: value} for name, value in self.buttons or [("", "")])


class Writes:
    """Record what is written inside the block: each statement with its booleans and numbers, and the texts separately."""

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
        """Return the statements without numbers that differ between two submissions of the same form, such as random seeds."""
        kept = Writes()
        kept.texts = self.texts
        runs = zip_longest(self.statements, one.statements, other.statements, fillvalue=("", []))
        for (sql, numbers), (_, these), (_, those) in runs:
            known = zip_longest(numbers, these, those)
            kept.statements.append((sql, [number for number, this, that in known if this == that]))
        return kept


def record_writes(world: World, person: str, path: str, fields: dict[str, str]) -> Writes:
    """Return what such a form writes, and roll it back."""
    with connection.execute_wrapper(recorder := Writes()), transaction.atomic():
        world.send_request(person, "POST", path, data=urlencode(fields), content_type=FORM)
        transaction.set_rollback(True)
    return recorder


def iter_forms(world: World, person: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield (name, address, values) for every form that this person is shown. An address without a form on any page gets an empty one."""
    methods_by_name = {
        name: {method for role in PERSONS[person] for method in ACCESS_TABLE[name][role]}
        for name in sorted(list_urls())
    }
    shown_forms: list[tuple[str, Form]] = []
    for path in sorted(
        {
            world.build_path(name)
            for name in methods_by_name
            if "GET" in methods_by_name[name] and (name in PAGES_WITH_FORMS or "POST" in methods_by_name[name])
        }
    ):
        with transaction.atomic():
            response = world.send_request(person, "GET", path)
            transaction.set_rollback(True)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            shown_forms += [(form.action or path, form) for form in FormCollector(response.content.decode()).forms]
    for name, path in ((name, world.build_path(name)) for name in methods_by_name if "POST" in methods_by_name[name]):
        submissions = [sent for action, form in shown_forms if action == path for sent in form.iter_submissions()]
        distinct = {
            tuple((name, value) for name, value in submission.items() if name not in NEW_EACH_TIME): submission
            for submission in submissions
        }
        yield from ((name, path, sent) for sent in distinct.values() or [{}])


NEW_EACH_TIME = {"csrfmiddlewaretoken", "submission_id"}


# Pages that accept no form themselves but show forms of other addresses.
PAGES_WITH_FORMS = {
    "ratings:study",
    "ratings:raters",
    "ratings:desk",
    "simulation:episode",
    "simulation:run",
    "simulation:twin",
    "ratings:job",
}


def build_foreign_values(world: World, person: str) -> dict[str, str]:
    """Return, by column name, the key of an existing row of somebody else, as far as one value can be that for all models."""
    values = {
        "slug": world.other.slug,
        "rater": str(world.other.raters.order_by("pk")[0].code),
        "id": str(world.other.pk),
    }
    values["code"] = str(Assignment.objects.filter(rater__study=world.other).order_by("pk")[0].code)
    for model in apps.get_models():
        for column in model._meta.concrete_fields if model._meta.app_label in ROOMS else ():
            if isinstance(column, ForeignKey):
                rows = column.related_model._default_manager.order_by("pk" if person == "superuser" else "-pk")
                row = world.other if column.related_model is Study else rows.first()
                values |= {column.name: str(row.pk), column.attname: str(row.pk)} if row else {}
    return values


# Minimum number of addresses whose unchanged forms saved something.
MIN_SAVED = {"admin": 30, "rater": 12, "superuser": 35}


@pytest.mark.parametrize("person", ["admin", "rater", "superuser"])
def test_forms_ignore_columns_that_are_not_their_fields(world: World, person: str) -> None:
    every, wrong, saved = list_columns(), set(), set()
    for values in (dict.fromkeys(every, SENTINEL), build_foreign_values(world, person)):
        for name, path, fields in iter_forms(world, person):
            extra = {
                column: value
                for column, value in values.items()
                if column not in fields and column not in SHARED_NAMES.get(name, ())
            }
            without_extra, with_extra = (
                record_writes(world, person, path, fields),
                record_writes(world, person, path, {**extra, **fields}),
            )
            saved |= {name} if without_extra.statements else set()
            if without_extra.statements != with_extra.statements:
                repeated = record_writes(world, person, path, fields)
                without_extra, with_extra = (
                    without_extra.steady(without_extra, repeated),
                    with_extra.steady(without_extra, repeated),
                )
            if without_extra.statements != with_extra.statements or any(SENTINEL in text for text in with_extra.texts):
                wrong.add(
                    f"{name}: {[column for column in with_extra.statements if column not in without_extra.statements]}"[
                        :300
                    ]
                )
    assert wrong == set()
    assert len(saved) >= MIN_SAVED[person]


def test_control_write_recorder_detects_a_form_field_that_is_stored(world: World) -> None:
    """The control: the profile form, sent with another field of study and with another number of years."""
    path, fields = (
        world.build_path("ratings:profile"),
        {"save": "about", "degree": DEGREES[-1], "field": "x", "years": "3"},
    )
    written = record_writes(world, "rater", path, {**fields, "field": SENTINEL})
    assert any(SENTINEL in text for text in written.texts)
    assert written.statements != record_writes(world, "rater", path, {**fields, "years": "4"}).statements
