"""Hostile strings in every field that a model, a file or a person can fill: every page of every role shows them as text."""

import re
import uuid
from collections.abc import Iterator
from html.parser import HTMLParser
from io import BytesIO
from json import dumps
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from ratings.exchange.imports import item_imports, rating_imports
from ratings.models import (
    Invitation,
    MachineRater,
    MachineRating,
    Membership,
    Rater,
    RaterProfile,
    Study,
    StudyEvent,
    UnsavedAnswer,
)
from ratings.models.study_events import Edited
from ratings.rating import next_item, submit
from ratings.rating.submit import Timing
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.benchmarks import benchmark_job as benchmark_playing
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import access, lifecycle
from ratings.studies.blinding_audit import audit_runner
from ratings.studies.blinding_audit.findings import Check, Leak
from simulation.jobs import jobs
from simulation.models import Episode, EvidenceReview, Run, Transition, Twin
from tests.support import job_factories, run_factory, study_factory
from wetbench_site.access_table import ACCESS_TABLE

pytestmark = pytest.mark.django_db

# Markup, template braces, a formula, a path, the end of an attribute; then characters that reverse or hide text or ring a bell.
MARKUP = """=cmd|'/c'!A1<script>alert("wb")</script><img src=x onerror=alert(1)>{{7*7}}{% load x %}../../'"--><svg/onload=1>"""
INVISIBLE = "\u202egnp.exe\u202c\u200b\u2066\x07\x1b[31m\x85"
LONG = "x" * 4_000
MARKUP_AND_INVISIBLE = MARKUP + INVISIBLE
INVISIBLE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\ufeff]"
)
# Fields of a step with values from a closed list; everything else is free text.
CLOSED_FIELDS = {"barcode", "replaces", "derived_from", "available_for_use", "material_type", "environmental_condition",
          "started_at", "barcodes", "materials", "fidelity", "rejected_by"}  # fmt: skip


