"""Right for the right reason, from the planted place to the results: twins of language models, raters who mark, a terminal."""


import re
import uuid
from typing import Any

import factories
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings import answering, serving
from ratings.analyses import document
from ratings.analyses.filters import Filters
from ratings.models import ItemSource, Study
from ratings.paper import making
from ratings.paper.plan import read_plan
from simulation.models import Run, Twin

pytestmark = pytest.mark.django_db
PLACE = "new_materials[0].properties.volume"
DIFF = [{"path": PLACE, "before": "111 mL", "after": "1 kL"}]
MARKED = {"marks": ["if_not_plausible"]}


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


def plant(cast: str, perturbation: str, diff: list[dict[str, str]] = DIFF, field: str = PLACE) -> Run:
    """Plant four errors as a language model does: no rule vouches for them, and nobody has looked at them."""
    episode = factories.episode(perturbation)
    first = {"obvious": 1, "subtle": 11}[perturbation]
    for number in range(first, first + 4):
        step = factories.transition(episode, number)
        factories.twin(step, perturbation, cast=cast, rule="", kind="", field=field, diff=diff, vetting="")
    return factories.run("twins", cast)


def read_form(page: str) -> dict[str, str]:
    """Return what the vetting form would send of what it has checked already."""
    boxes = re.findall(r"<input[^>]*type=\"radio\"[^>]*>", page)
    checked = [box for box in boxes if " checked" in box]
    return {re.search('name="([^"]*)"', box)[1]: re.search('value="([^"]*)"', box)[1] for box in checked}  # type: ignore[index]


def accept_by_hand(client: Client, run: Run) -> None:
    """Answer the questions of the page for each twin and leave the place as the page has it."""
    said = {"wrong": "yes", "only_change": "yes", "tell": "no", "decision": "accepted"}
    for twin in run.twins.all():
        address = reverse("ratings:vet", args=[twin.code])
        client.post(address, {**read_form(client.get(address).content.decode()), **said})


def rate_rightly(study: Study) -> None:
    """Call every error of the study and mark the row it stands in."""
    for rater in study.raters.all():
        while place := serving.next_assignment(rater):
            serving.mark_opened(place)
            source = ItemSource.objects.get(item=place.item)
            wrong = source.perturbation != "none"
            marks = tuple(source.target[:1]) if wrong else ()
            answering.rate(place, not wrong, 4, uuid.uuid4(), marks=marks)


def find_located(study: Study) -> dict[str, Any]:
    """Return the share of located errors of each source."""
    results = document.make(study, Filters(), "mark", resamples=0)["results"]
    return {row["args"]["source"]: row["value"] for row in results if row["stat"] == "localisation" and list(row["args"]) == ["source"]}


def test_errors_of_language_models_are_located_whether_accepted_unread_or_by_hand(client: Client, boss: User) -> None:
    unread, read = plant("offline", "obvious"), plant("offline-lapses", "subtle")
    making.Maker(read_plan(), True, print, lambda _: lambda _: None, 1, None)._accept(unread)
    client.force_login(boss)
    accept_by_hand(client, read)
    assert set(Twin.objects.values_list("vetting", "field")) == {("accepted", PLACE)}
    sources = [{"cast": "offline", "perturbation": "obvious", "count": 4}, {"cast": "offline-lapses", "perturbation": "subtle", "count": 4}]
    study = factories.open_study(3, sources=sources, practice=0, ratings_per_item=3, display=MARKED)
    rate_rightly(study)
    found = find_located(factories.unblinded(study, boss))
    assert found == {"offline, obvious error": 1.0, "offline-lapses, subtle error": 1.0}


def test_the_form_names_no_place_where_several_differ(client: Client, boss: User) -> None:
    two = [*DIFF, {"path": "new_observations[0].value", "before": "1", "after": "2"}]
    run = plant("offline", "subtle", two, field="")
    client.force_login(boss)
    shown = client.get(reverse("ratings:vet", args=[run.twins.all()[0].code])).content.decode()
    assert read_form(shown) == {"perturbation": "subtle", "field": ""}


def test_the_form_takes_the_only_place_that_differs_and_keeps_what_a_person_has_said(client: Client, boss: User) -> None:
    run = plant("offline", "subtle", field="")
    client.force_login(boss)
    address = reverse("ratings:vet", args=[run.twins.all()[0].code])
    assert read_form(client.get(address).content.decode()) == {"perturbation": "subtle", "field": PLACE}
    said = {"wrong": "yes", "only_change": "yes", "tell": "no", "decision": "accepted", "perturbation": "subtle", "field": ""}
    assert client.post(address, said).status_code == 302
    assert read_form(client.get(address).content.decode()) == {"perturbation": "subtle", "field": ""}
