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
    Draft,
    Invitation,
    MachineRater,
    MachineRating,
    Membership,
    Rater,
    RaterProfile,
    Study,
    StudyEvent,
)
from ratings.models.study_events import Edited
from ratings.rating import answering, serving
from ratings.rating.answering import Timing
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.benchmarks import freezing
from ratings.results.benchmarks import playing as benchmark_playing
from ratings.studies import job_access, lifecycle
from ratings.studies.blinding_audit import auditing
from ratings.studies.blinding_audit.findings import Check, Leak
from simulation.jobs import jobs
from simulation.models import Episode, EvidenceReview, Run, Transition, Twin
from tests.support import job_factories, run_factory, study_factory
from wetbench_site.access_table import TABLE

pytestmark = pytest.mark.django_db

# Markup, template braces, a formula, a path, an attribute's end; then what turns, hides or rings.
MARKUP = """=cmd|'/c'!A1<script>alert("wb")</script><img src=x onerror=alert(1)>{{7*7}}{% load x %}../../'"--><svg/onload=1>"""
UNSEEN = "\u202egnp.exe\u202c\u200b\u2066\x07\x1b[31m\x85"
LONG = "x" * 4_000
WORSE = MARKUP + UNSEEN
UNSEEN_SIGNS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\ufeff]")
# What a step's JSON says in words of a closed list; everything else in it is somebody's free text.
CLOSED = {"barcode", "replaces", "derived_from", "available_for_use", "material_type", "environmental_condition",
          "started_at", "barcodes", "materials", "fidelity", "rejected_by"}  # fmt: skip


