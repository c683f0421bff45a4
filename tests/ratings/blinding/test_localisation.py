"""Tests of error localisation, from the planted error location through the raters' marks to the results."""

import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.blinding.material_rows import list_mark_keys
from ratings.models import ItemSource, Rating, Study
from ratings.paper import replicate
from ratings.raters import simulated_raters
from ratings.rating import next_item, submit
from ratings.results import empty_cells
from ratings.results.analyses import document
from ratings.results.analyses.filters import Filters
from ratings.studies import freeze, lifecycle
from simulation.models import Run, Twin
from simulation.runs import vetting
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
PLACE = "new_materials[0].properties.volume"
DIFF = [{"path": PLACE, "before": "111 mL", "after": "1 kL"}]
MARKED = {"marks": ["if_not_plausible"]}


@pytest.fixture
def superuser() -> User:
    return User.objects.create_superuser("boss")


def plant(cast: str, perturbation: str, diff: list[dict[str, str]] = DIFF, field: str = PLACE) -> Run:
    """Plant four errors as a language model does: without a rule, and not vetted."""
    episode = run_factory.create_episode(perturbation)
    first = {"obvious": 1, "subtle": 11}[perturbation]
    for number in range(first, first + 4):
        step = run_factory.create_transition(episode, number)
        run_factory.create_twin(step, perturbation, cast=cast, rule="", kind="", field=field, diff=diff, vetting="")
    return run_factory.create_run("twins", cast)


def read_form(page: str) -> dict[str, str]:
    """Return the values that the vetting form has preselected."""
    boxes = re.findall(r"<input[^>]*type=\"radio\"[^>]*>", page)
    checked = [box for box in boxes if " checked" in box]
    return {re.search('name="([^"]*)"', box)[1]: re.search('value="([^"]*)"', box)[1] for box in checked}  # type: ignore[index]


def accept_shown_to_admin(client: Client, run: Run) -> None:
    """Answer the vetting questions for each twin, and keep the preselected error location."""
    said = {"wrong": "yes", "only_change": "yes", "tell": "no", "decision": "accepted"}
    for twin in run.twins.all():
        address = reverse("ratings:vet", args=[twin.code])
        client.post(address, {**read_form(client.get(address).content.decode()), **said})


def rate_rightly(study: Study) -> None:
    """Submit the right verdict for every item, and mark the wrong row of every error."""
    for rater in study.raters.all():
        while assignment := next_item.find_next_assignment(rater):
            next_item.mark_opened(assignment)
            source = ItemSource.objects.get(item=assignment.item)
            wrong = source.perturbation != "none"
            marks = tuple(source.target[:1]) if wrong else ()
            submit.submit_rating(assignment, not wrong, 4, uuid.uuid4(), marks=marks)


def get_located_shares(study: Study) -> dict[str, Any]:
    """Return the share of located errors for each source."""
    results = document.build_document(study, Filters(), "mark", resamples=0)["results"]
    return {
        row["args"]["source"]: row["value"]
        for row in results
        if row["stat"] == "localisation" and list(row["args"]) == ["source"]
    }


def test_localisation_includes_model_made_errors_however_they_were_accepted(client: Client, superuser: User) -> None:
    unread, read = plant("offline", "obvious"), plant("offline-lapses", "subtle")
    # As `manage.py paper --accept-unread` does.
    vetting.accept_unread(unread.twins.all(), replicate.ACCEPTED_UNREAD)
    client.force_login(superuser)
    accept_shown_to_admin(client, read)
    assert set(Twin.objects.values_list("vetting", "field")) == {("accepted", PLACE)}
    sources = [
        {"cast": "offline", "perturbation": "obvious", "count": 4},
        {"cast": "offline-lapses", "perturbation": "subtle", "count": 4},
    ]
    study = study_factory.create_open_study(3, sources=sources, practice=0, ratings_per_item=3, display=MARKED)
    rate_rightly(study)
    found = get_located_shares(study_factory.unblind_study(study, superuser))
    assert found == {"offline, obvious error": 1.0, "offline-lapses, subtle error": 1.0}


def make_pool_with_error_locations() -> None:
    """Create steps and twins whose error location is known."""
    run_factory.create_pool(30)
    Twin.objects.update(field=PLACE)


