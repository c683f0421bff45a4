"""Every item of a study, seen by every rater: nothing in pages, headers or addresses reveals where it came from.

The items are real: played, twinned and opened by the laboratory's own code. The forbidden texts are collected from the rows
that raters must not see.
"""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from ratings.models import ItemSource, Rater, Study
from ratings.raters import invitations
from ratings.studies import lifecycle, public_page
from simulation.models import Experiment, Transition, Twin
from simulation.runs import create
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end

pytestmark = pytest.mark.django_db

SLUG = "zebrafish-genotyping"
# Words of the unblinded side that no page for raters needs.
WORDS = (
    "SECRET", "perturb", "twin", "obvious", "subtle", "inject", "unperturbed", "planted", "offline", "checklist",
    "reasoning", "fidelity", "ledger", "provenance", "simulat", "ItemSource", "MAT-", "lapses",
)  # fmt: skip


@pytest.fixture(scope="module")
def laboratory(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Two zebrafish episodes with twins of both kinds, once for all tests. Every reasoning contains SECRET, as models write it under an error prompt."""
    with django_db_blocker.unblock(), transaction.atomic():
        play_episodes_and_twins()
        yield
        transaction.set_rollback(True)


def play_episodes_and_twins() -> None:
    store_laboratory()
    experiment = Experiment.objects.get(slug=SLUG)
    for cast, replicates in (("offline", 1), ("offline-lapses", 2)):
        run_to_end(create.create_episode_run([experiment], cast, replicates, seed=5))
    protocol = Transition.objects.filter(episode__cast="offline")
    run_to_end(create.create_twin_run(protocol, ["obvious", "subtle"], seed=6))
    for row in Transition.objects.all():
        row.step["outcome"]["reasoning"] = "SECRET: LEAK-REASONING"
        row.save(update_fields=["step"])
    for twin in Twin.objects.filter(status="done"):
        twin.outcome["reasoning"] = f"SECRET: {twin.explanation}"
        twin.save(update_fields=["outcome"])


def create_open_study(kind: str) -> Study:
    sources = {
        "transition_plausibility": [("offline", "none", 4), ("offline-lapses", "none", 2), ("offline", "obvious", 4),
                                    ("offline", "subtle", 4)],
        "evidence_sufficiency": [("offline", "none", 1), ("offline-lapses", "none", 2)],
    }[kind]  # fmt: skip
    document = {
        "name": "Round one",
        "slug": "round-one",
        "kind": kind,
        "sources": [{"cast": c, "perturbation": p, "count": n} for c, p, n in sources],
        "ratings_per_item": 2,
        "practice": 0,
        "seed": 8,
    }
    study = lifecycle.create_study(lifecycle.parse_protocol(document))
    lifecycle.open_study(study)
    study.refresh_from_db()
    return study


def collect_secrets(study: Study) -> set[str]:
    """Return everything that could reveal a source: codes, digests, and kind, position, rule and explanation of the planted error."""
    secrets = {SLUG}
    for source in ItemSource.objects.filter(item__study=study).select_related("transition__episode", "twin", "item"):
        secrets |= {str(source.pair), str(source.item.code), source.item.payload_sha256}
        if source.transition:
            secrets |= {
                str(source.transition.code),
                str(source.transition.episode.code),
                source.transition.content_sha256,
            }
        if source.twin:
            secrets |= {
                str(source.twin.code),
                source.twin.kind,
                source.twin.field,
                source.twin.rule,
                source.twin.explanation,
            }
    return {text for text in secrets if text}


def find_leaks(response: HttpResponse, url: str, secrets: set[str]) -> set[str]:
    """Return the secrets and words that occur anywhere in a response: body, headers or address."""
    headers = json.dumps(dict(response.headers.items()))
    everything = "\n".join((url, headers, response.getvalue().decode())).lower()
    found_words = {word for word in WORDS if re.search(rf"\b{re.escape(word.lower())}", everything)}
    return found_words | {secret for secret in secrets if secret.lower() in everything}


def iter_rater_responses(rater: Rater) -> Iterator[tuple[str, HttpResponse]]:
    """Yield every response that this rater's browser gets, from the invitation to the last page, with and without htmx."""
    client = Client()
    invitation = f"/r/{invitations.create_invitation(rater)}/"
    yield "invitation", client.get(invitation)
    consent = {"consent": "on", "degree": "Doctorate (PhD, DPhil, MD)", "field": "Genetics", "years": "7"}
    yield "invitation", client.post(invitation, consent)
    guide = f"/rate/study/{rater.code}/guide/"
    yield guide, client.get(guide)
    yield guide, client.post(guide)
    for assignment in rater.assignments.order_by("position"):
        url = f"/rate/{assignment.code}/"
        yield "/rate/", client.get("/rate/")
        yield url, client.get(url)
        yield url, client.get(url, headers={"HX-Request": "true"})
        yield url, client.post(url, {"verdict": "yes"})
        page = client.get(url).content.decode()
        submission = re.search(r'name="submission_id"[^>]*value="([^"]+)"', page)
        assert submission, page
        answer = {"verdict": "yes", "confidence": "3", "submission_id": submission[1]}
        yield url, client.post(url, answer)
        yield url, client.get(url)
        stale = {**answer, "submission_id": str(uuid.uuid4()), "confidence": "1"}
        yield url, client.post(url, stale)
    for path in (f"/rate/study/{rater.code}/done/", "/rate/mine.csv", "/rate/profile/"):
        yield path, client.get(path)


@pytest.mark.parametrize("kind", ["transition_plausibility", "evidence_sufficiency"])
def test_blinding_no_response_to_a_rater_reveals_a_source(laboratory: None, kind: str) -> None:
    study = create_open_study(kind)
    secrets = collect_secrets(study)
    items = set()
    for rater in study.raters.all():
        for url, response in iter_rater_responses(rater):
            assert find_leaks(response, url, secrets) == set(), url
            assert response.status_code in (200, 302, 303, 409, 422), url
        items |= set(rater.assignments.values_list("item", flat=True))
    assert len(items) == study.items.count() > 2
    assert not study.raters.filter(assignments__rating__isnull=True).exists()


def test_blinding_no_response_to_a_stranger_reveals_an_item(laboratory: None) -> None:
    study = create_open_study("transition_plausibility")
    secrets = collect_secrets(study) | {study.name}
    for assignment in lifecycle.get_study("round-one").raters.first().assignments.all():
        response = Client().get(f"/rate/{assignment.code}/")
        assert response.status_code == 302 and find_leaks(response, "", secrets) == set()


@pytest.mark.parametrize("kind", ["transition_plausibility", "evidence_sufficiency"])
def test_blinding_public_page_reveals_neither_sources_nor_items(laboratory: None, kind: str) -> None:
    study = create_open_study(kind)
    texts = {"about": "Steps of protocols.", "who": "Biologists.", "contact": "Ada", "questions": "Why?\nBecause."}
    public_page.save_texts(study, texts)
    public_page.set_on(study, is_on=True)
    secrets = collect_secrets(study) | {study.slug, str(study.code), *(str(rater.code) for rater in study.raters.all())}
    url = f"/about/{study.public_page.token}/"
    page = Client().get(url)
    assert page.status_code == 200 and find_leaks(page, url, secrets) == set()
    ItemSource.objects.filter(item__study=study).update(perturbation="obvious", truth=False)
    assert remove_tokens(Client().get(url)) == remove_tokens(page)


def remove_tokens(response: HttpResponse) -> str:
    return re.sub(r'"X-CSRFToken": "\w+"', "", response.content.decode())


def test_blinding_leak_search_finds_a_planted_leak(laboratory: None) -> None:
    """The control: if the explanation were in one item's payload, the search would find it."""
    study = create_open_study("transition_plausibility")
    secrets = collect_secrets(study)
    source = ItemSource.objects.filter(item__study=study, perturbation="subtle").select_related("item", "twin").first()
    assert source
    source.item.payload["observations"] = [{"type": "visual", "description": source.twin.explanation, "value": ""}]
    source.item.save()
    source.item.rendered.all().delete()  # rendered from the payload before
    rater = source.item.assignments.first().rater
    leaked = set().union(*(find_leaks(response, url, secrets) for url, response in iter_rater_responses(rater)))
    assert source.twin.explanation in leaked


def test_blinding_no_rater_gets_the_same_action_on_the_same_materials_twice(laboratory: None) -> None:
    """Two outcomes of one action could be compared: an original and its twin, or two replicates."""
    study = create_open_study("transition_plausibility")
    for rater in study.raters.all():
        payloads = rater.assignments.values_list("item__payload", flat=True)
        actions = [json.dumps([payload["action"], payload["before"]], sort_keys=True) for payload in payloads]
        assert len(actions) == len(set(actions)) > 2