def add_hostile_text(value: Any, key: str = "") -> Any:
    """Return the JSON with hostile text in every free text, in values and property names alike."""
    if key in CLOSED_FIELDS:
        return value
    if isinstance(value, dict):
        return {
            (f"{name}{MARKUP_AND_INVISIBLE}" if key in ("properties", "parameters") else name): add_hostile_text(
                part, name
            )
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [add_hostile_text(part, key) for part in value]
    if not isinstance(value, str) or key == "":
        return value
    return f"{value}{MARKUP_AND_INVISIBLE}"[:79] if key in SHORT_FIELDS else f"{value}{MARKUP_AND_INVISIBLE}"


SHORT_FIELDS = {"measurement_type"}


VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class PageScanner(HTMLParser):
    """Collect everything in a page that could run, load or reverse text in a browser."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside: list[tuple[str, bool]] = []  # open elements, and whether htmx is disabled in them
        self.open_to_htmx: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        disabled = self.is_htmx_disabled or "hx-disable" in given
        if disabled and any(name.startswith("hx-") and name != "hx-disable" for name in given):
            self.found.append(f"<{tag}> uses htmx where it is disabled")
        if tag not in VOID:
            self.inside.append((tag, disabled))
        if (
            tag == "script"
            and not (given.get("src") or "").startswith("/static/")
            and given.get("type") != "application/json"
        ):
            self.found.append(f"<{tag}> {attrs}")
        if tag in ("iframe", "object", "embed", "base", "style") or (tag == "img" and given.get("src") == "x"):
            self.found.append(f"<{tag}> {attrs}")
        for name, value in attrs:
            if (
                name.startswith("on")
                or name in ("style", "srcdoc")
                or (value or "").strip().lower().startswith("javascript:")
            ):
                self.found.append(f"{tag} {name}={value}")

    @property
    def is_htmx_disabled(self) -> bool:
        return bool(self.inside) and self.inside[-1][1]

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "gnp.exe" in data and not self.is_htmx_disabled:  # part of INVISIBLE: texts of models, uploads and notes
            self.open_to_htmx.append(
                f"not in hx-disable: {data.strip()[:20]} in {[name for name, _ in self.inside[-3:]]}"
            )
        if found := INVISIBLE_CHARACTERS.search(data):
            self.found.append(f"unseen {found.group()!r} in {data.strip()[:60]!r}")


@pytest.fixture
def world(settings: Any) -> dict[str, Any]:
    """Create a laboratory and studies in which every writable text is hostile."""
    root = User.objects.create_superuser("root" + MARKUP[:60], "root@example.org", "pw")
    ada = User.objects.create_user("ada" + MARKUP[:60], is_staff=True, first_name=MARKUP[:100])
    analyst = User.objects.create_user("ana" + MARKUP[:60])
    _create_laboratory()
    study = _create_transition_study(ada)
    evidence = _create_evidence_study(ada)
    draft = lifecycle.create_study(
        lifecycle.parse_protocol(_add_hostile_texts(study_factory.build_protocol(slug="draft-one"))), by=ada
    )
    for some_study in (study, evidence, draft):
        Membership.objects.create(study=some_study, user=analyst, role="analyst")
    _create_jobs_and_results(evidence, ada)
    return {"superuser": root, "staff": ada, "analyst": analyst, "study": study, "evidence": evidence, "draft": draft}


def _create_laboratory() -> None:
    run_factory.create_pool(transitions=8)
    run_factory.create_evidence_pool(episodes=4, cast="offline-lapses")
    for row in Transition.objects.all():
        row.step = add_hostile_text(row.step)
        row.findings = None
        row.save()
    for twin in Twin.objects.all():
        twin.outcome = add_hostile_text(twin.outcome)
        twin.explanation = twin.rule = twin.kind = MARKUP_AND_INVISIBLE[:60]
        twin.diff = [{"path": MARKUP_AND_INVISIBLE, "before": MARKUP_AND_INVISIBLE, "after": MARKUP_AND_INVISIBLE}]
        twin.field = ""
        twin.save()
    twin = Twin.objects.filter(perturbation="subtle").first()
    assert twin
    Twin.objects.filter(pk=twin.pk).update(error=MARKUP_AND_INVISIBLE)
    Episode.objects.filter(status="failed").update(error=MARKUP_AND_INVISIBLE)
    for review in EvidenceReview.objects.all():
        review.verdict = {**review.verdict, "reasoning": MARKUP_AND_INVISIBLE, "feedback": MARKUP_AND_INVISIBLE}
        review.save()


def _add_hostile_texts(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with hostile text in every text written by a person, as far as validation accepts it."""
    return {
        **document, "name": MARKUP[:110], "question": MARKUP, "guide": MARKUP, "consent": MARKUP, "contact": MARKUP[:100],
        "experiments": "all", "practice": 0,
        "display": {"layouts": ["balance"], "context": [True], "marks": ["always"], "by": "rater"},
    }  # fmt: skip


def _create_transition_study(ada: User) -> Study:
    study = lifecycle.create_study(lifecycle.parse_protocol(_add_hostile_texts(study_factory.build_protocol(slug="one", sources=[
        {"cast": "offline", "perturbation": "none", "count": 3}], ratings_per_item=2, raters=3))), by=ada)  # fmt: skip
    step = Transition.objects.first()
    assert step
    line = {
        "id": MARKUP[:100], "source": MARKUP[:70], "truth": "type2", "experiment": MARKUP[:70],
        "input_materials": step.step["inputs"], "action": add_hostile_text(step.step["action"]) | {"name": MARKUP[:79]},
        "outcome": add_hostile_text(step.step["outcome"]), "goal": MARKUP,
    }  # fmt: skip
    line["input_materials"][0]["name"] = "n" + LONG[:3_000]
    for material in line["input_materials"] + line["outcome"]["new_materials"]:
        for name in ("created_at", "last_modified"):
            material.setdefault(name, 0)
    item_imports.import_file(study, BytesIO(dumps(line).encode()), user=ada)
    lifecycle.open_study(study, by=ada)
    study.refresh_from_db()
    _create_people(study, ada)
    return study


def _create_people(study: Study, ada: User) -> None:
    rater = study_factory.fill_rater_place(study)
    user = rater.user
    assert user
    user.username = user.first_name = MARKUP[:100]
    user.save()
    RaterProfile.objects.create(
        user=user,
        degree=MARKUP_AND_INVISIBLE[:60],
        field=MARKUP_AND_INVISIBLE[:120],
        years=3,
        answered_at=timezone.now(),
    )
    assignment = next_item.find_next_assignment(rater)
    assert assignment
    next_item.mark_opened(assignment)
    submit.submit_rating(assignment, False, 2, uuid.uuid4(), note=MARKUP_AND_INVISIBLE + LONG[:1_000], timing=Timing())
    if next_assignment := next_item.find_next_assignment(rater):
        UnsavedAnswer.objects.create(assignment=next_assignment, verdict=True, note=MARKUP_AND_INVISIBLE)
    open_place = study.raters.filter(user=None).first()
    assert open_place
    Invitation.objects.create(
        rater=open_place, email="a@example.org", token_sha256="0" * 64, expires_at=timezone.now(), send_error=MARKUP_AND_INVISIBLE[:300],
        sent_at=timezone.now(),
    )  # fmt: skip
    open_place.invited_at = timezone.now()
    open_place.save()
    StudyEvent.record_event(study, Edited(part=MARKUP_AND_INVISIBLE[:300]), by=ada)
    checks = [
        Check("hostile", MARKUP_AND_INVISIBLE, 1, [Leak(MARKUP_AND_INVISIBLE, MARKUP_AND_INVISIBLE)]),
        Check("left out", MARKUP_AND_INVISIBLE, skipped=MARKUP_AND_INVISIBLE),
    ]
    audit_runner.store_report(
        study, {**audit_runner.build_report(study, checks), "known_tells": [MARKUP_AND_INVISIBLE]}, by=ada
    )


def _create_evidence_study(ada: User) -> Study:
    document = _add_hostile_texts(study_factory.build_evidence_protocol(slug="two", ratings_per_item=1, raters=1))
    document |= {"sources": [{"cast": "offline-lapses", "count": 3}], "display": {}}
    study = lifecycle.create_study(lifecycle.parse_protocol(document), by=ada)
    lifecycle.open_study(study, by=ada)
    study.refresh_from_db()
    item = study.items.first()
    assert item
    header, cell = "item,rater,verdict,confidence,note", MARKUP[:90].replace('"', '""')
    rating_imports.import_file(study, BytesIO(f'{header}\n{item.code},"{cell}",1,3,"{cell}"\n'.encode()), user=ada)
    study_factory.rate_everything(study_factory.fill_rater_place(study))
    lifecycle.close_and_unblind(study, ada)
    study.refresh_from_db()
    return study


def _create_jobs_and_results(study: Study, ada: User) -> None:
    """Create a benchmark, results with a model rater, and jobs that mention all of it."""
    rater = MachineRater.objects.create(study=study, label="M1", cast=MARKUP[:80], name=MARKUP[:110])
    for item in study.items.all():
        MachineRating.objects.create(
            rater=rater, item=item, verdict=True, payload_sha256="0" * 64, reasoning=MARKUP_AND_INVISIBLE, failed=""
        )
    jobs.run_job_here(store.get_or_request(study, Filters()).job)
    frozen = benchmark_store.freeze_benchmark(
        MARKUP[:110], list(Run.objects.filter(kind="episodes")), ada, note=MARKUP_AND_INVISIBLE + LONG
    )
    benchmark_playing.compute_benchmark(frozen)
    for status in ("queued", "running", "done", "failed"):
        texts = {
            "message": MARKUP,
            "error": MARKUP_AND_INVISIBLE if status == "failed" else "",
            "result": {"said": MARKUP_AND_INVISIBLE, "label": MARKUP, "href": "/"},
        }
        job_factories.create_job(
            access.format_subject(study),
            status,
            "machine_rating",
            **{**texts, "message": MARKUP_AND_INVISIBLE[:200]},
        )


def iter_addresses(world: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, address) of every page, for every kind of object."""
    codes = _collect_codes()
    for name in ACCESS_TABLE:
        for study in (world["study"], world["evidence"], world["draft"]):
            rater = study.raters.exclude(user=None).first() or Rater(label="R01")
            for code in codes.get(name, [uuid.uuid4()]):
                values = {"slug": study.slug, "other": study.slug, "label": rater.label, "rater": rater.code, "code": code, "token": "forged",
                            "number": 1, "step": "items", "job": code, "file": 1, "name": "rates",
                            "key": "u1-001"}  # fmt: skip
                for ending, section in zip(("svg", "csv", "svg", "csv", "svg"), RESULT_SECTIONS, strict=True):
                    yield name, _reverse_url(name, {**values, "ending": ending, "section": section})


def _collect_codes() -> dict[str, list[uuid.UUID]]:
    from ratings.models import Assignment, Benchmark, Item
    from simulation.models import Job

    models = {"simulation:episode": Episode, "simulation:run": Run, "simulation:twin": Twin, "ratings:vet": Twin,
             "ratings:item": Item, "simulation:run_calls": Run, "ratings:benchmark": Benchmark,
             "ratings:job": Job}  # fmt: skip
    codes = {
        name: list(model.objects.order_by("-pk").values_list("code", flat=True)[:4]) for name, model in models.items()
    }
    assignments = Assignment.objects.exclude(rater__user=None).order_by("rater", "position")
    return {**codes, "ratings:rate": list(assignments.values_list("code", flat=True))}


def _reverse_url(name: str, values: dict[str, Any]) -> str:
    for keys in ((), ("slug",), ("rater",), ("code",), ("token",), ("slug", "label"), ("slug", "other"), ("slug", "code"), ("slug", "step"),
                   ("slug", "number"), ("code", "number"), ("name",), ("job",), ("job", "file"), ("slug", "name"), ("code", "name"),
                   ("slug", "name", "ending"), ("code", "name", "ending"), ("slug", "section"), ("slug", "key")):  # fmt: skip
        try:
            return reverse(name, kwargs={key: values[key] for key in keys})
        except NoReverseMatch:  # an address with other parameters
            continue
    raise AssertionError(f"{name}: give its kind of address above")


def find_dangers(response: HttpResponseBase) -> list[str]:
    """Return everything in a page or figure that could run, load or mislead."""
    if response.get("Content-Type", "") == "image/svg+xml":
        return _find_dangers_in_figure(response.content)
    if not response.get("Content-Type", "").startswith("text/html") or response.streaming:
        return []
    scanner = PageScanner()
    text = response.content.decode()
    scanner.feed(text)
    raw_markup = ["raw markup"] if "<script>alert" in text or "<img src=x" in text or "<svg/onload" in text else []
    return raw_markup + scanner.found + scanner.open_to_htmx + (["a template ran"] if "alert(1)&gt;49" in text else [])


def _find_dangers_in_figure(content: bytes) -> list[str]:
    """Check a file that a browser may open by itself: no element that runs or loads, no attribute that refers or reacts."""
    elements = list(ElementTree.fromstring(content).iter())
    tags = {element.tag.rpartition("}")[2] for element in elements} - SVG_ELEMENTS
    attributes = {name for element in elements for name in element.attrib if name.startswith("on") or "href" in name}
    return [*sorted(tags), *sorted(attributes)]


RESULT_SECTIONS = ("rates", "groups", "items", "statistics", "about")
# The last five are metadata.
SVG_ELEMENTS = {
    *("svg", "g", "path", "line", "rect", "text", "tspan", "title", "style"),
    *("metadata", "RDF", "Description", "subject", "description"),
}
# Pages of jobs and of results: each must have shown hostile text to the superuser.
RESULTS = {
    "ratings:study",
    "ratings:results",
    "ratings:item",
    "ratings:job",
    "ratings:benchmark",
    "ratings:benchmarks",
    "ratings:machines",
}
# Pages that show items: texts of models, uploads and notes must be inside an element with hx-disable.
HTMX_DISABLED_PAGES = {
    "ratings:item",
    "ratings:vet",
    "ratings:job",
    "ratings:study",
    "ratings:results",
    "ratings:benchmark",
}
OWN = {"staff": ("staff", "admin")}
# Pages that answer htmx with a fragment.
FRAGMENTS = {
    "ratings:rate", "ratings:next", "ratings:machines", "ratings:job", "ratings:practice", "simulation:new_twins", "simulation:episodes",
    "simulation:episode", "simulation:run", "simulation:experiments", "simulation:new_person", "simulation:play",
}  # fmt: skip
MIN_PAGES = {
    "superuser": 20,
    "staff": 20,
    "analyst": 4,
    "rater": 5,
}  # minimum number of pages with hostile text per role


def test_hostile_text_is_shown_as_text_on_every_page(world: dict[str, Any]) -> None:
    # Staff who created a study see the pages of its admins, as superusers do: staff have their own test below.
    assert check_pages(world, ("superuser", "analyst", "rater")) == set()


@pytest.mark.thorough
def test_hostile_text_is_shown_as_text_to_staff(world: dict[str, Any]) -> None:
    assert check_pages(world, ("staff",)) == set()


def check_pages(world: dict[str, Any], roles: tuple[str, ...]) -> set[tuple[str, str, str]]:
    """Return what is wrong with the pages of these roles, complete and as fragments."""
    all_addresses, dangers = sorted(set(iter_addresses(world))), set()
    for role in roles:
        pages_with_text = set()
        for client in iter_clients(world, role):
            for name, address in all_addresses:
                for response in iter_responses(client, role, name, address):
                    assert response.status_code < 500 or name == "readyz", address
                    dangers |= {
                        (name, role, danger)
                        for danger in find_dangers(response)
                        if name in HTMX_DISABLED_PAGES or not danger.startswith("not in hx-disable")
                    }
                    if response.status_code == 200 and not response.streaming and b"=cmd|" in response.content:
                        pages_with_text.add(name)
        assert len(pages_with_text) >= MIN_PAGES[role], (role, pages_with_text)
        assert role != "superuser" or pages_with_text >= RESULTS, RESULTS - pages_with_text
    return dangers


def iter_responses(client: Client, role: str, name: str, address: str) -> Iterator[Any]:
    """Yield the page and its fragment if it has one; nothing for pages that the table denies to this role (see test_access.py)."""
    if any("GET" in ACCESS_TABLE[name][table_role] for table_role in ("account", *OWN.get(role, (role,)))):
        yield (page := client.get(address))
        if page.status_code == 200 and name in FRAGMENTS:
            yield client.get(address, headers={"HX-Request": "true"})


def iter_clients(world: dict[str, Any], role: str) -> Iterator[Client]:
    raters = [study.raters.exclude(user=None).first() for study in (world["study"], world["evidence"])]
    for user in [rater.user for rater in raters] if role == "rater" else [world[role]]:
        client = Client()
        client.force_login(user)
        yield client
