"""The list of studies: order, filters, search, and deleting several drafts."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings.models import Membership, Rater, Study, StudyEvent
from ratings.models.studies import EVIDENCE, TRANSITION
from ratings.models.study_events import Paused
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOW = timezone.now()
LIST = "/studies/"


def create_study(slug: str, by: User | None, status: str = "draft", days_ago: int = 1, **values: Any) -> Study:
    protocol = study_factory.build_protocol(name=slug.capitalize(), slug=slug)
    values = {"kind": TRANSITION, "question": "Is it plausible?", "seed": 1, "ratings_per_item": 2} | values
    return Study.objects.create(
        slug=slug, name=slug.capitalize(), protocol=protocol, status=status, created_by=by,
        created_at=NOW - timedelta(days=days_ago), **values,
    )  # fmt: skip


def listed(client: Client, query: str = "") -> list[str]:
    return [study.slug for study in client.get(f"{LIST}?{query}").context["studies"]]


@pytest.fixture
def studies(client: Client, ada: User) -> dict[str, Study]:
    client.force_login(ada)
    other = User.objects.create_user("eve", is_staff=True)
    rows = {
        "alpha": create_study("alpha", ada, "open", days_ago=3),
        "beta": create_study("beta", ada, "draft", days_ago=2, kind=EVIDENCE),
        "gamma": create_study("gamma", other, "closed", days_ago=1),
        "hidden": create_study("hidden", other, "draft"),
    }
    Membership.objects.create(study=rows["gamma"], user=ada, role="analyst")
    return rows


@pytest.mark.parametrize(
    ("query", "slugs"),
    [
        ("", ["gamma", "beta", "alpha"]),  # the newest first
        ("sort=created", ["alpha", "beta", "gamma"]),
        ("sort=name", ["alpha", "beta", "gamma"]),
        ("sort=-name", ["gamma", "beta", "alpha"]),
        ("sort=secret", ["gamma", "beta", "alpha"]),
        ("status=draft", ["beta"]),
        ("status=unknown", ["gamma", "beta", "alpha"]),
        ("kind=evidence_sufficiency", ["beta"]),
        ("role=admin", ["beta", "alpha"]),
        ("role=analyst", ["gamma"]),
        ("q=ALP", ["alpha"]),
        ("q=hidden", []),  # of another admin
        ("q=a&status=open", ["alpha"]),
        ("page=9", ["gamma", "beta", "alpha"]),
    ],
)
def test_list_of_studies_is_sorted_filtered_and_searched_by_its_url(
    client: Client, studies: dict[str, Study], query: str, slugs: list[str]
) -> None:
    assert listed(client, query) == slugs


def test_list_of_studies_sorts_by_raters_ratings_and_activity(client: Client, studies: dict[str, Study]) -> None:
    def add_rater(study: Study, number: int, counted: int, **values: Any) -> None:
        Rater.objects.create(study=study, label=f"R{number}", number=number, counted_items=counted, **values)

    add_rater(studies["alpha"], 1, 0, simulated=True)
    add_rater(studies["alpha"], 2, 3, imported_as="Rater two")
    add_rater(studies["alpha"], 3, 0)  # a place that nobody has taken
    add_rater(studies["gamma"], 1, 5, simulated=True)
    add_rater(studies["gamma"], 2, 90, dropped=True, withdrawn_at=NOW, simulated=True)
    StudyEvent.record_event(studies["beta"], Paused())  # now, after the creation of the others
    assert listed(client, "sort=-raters") == ["gamma", "alpha", "beta"]  # 2, 2 (the older one later) and 0
    assert listed(client, "sort=-ratings") == ["gamma", "alpha", "beta"]  # 5, 3 and 0
    assert listed(client, "sort=-activity") == ["beta", "gamma", "alpha"]
    shown = {study.slug: (study.taken, study.given) for study in client.get(LIST).context["studies"]}
    assert shown == {"alpha": (2, 3), "beta": (0, 0), "gamma": (2, 5)}


def test_last_activity_of_a_study_is_its_last_answer_if_no_event_is_later(client: Client, ada: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.update(created_by=ada)
    rater = study_factory.fill_rater_place(study, "R01")
    tomorrow = NOW + timedelta(days=1)
    first = rater.assignments.order_by("position")[0]
    rater.assignments.filter(pk=first.pk).update(answered_at=tomorrow)
    client.force_login(ada)
    (line,) = client.get(LIST).context["studies"]
    assert line.last_active == tomorrow


def test_list_of_studies_takes_the_same_queries_for_any_number_of_them(client: Client, ada: User) -> None:
    client.force_login(ada)

    def count_queries(query: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(f"{LIST}?{query}")
        return len(queries)

    create_study("study-first", ada)
    queries = ("", "sort=-activity", "sort=-ratings", "q=study&status=draft&role=admin")
    few = [count_queries(query) for query in queries]
    for number in range(30):
        create_study(f"study-{number}", ada)
    assert [count_queries(query) for query in queries] == few


def test_list_of_studies_without_a_match_offers_to_clear_the_filters(client: Client, studies: dict[str, Study]) -> None:
    html = client.get(f"{LIST}?q=nothing").content.decode()
    assert "No studies match" in html and f'href="{LIST}">Clear filters' in html


def test_selected_drafts_are_deleted_after_a_confirmation(client: Client, studies: dict[str, Study]) -> None:
    create_study("delta", studies["beta"].created_by)
    chosen = {"study": ["beta", "delta", "alpha", "hidden"]}  # alpha is open, hidden is another admin's
    question = client.post(reverse("ratings:delete_drafts"), chosen)
    assert [draft.slug for draft in question.context["drafts"]] == ["delta", "beta"]
    assert Study.objects.count() == 5
    answer = client.post(reverse("ratings:delete_drafts"), chosen | {"confirmed": "yes"}, follow=True)
    assert sorted(Study.objects.values_list("slug", flat=True)) == ["alpha", "gamma", "hidden"]
    assert "2 drafts deleted: Delta and Beta." in answer.content.decode()


def test_deleting_no_selected_draft_explains_what_to_select(client: Client, studies: dict[str, Study]) -> None:
    for chosen in ([], ["alpha"], ["hidden"]):
        answer = client.post(reverse("ratings:delete_drafts"), {"study": chosen, "confirmed": "yes"}, follow=True)
        assert "Select at least one draft. Only drafts can be deleted." in answer.content.decode()
    assert Study.objects.count() == 4


def test_only_own_drafts_can_be_selected(client: Client, studies: dict[str, Study]) -> None:
    html = client.get(LIST).content.decode()
    assert html.count('type="checkbox"') == 1 and 'value="beta" form="drafts"' in html
