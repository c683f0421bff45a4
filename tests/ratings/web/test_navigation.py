"""The navigation of a study's pages, and its activity log."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings.models import Membership, Study, StudyEvent
from ratings.models.study_events import Paused, Reminded
from ratings.studies import lifecycle
from ratings.web.study.navigation import GROUPS, Navigation, build_navigation
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(ada: User) -> Study:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.filter(pk=study.pk).update(created_by=ada)
    study.refresh_from_db()
    return study


def navigate(study: Study, role: str, view: str, *more: Any, is_staff: bool = False) -> Navigation:
    return build_navigation(study, role, reverse(view, args=[study.slug, *more]), is_staff=is_staff)


def titles(study: Study, role: str, *, is_staff: bool = False) -> dict[str, list[str]]:
    """Return the titles of all offered pages by the title of their group."""
    offered: dict[str, list[str]] = {}
    for group in build_navigation(study, role, "/", is_staff=is_staff).groups:
        pages = build_navigation(study, role, group.address, is_staff=is_staff).pages
        offered[group.title] = [page.title for page in pages]
    return offered


def test_navigation_of_an_open_study_offers_an_admin_five_groups(study: Study) -> None:
    assert titles(study, "admin", is_staff=True) == {
        "Overview": [],
        "Items": ["Quarantine", "Import items"],
        "Raters": ["People", "Assignments", "Model raters", "Instructions", "Preview", "Public page"],
        "Results": ["Export", "Import ratings"],
        "Settings": ["Team", "Blinding audit", "Activity log"],
    }


def test_navigation_of_a_draft_offers_only_what_a_draft_has(study: Study) -> None:
    study.status = "draft"
    assert titles(study, "admin", is_staff=True) == {
        "Overview": [],
        "Items": ["Quarantine", "Import items", "Vetting"],
        "Raters": ["Plan the size", "Assignments", "Preview", "Public page"],
        "Settings": ["Team", "Activity log"],
    }
    # Only staff may vet, also as admins of a study.
    assert "Vetting" not in titles(study, "admin")["Items"]


def test_navigation_of_an_analyst_has_no_page_that_only_admins_may_open(study: Study) -> None:
    assert titles(study, "analyst") == {
        "Overview": [],
        "Raters": ["People", "Model raters"],
        "Results": ["Interim analysis", "Export"],
        "Settings": ["Blinding audit", "Activity log"],
    }
    study.status = "unblinded"
    assert titles(study, "analyst")["Results"] == ["Figures and tables", "Compare", "Export"]


def test_navigation_marks_the_page_and_its_group(study: Study) -> None:
    navigation = navigate(study, "admin", "ratings:matrix")
    assert [(link.title, link.current) for link in navigation.groups if link.current] == [("Raters", "true")]
    assert [(link.title, link.current) for link in navigation.pages if link.current] == [("Assignments", "page")]
    overview = navigate(study, "admin", "ratings:study")
    assert [(link.title, link.current) for link in overview.groups if link.current] == [("Overview", "page")]
    assert overview.pages == ()


def test_navigation_of_a_page_below_another_marks_that_one(study: Study) -> None:
    pages = navigate(study, "admin", "ratings:withdraw_rater", "R01").pages
    assert [(link.title, link.current) for link in pages if link.current] == [("People", "true")]
    study.status = "unblinded"
    pages = navigate(study, "admin", "ratings:item", study.items.all()[0].code).pages
    assert [(link.title, link.current) for link in pages if link.current] == [("All items", "true")]


def test_every_link_of_the_navigation_opens_in_every_state(client: Client, ada: User, study: Study) -> None:
    draft = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="next")), ada)
    ann = User.objects.create_user("ann")
    Membership.objects.bulk_create(Membership(study=one, user=ann, role="analyst") for one in (study, draft))
    opened: dict[tuple[str, str], int] = {}
    for status in Study.MOVES:
        current = draft if status == "draft" else study
        Study.objects.filter(pk=current.pk).update(status=status)
        current.refresh_from_db()
        for user, role in ((ada, "admin"), (ann, "analyst")):
            client.force_login(user)
            for group in build_navigation(current, role, "/", is_staff=user.is_staff).groups:
                pages = build_navigation(current, role, group.address, is_staff=user.is_staff).pages
                for link in pages or (group,):
                    assert client.get(link.address).status_code == 200, (status, role, link)
                    opened[status, role] = opened.get((status, role), 0) + 1
    # Counted by hand from the groups above: the overview, and the pages of each group.
    assert opened == {
        ("draft", "admin"): 1 + 3 + 4 + 2, ("draft", "analyst"): 1 + 1,
        ("open", "admin"): 1 + 2 + 6 + 2 + 3, ("open", "analyst"): 1 + 2 + 2 + 2,
        ("paused", "admin"): 1 + 2 + 6 + 2 + 3, ("paused", "analyst"): 1 + 2 + 2 + 2,
        ("closed", "admin"): 1 + 1 + 6 + 2 + 3, ("closed", "analyst"): 1 + 2 + 2 + 2,
        ("unblinded", "admin"): 1 + 2 + 6 + 3 + 3, ("unblinded", "analyst"): 1 + 1 + 2 + 3 + 2,
    }  # fmt: skip


def test_every_page_shows_the_navigation_with_itself_marked(client: Client, ada: User, study: Study) -> None:
    client.force_login(ada)
    for link_group in build_navigation(study, "admin", "/").groups:
        for link in build_navigation(study, "admin", link_group.address).pages:
            html = client.get(link.address).content.decode()
            assert f'<a href="{link.address}" aria-current="page">{link.title}</a>' in html


def test_navigation_has_five_groups_and_no_page_twice() -> None:
    assert [title for title, _ in GROUPS] == ["Overview", "Items", "Raters", "Results", "Settings"]
    views = [page.view for _, pages in GROUPS for page in pages]
    assert len(set(views)) == len(views)


def test_overview_shows_the_last_six_events_and_links_to_the_log(client: Client, ada: User, study: Study) -> None:
    for number in range(1, 8):
        StudyEvent.record_event(study, Reminded(raters=number), ada)
    client.force_login(ada)
    html = client.get(reverse("ratings:study", args=[study.slug])).content.decode()
    assert re.findall(r"Reminded by ada <span class=\"muted\">\((\d)", html) == ["7", "6", "5", "4", "3", "2"]
    assert reverse("ratings:study_log", args=[study.slug]) in html


def test_log_has_every_event_newest_first_on_pages_of_fifty(client: Client, ada: User, study: Study) -> None:
    before = study.events.count()
    StudyEvent.objects.bulk_create(
        StudyEvent(study=study, kind="reminded", by=ada, data={"raters": n}) for n in range(60 - before)
    )
    client.force_login(ada)
    address = reverse("ratings:study_log", args=[study.slug])
    first, second = (client.get(f"{address}?page={page}").content.decode() for page in (1, 2))
    assert (first.count("<time"), second.count("<time")) == (50, 10)
    assert "1 to 50 of 60" in first
    lines = [re.findall(r"</time><span>(\w+)", html) for html in (first, second)]
    assert set(lines[0]) == {"Reminded"} and lines[1][-1] == "Created"  # the first event of the study is the last line


def test_log_shows_one_kind_of_event_if_the_url_asks_for_it(client: Client, ada: User, study: Study) -> None:
    StudyEvent.record_event(study, Paused(), ada)
    client.force_login(ada)
    address = reverse("ratings:study_log", args=[study.slug])
    html = client.get(f"{address}?kind=paused").content.decode()
    assert html.count("<time") == 1 and "Paused by ada" in html
    # A kind without events, or that does not exist, filters nothing.
    for kind in ("machine", "nonsense"):
        assert client.get(f"{address}?kind={kind}").content.decode().count("<time") == study.events.count()


def test_log_takes_the_same_queries_for_any_number_of_events(client: Client, ada: User, study: Study) -> None:
    client.force_login(ada)
    address = reverse("ratings:study_log", args=[study.slug])
    client.get(address)
    with CaptureQueriesContext(
        connection,
    ) as few:
        client.get(address)
    StudyEvent.objects.bulk_create(StudyEvent(study=study, kind="paused", by=ada, data={}) for _ in range(40))
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(few)