def test_localisation_by_simulated_raters_matches_the_configured_share(superuser: User) -> None:
    make_pool_with_error_locations()
    sources = [{"cast": "offline", "perturbation": name, "count": 10} for name in ("none", "obvious", "subtle")]
    shares = {}
    for located in (0.999, 0.5, 0.001):
        wanted = {"sources": sources, "practice": 0, "ratings_per_item": 4, "display": MARKED, "allow_unblinded": True}
        study = study_factory.create_open_study(4, slug=f"located-{1000 * located:.0f}", **wanted)
        simulated_raters.simulate_raters(study, 4, 0.9, 0.6, located=located, seed=3)
        given = Rating.objects.filter(assignment__item__study=study)
        assert {len(one.marks) for one in given.filter(verdict=False)} == {1}
        assert {len(one.marks) for one in given.filter(verdict=True)} == {0}
        for one in given:
            assert set(one.marks) <= set(list_mark_keys(one.assignment.item.payload))
        results = document.build_document(
            study_factory.unblind_study(study, superuser), Filters(), "mark", resamples=0
        )["results"]
        row = next(row for row in results if row["stat"] == "localisation" and not row["args"])
        assert row["n"]["ratings"] == given.filter(verdict=False).exclude(assignment__item__source__target=[]).count()
        shares[located] = row["value"]
    assert (shares[0.999], shares[0.001]) == (1.0, 0.0)
    assert shares[0.5] == pytest.approx(0.5, abs=0.2)  # about 60 detected errors: three times sqrt(0.25 / 60)


def test_simulated_answers_are_the_same_with_and_without_marks(superuser: User) -> None:
    make_pool_with_error_locations()
    answers = []
    for marks in ("off", "if_not_plausible"):
        study = study_factory.create_open_study(
            4, slug=marks.replace("_", "-"), ratings_per_item=4, practice=0, display={"marks": [marks]}
        )
        simulated_raters.simulate_raters(study, 4, 0.9, 0.6, seed=3)
        given = Rating.objects.filter(assignment__item__study=study)
        order = given.order_by("assignment__rater__label", "assignment__item__payload_sha256")
        answers.append([(one.verdict, one.confidence) for one in order])
        assert any(one.marks for one in given) == (marks != "off")
    assert answers[0] == answers[1]


def test_localisation_forecast_assumes_that_most_but_not_all_detected_errors_are_located() -> None:
    make_pool_with_error_locations()
    sources = [{"cast": "offline", "perturbation": name, "count": 10} for name in ("none", "obvious", "subtle")]
    asked = study_factory.build_protocol(sources=sources, practice=0, ratings_per_item=4, raters=4, display=MARKED)
    study = lifecycle.create_study(lifecycle.parse_protocol(asked))
    plan = freeze.preview_opening(lifecycle.parse_protocol(study.protocol), study)
    rows = list(empty_cells._iter_simulated_rows(lifecycle.parse_protocol(study.protocol), plan, plan.assignments, 1))
    located = [row.localised for row in rows if row.localised is not None and not row.verdict]
    assert 0.6 < sum(located) / len(located) < 1


def test_vetting_form_preselects_no_error_location_if_several_values_differ(client: Client, superuser: User) -> None:
    two = [*DIFF, {"path": "new_observations[0].value", "before": "1", "after": "2"}]
    run = plant("offline", "subtle", two, field="")
    client.force_login(superuser)
    shown = client.get(reverse("ratings:vet", args=[run.twins.all()[0].code])).content.decode()
    assert read_form(shown) == {"perturbation": "subtle", "field": ""}


def test_vetting_form_preselects_the_only_difference_and_keeps_a_stored_choice(client: Client, superuser: User) -> None:
    run = plant("offline", "subtle", field="")
    client.force_login(superuser)
    address = reverse("ratings:vet", args=[run.twins.all()[0].code])
    assert read_form(client.get(address).content.decode()) == {"perturbation": "subtle", "field": PLACE}
    said = {
        "wrong": "yes",
        "only_change": "yes",
        "tell": "no",
        "decision": "accepted",
        "perturbation": "subtle",
        "field": "",
    }
    assert client.post(address, said).status_code == 302
    assert read_form(client.get(address).content.decode()) == {"perturbation": "subtle", "field": ""}