def poisoned(value: Any, key: str = "") -> Any:
    """The JSON with hostile text in every free text of it, values and names of properties alike."""
    if key in CLOSED:
        return value
    if isinstance(value, dict):
        return {
            (f"{name}{WORSE}" if key in ("properties", "parameters") else name): poisoned(part, name)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [poisoned(part, key) for part in value]
    if not isinstance(value, str) or key == "":
        return value
    return f"{value}{WORSE}"[:79] if key in SHORT else f"{value}{WORSE}"


SHORT = {"measurement_type"}


VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Reader(HTMLParser):
    """What a browser would make of a page: everything in it that could run, load or turn text around."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside: list[tuple[str, bool]] = []  # open elements, and whether htmx looks at nothing in them
        self.open_to_htmx: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        disabled = self.disabled or "hx-disable" in given
        if disabled and any(name.startswith("hx-") and name != "hx-disable" for name in given):
            self.found.append(f"<{tag}> asks for htmx where it is disabled")
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
    def disabled(self) -> bool:
        return bool(self.inside) and self.inside[-1][1]

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "gnp.exe" in data and not self.disabled:  # of WORSE: what models, uploads and notes say
            self.open_to_htmx.append(
                f"not in hx-disable: {data.strip()[:20]} in {[name for name, _ in self.inside[-3:]]}"
            )
        if found := UNSEEN_SIGNS.search(data):
            self.found.append(f"unseen {found.group()!r} in {data.strip()[:60]!r}")


@pytest.fixture
def world(settings: Any) -> dict[str, Any]:
    """A laboratory in which everything that can be written is hostile."""
    root = User.objects.create_superuser("root" + MARKUP[:60], "root@example.org", "pw")
    ada = User.objects.create_user("ada" + MARKUP[:60], is_staff=True, first_name=MARKUP[:100])
    analyst = User.objects.create_user("ana" + MARKUP[:60])
    _laboratory()
    study = _transition_study(ada)
    evidence = _evidence_study(ada)
    draft = lifecycle.create_study(lifecycle.read_protocol(_texts(study_factory.protocol(slug="draft-one"))), by=ada)
    for one in (study, evidence, draft):
        Membership.objects.create(study=one, user=analyst, role="analyst")
    _longer_work(evidence, ada)
    return {"superuser": root, "staff": ada, "analyst": analyst, "study": study, "evidence": evidence, "draft": draft}


def _laboratory() -> None:
    run_factory.pool(transitions=8)
    run_factory.evidence_pool(episodes=4, cast="offline-lapses")
    for row in Transition.objects.all():
        row.step = poisoned(row.step)
        row.findings = None
        row.save()
    for twin in Twin.objects.all():
        twin.outcome = poisoned(twin.outcome)
        twin.why = twin.rule = twin.kind = WORSE[:60]
        twin.diff = [{"path": WORSE, "before": WORSE, "after": WORSE}]
        twin.field = ""
        twin.save()
    twin = Twin.objects.filter(perturbation="subtle").first()
    assert twin
    Twin.objects.filter(pk=twin.pk).update(error=WORSE)
    Episode.objects.filter(status="failed").update(error=WORSE)
    for review in EvidenceReview.objects.all():
        review.verdict = {**review.verdict, "reasoning": WORSE, "feedback": WORSE}
        review.save()


def _texts(document: dict[str, Any]) -> dict[str, Any]:
    """The document with hostile text wherever a person writes some; only what the reader of documents lets through."""
    return {
        **document, "name": MARKUP[:110], "question": MARKUP, "guide": MARKUP, "consent": MARKUP, "contact": MARKUP[:100],
        "experiments": "all", "practice": 0,
        "display": {"layouts": ["balance"], "context": [True], "marks": ["always"], "by": "rater"},
    }  # fmt: skip


def _transition_study(ada: User) -> Study:
    study = lifecycle.create_study(lifecycle.read_protocol(_texts(study_factory.protocol(slug="one", sources=[
        {"cast": "offline", "perturbation": "none", "count": 3}], ratings_per_item=2, raters=3))), by=ada)  # fmt: skip
    step = Transition.objects.first()
    assert step
    line = {
        "id": MARKUP[:100], "source": MARKUP[:70], "truth": "type2", "experiment": MARKUP[:70],
        "input_materials": step.step["inputs"], "action": poisoned(step.step["action"]) | {"name": MARKUP[:79]},
        "outcome": poisoned(step.step["outcome"]), "goal": MARKUP,
    }  # fmt: skip
    line["input_materials"][0]["name"] = "n" + LONG[:3_000]
    for material in line["input_materials"] + line["outcome"]["new_materials"]:
        for name in ("created_at", "last_modified"):
            material.setdefault(name, 0)
    item_imports.take(study, BytesIO(dumps(line).encode()), by=ada)
    lifecycle.open_study(study, by=ada)
    study.refresh_from_db()
    _people(study, ada)
    return study


def _people(study: Study, ada: User) -> None:
    seat = study_factory.seat(study)
    user = seat.user
    assert user
    user.username = user.first_name = MARKUP[:100]
    user.save()
    RaterProfile.objects.create(user=user, degree=WORSE[:60], field=WORSE[:120], years=3, answered_at=timezone.now())
    rated = serving.next_assignment(seat)
    assert rated
    serving.mark_opened(rated)
    answering.rate(rated, False, 2, uuid.uuid4(), note=WORSE + LONG[:1_000], timing=Timing())
    if following := serving.next_assignment(seat):
        Draft.objects.create(assignment=following, verdict=True, note=WORSE)
    free = study.raters.filter(user=None).first()
    assert free
    Invitation.objects.create(
        seat=free, email="a@example.org", token_sha256="0" * 64, expires_at=timezone.now(), send_error=WORSE[:300],
        sent_at=timezone.now(),
    )  # fmt: skip
    free.invited_at = timezone.now()
    free.save()
    StudyEvent.record(study, Edited(part=WORSE[:300]), by=ada)
    found = [Check("hostile", WORSE, 1, [Leak(WORSE, WORSE)]), Check("left out", WORSE, skipped=WORSE)]
    auditing.store(study, {**auditing.report(study, found), "known_tells": [WORSE]}, by=ada)


def _evidence_study(ada: User) -> Study:
    document = _texts(study_factory.evidence_protocol(slug="two", ratings_per_item=1, raters=1))
    document |= {"sources": [{"cast": "offline-lapses", "count": 3}], "display": {}}
    study = lifecycle.create_study(lifecycle.read_protocol(document), by=ada)
    lifecycle.open_study(study, by=ada)
    study.refresh_from_db()
    item = study.items.first()
    assert item
    header, cell = "item,rater,verdict,confidence,note", MARKUP[:90].replace('"', '""')
    rating_imports.take(study, BytesIO(f'{header}\n{item.code},"{cell}",1,3,"{cell}"\n'.encode()), by=ada)
    study_factory.rate_all(study_factory.seat(study))
    lifecycle.close_and_unblind(study, ada)
    study.refresh_from_db()
    return study


def _longer_work(study: Study, ada: User) -> None:
    """A benchmark, results with a machine among the raters, and jobs that tell of all of it."""
    rater = MachineRater.objects.create(study=study, label="M1", cast=MARKUP[:80], name=MARKUP[:110])
    for item in study.items.all():
        MachineRating.objects.create(
            rater=rater, item=item, verdict=True, payload_sha256="0" * 64, reasoning=WORSE, failed=""
        )
    jobs.play_here(store.look(study, Filters()).job)
    frozen = freezing.freeze(MARKUP[:110], list(Run.objects.filter(kind="episodes")), ada, note=WORSE + LONG)
    benchmark_playing.compute(frozen)
    for status in ("queued", "running", "done", "failed"):
        told = {
            "said": MARKUP,
            "error": WORSE if status == "failed" else "",
            "result": {"said": WORSE, "label": MARKUP, "href": "/"},
        }
        job_factories.job(job_access.subject(study), status, "machine_rating", **{**told, "said": WORSE[:200]})


def addresses(world: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, address) of every page of the site with every kind of object behind it."""
    codes = _codes()
    for name in TABLE:
        for study in (world["study"], world["evidence"], world["draft"]):
            seat = study.raters.exclude(user=None).first() or Rater(label="R01")
            for code in codes.get(name, [uuid.uuid4()]):
                try_with = {"slug": study.slug, "other": study.slug, "label": seat.label, "seat": seat.code, "code": code, "token": "forged",
                            "number": 1, "step": "items", "job": code, "file": 1, "name": "rates"}  # fmt: skip
                yield from ((name, _reversed(name, {**try_with, "ending": ending})) for ending in ("svg", "csv"))


def _codes() -> dict[str, list[uuid.UUID]]:
    from ratings.models import Assignment, Benchmark, Item
    from simulation.models import Job

    first = {"simulation:episode": Episode, "simulation:run": Run, "simulation:twin": Twin, "ratings:vet": Twin,
             "ratings:item": Item, "simulation:run_calls": Run, "ratings:benchmark": Benchmark,
             "ratings:job": Job}  # fmt: skip
    found = {
        name: list(model.objects.order_by("-pk").values_list("code", flat=True)[:4]) for name, model in first.items()
    }
    places = Assignment.objects.exclude(rater__user=None).order_by("rater", "position")
    return {**found, "ratings:rate": list(places.values_list("code", flat=True))}


def _reversed(name: str, values: dict[str, Any]) -> str:
    for wanted in ((), ("slug",), ("seat",), ("code",), ("token",), ("slug", "label"), ("slug", "other"), ("slug", "code"), ("slug", "step"),
                   ("slug", "number"), ("code", "number"), ("job",), ("job", "file"), ("slug", "name"), ("code", "name"),
                   ("slug", "name", "ending"), ("code", "name", "ending")):  # fmt: skip
        try:
            return reverse(name, kwargs={key: values[key] for key in wanted})
        except NoReverseMatch:  # an address with other parts
            continue
    raise AssertionError(f"{name}: give its kind of address above")


def wrong_with(response: HttpResponseBase) -> list[str]:
    """What in a page or a drawing could run, load or mislead."""
    if response.get("Content-Type", "") == "image/svg+xml":
        return _wrong_in_drawing(response.content)
    if not response.get("Content-Type", "").startswith("text/html") or response.streaming:
        return []
    reader = Reader()
    text = response.content.decode()
    reader.feed(text)
    raw = ["raw markup"] if "<script>alert" in text or "<img src=x" in text or "<svg/onload" in text else []
    return raw + reader.found + reader.open_to_htmx + (["a template ran"] if "alert(1)&gt;49" in text else [])


def _wrong_in_drawing(content: bytes) -> list[str]:
    """A file that a browser would open by itself: no element that runs or loads, no attribute that refers or reacts."""
    every = list(ElementTree.fromstring(content).iter())
    tags = {element.tag.rpartition("}")[2] for element in every} - DRAWN
    attributes = {name for element in every for name in element.attrib if name.startswith("on") or "href" in name}
    return [*sorted(tags), *sorted(attributes)]


DRAWN = {"svg", "g", "path", "line", "rect", "text", "tspan", "title", "style"}
# Pages of longer work and of results: the superuser must have met hostile text on each of them.
RESULTS = {
    "ratings:study",
    "ratings:item",
    "ratings:job",
    "ratings:benchmark",
    "ratings:benchmarks",
    "ratings:machines",
}
# Pages that show items: whatever a model, an upload or a note says stands where htmx looks at nothing.
HELD_APART = {"ratings:item", "ratings:vet", "ratings:job", "ratings:study", "ratings:benchmark"}
OWN = {"staff": ("staff", "admin")}
# Pages that answer htmx with a part of themselves.
FRAGMENTS = {
    "ratings:rate", "ratings:next", "ratings:machines", "ratings:job", "ratings:practice", "simulation:twins", "simulation:episodes",
    "simulation:episode", "simulation:run", "simulation:experiments", "simulation:new_person", "simulation:play",
}  # fmt: skip
LEAST = {"superuser": 20, "staff": 20, "analyst": 4, "rater": 5}  # pages of each role that must have shown some


def test_hostile_text_is_shown_as_text_on_every_page(world: dict[str, Any]) -> None:
    # Staff who made a study see what its admins see, and superusers see that too: staff have their round below.
    assert walked(world, ("superuser", "analyst", "rater")) == set()


@pytest.mark.thorough
def test_hostile_text_is_shown_to_staff_as_text_too(world: dict[str, Any]) -> None:
    assert walked(world, ("staff",)) == set()


def walked(world: dict[str, Any], roles: tuple[str, ...]) -> set[tuple[str, str, str]]:
    """What is wrong with the pages of these roles, whole and as fragments."""
    every, wrong = sorted(set(addresses(world))), set()
    for role in roles:
        met = set()
        for client in visitors(world, role):
            for name, address in every:
                for response in answers(client, role, name, address):
                    assert response.status_code < 500 or name == "readyz", address
                    wrong |= {
                        (name, role, what)
                        for what in wrong_with(response)
                        if name in HELD_APART or not what.startswith("not in hx-disable")
                    }
                    if response.status_code == 200 and not response.streaming and b"=cmd|" in response.content:
                        met.add(name)
        assert len(met) >= LEAST[role], (role, met)
        assert role != "superuser" or met >= RESULTS, RESULTS - met
    return wrong


def answers(client: Client, role: str, name: str, address: str) -> Iterator[Any]:
    """The page, and its fragment where there is one; nothing of pages that the table keeps from this role (test_access.py)."""
    if any("GET" in TABLE[name][one] for one in ("account", *OWN.get(role, (role,)))):
        yield (page := client.get(address))
        if page.status_code == 200 and name in FRAGMENTS:
            yield client.get(address, headers={"HX-Request": "true"})


def visitors(world: dict[str, Any], role: str) -> Iterator[Client]:
    raters = [study.raters.exclude(user=None).first() for study in (world["study"], world["evidence"])]
    for user in [rater.user for rater in raters] if role == "rater" else [world[role]]:
        client = Client()
        client.force_login(user)
        yield client
