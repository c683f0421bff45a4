"""The start page: what needs the user, the three steps of an empty site, and who is led there."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings.models import BlindingAudit, Invitation, Membership, Rater, Study
from ratings.studies import attention
from simulation.models import Episode, Job
from tests.support import job_factories, run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOW = timezone.now()


def create_study(slug: str, by: User | None, status: str = "open", **values: Any) -> Study:
    """Create the row of a study alone: without items, and with the raters that the test adds."""
    protocol = {
        **study_factory.build_protocol(name=slug.capitalize(), slug=slug),
        "design": values.pop("design", "balanced"),
    }
    return Study.objects.create(
        slug=slug, name=slug.capitalize(), kind=Study.KINDS[0][0], question="Is it plausible?", protocol=protocol, seed=1,
        ratings_per_item=2, status=status, created_by=by, opened_at=None if status == "draft" else NOW, **values,
    )  # fmt: skip


def add_rater(study: Study, days_ago: int | None = None, **values: Any) -> Rater:
    """Add a rater who joined that many days ago, or a place that nobody has taken."""
    number = study.raters.count() + 1
    if days_ago is not None:
        values["user"] = User.objects.create_user(f"{study.slug} {number}")
        values["consented_at"] = NOW - timedelta(days=days_ago)
    values = {"waiting_items": 4, "answered_items": 1} | values
    return Rater.objects.create(study=study, label=f"R{number:02}", number=number, **values)


def invite(rater: Rater, days_ago: int, valid_days: int = 30) -> None:
    invitation = Invitation.objects.create(
        rater=rater, token_sha256=uuid4().hex, expires_at=NOW + timedelta(days=valid_days)
    )
    Invitation.objects.filter(pk=invitation.pk).update(created_at=NOW - timedelta(days=days_ago))


def audit(study: Study, *, passed: bool, days_ago: int = 0) -> None:
    at = NOW - timedelta(days=days_ago)
    BlindingAudit.objects.create(study=study, passed=passed, report={}, sha256="0" * 64, at=at)


def needs(user: User) -> list[tuple[str, str, int]]:
    return [(need.kind, need.target, need.number) for need in attention.list_needs(user)]


@pytest.fixture
def quiet_study(ada: User) -> Study:
    """Return an open study that needs nothing: audited, and its only rater joined yesterday."""
    study = create_study("quiet", ada)
    audit(study, passed=True)
    add_rater(study, days_ago=1)
    return study


def test_start_page_lists_nothing_of_a_study_that_runs_well(ada: User, quiet_study: Study) -> None:
    assert needs(ada) == []


def test_start_page_lists_drafts_and_closed_studies(ada: User) -> None:
    create_study("plan", ada, "draft")
    audit(create_study("over", ada, "closed"), passed=True)
    audit(create_study("seen", ada, "unblinded"), passed=False)
    assert needs(ada) == [("closed_study", "over", 0), ("draft", "plan", 0)]


def test_start_page_lists_audits_that_are_due_or_failed(ada: User, quiet_study: Study) -> None:
    never, failed, repeated = (create_study(slug, ada, "paused") for slug in ("never", "failed", "repeated"))
    audit(failed, passed=True, days_ago=2)
    audit(failed, passed=False, days_ago=1)
    audit(repeated, passed=False, days_ago=2)
    audit(repeated, passed=True, days_ago=1)
    assert needs(ada) == [("failed_audit", "failed", 0), ("audit", "never", 0)]
    # An audit that runs is not due any more.
    job_factories.create_job(f"study/{never.slug}", "running", kind="audit")
    assert needs(ada) == [("failed_audit", "failed", 0)]


def test_start_page_lists_raters_idle_for_three_days(ada: User, quiet_study: Study) -> None:
    add_rater(quiet_study, days_ago=4)
    add_rater(quiet_study, days_ago=5)
    add_rater(quiet_study, days_ago=5, waiting_items=0)  # has rated everything
    add_rater(quiet_study, days_ago=5, finished_at=NOW)
    add_rater(quiet_study, days_ago=5, withdrawn_at=NOW)
    add_rater(quiet_study, simulated=True)
    assert needs(ada) == [("idle_raters", "quiet", 2)]
    Study.objects.update(status="paused")  # nobody can rate
    assert needs(ada) == []


def test_start_page_does_not_list_a_rater_who_answered_within_three_days(ada: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.update(created_by=ada)
    rater = study_factory.fill_rater_place(study, "R01")
    Rater.objects.filter(pk=rater.pk).update(consented_at=NOW - timedelta(days=9))
    answered = rater.assignments.order_by("position")[:1]
    assert ("idle_raters", study.slug, 1) in needs(ada)
    rater.assignments.filter(pk__in=[one.pk for one in answered]).update(answered_at=NOW - timedelta(days=4))
    assert ("idle_raters", study.slug, 1) in needs(ada)
    rater.assignments.filter(pk__in=[one.pk for one in answered]).update(answered_at=NOW - timedelta(days=2))
    assert not [need for need in needs(ada) if need[0] == "idle_raters"]


def test_start_page_lists_places_and_invitations_that_wait(ada: User, quiet_study: Study) -> None:
    add_rater(quiet_study)  # never invited
    invite(add_rater(quiet_study), days_ago=40, valid_days=-10)  # expired
    invite(add_rater(quiet_study), days_ago=1)
    invite(add_rater(quiet_study), days_ago=4)
    assert needs(ada) == [("waiting_invitations", "quiet", 1), ("free_places", "quiet", 2)]


def test_start_page_lists_studies_that_can_be_closed(ada: User) -> None:
    complete, overdue = create_study("complete", ada), create_study("overdue", ada, deadline=date(2026, 1, 31))
    for study in (complete, overdue):
        audit(study, passed=True)
    add_rater(complete, days_ago=1, waiting_items=0, answered_items=5)
    add_rater(complete, withdrawn_at=NOW)  # whose items nobody waits for
    add_rater(overdue, days_ago=1)
    assert needs(ada) == [("overdue_study", "overdue", 0), ("complete_study", "complete", 0)]
    add_rater(complete, days_ago=1)  # with items to rate
    assert needs(ada) == [("overdue_study", "overdue", 0)]


def test_start_page_lists_failed_jobs_until_they_are_repeated(ada: User, quiet_study: Study) -> None:
    subject = f"study/{quiet_study.slug}"
    failed = job_factories.create_job(subject, "failed", kind="archive")
    job_factories.create_job("study/other", "failed", kind="archive")  # of a study that does not exist
    old = job_factories.create_job(subject, "failed", kind="import_items")
    Job.objects.filter(pk=old.pk).update(created_at=NOW - timedelta(days=15))
    assert needs(ada) == [("failed_job", str(failed.code), 0)]
    job_factories.create_job(subject, "done", kind="archive")
    assert needs(ada) == []


def test_start_page_lists_runs_that_failed_or_cannot_continue(ada: User, quiet_study: Study) -> None:
    run_factory.create_pool()
    episode = Episode.objects.order_by("pk")[0]
    Episode.objects.filter(pk=episode.pk).update(status="failed", error="no key", reason="credentials", ended_at=NOW)
    assert needs(ada) == [("failed_run", str(episode.run.code), 1)]
    Episode.objects.filter(pk=episode.pk).update(status="blocked", ended_at=None)
    assert needs(ada) == [("blocked_run", str(episode.run.code), 1)]
    Episode.objects.filter(pk=episode.pk).update(status="failed", ended_at=NOW - timedelta(days=20))
    assert needs(ada) == []


def test_start_page_shows_only_studies_that_the_user_manages(client: Client, ada: User) -> None:
    other = User.objects.create_user("eve", is_staff=True)
    create_study("secret", other, "draft")
    shared, read = create_study("shared", other, "draft"), create_study("read", other, "draft")
    Membership.objects.create(study=shared, user=ada, role="admin")
    Membership.objects.create(study=read, user=ada, role="analyst")
    assert needs(ada) == [("draft", "shared", 0)]
    client.force_login(ada)
    html = client.get(reverse("ratings:start")).content.decode()
    assert "Secret" not in html and "Shared" in html and "Read" in html


def test_start_page_lists_five_of_a_kind_and_links_to_the_others(client: Client, ada: User) -> None:
    for number in range(7):
        create_study(f"plan-{number}", ada, "draft")
    client.force_login(ada)
    html = client.get(reverse("ratings:start")).content.decode()
    assert html.count("has not been opened") == 5
    assert f'href="{reverse("ratings:studies")}?status=draft"' in html


def test_start_page_takes_the_same_queries_for_any_number_of_studies(client: Client, ada: User) -> None:
    def count_queries() -> int:
        client.get(reverse("ratings:start"))
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("ratings:start"))
        return len(queries)

    def add_studies(first: int) -> None:
        for number in range(first, first + 6):
            for status in ("draft", "open", "closed"):
                study = create_study(f"{status}-{number}", ada, status)
                add_rater(study, days_ago=5)
                add_rater(study)

    client.force_login(ada)
    add_studies(0)
    few = count_queries()
    add_studies(6)
    assert count_queries() == few


def test_start_page_says_when_nothing_needs_attention(client: Client, ada: User, quiet_study: Study) -> None:
    client.force_login(ada)
    assert "Nothing needs your attention." in client.get(reverse("ratings:start")).content.decode()


def list_steps(client: Client) -> list[tuple[str, bool]]:
    """Return the titles of the steps that the page shows, and whether they are ticked off."""
    html = client.get(reverse("ratings:start")).content.decode()
    return [(title.strip(), "Done" in rest) for title, rest in re.findall(r"<h3>([^<]*)(.*?)</h3>", html)]


def test_start_page_of_an_empty_site_ticks_off_three_steps(client: Client, ada: User) -> None:
    client.force_login(ada)
    items, study_step, raters = "Get items to rate", "Build a study and open it", "Invite raters"
    assert list_steps(client) == [(items, False), (study_step, False), (raters, False)]
    run_factory.create_pool()
    assert list_steps(client) == [(items, True), (study_step, False), (raters, False)]
    study = create_study("first", ada, "draft")
    assert list_steps(client) == [(items, True), (study_step, False), (raters, False)]
    assert "Continue First" in client.get(reverse("ratings:start")).content.decode()
    Study.objects.update(status="open", opened_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert list_steps(client) == [(items, True), (study_step, True), (raters, False)]
    invite(add_rater(study), days_ago=0)
    assert list_steps(client) == []


def test_home_leads_staff_and_members_to_the_start_page_and_raters_to_their_list(client: Client, ada: User) -> None:
    study = create_study("first", ada)
    rater = add_rater(study, days_ago=1)
    analyst = User.objects.create_user("ann")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    for user, view in ((ada, "ratings:start"), (rater.user, "ratings:desk"), (analyst, "ratings:start")):
        client.force_login(user)
        assert client.get("/").headers["Location"] == reverse(view)
    # A rater who is also a member sees both: the start page links to the list of studies to rate.
    other = create_study("second", ada)
    assert rater.user
    Membership.objects.create(study=other, user=rater.user, role="analyst")
    client.force_login(rater.user)
    assert client.get("/").headers["Location"] == reverse("ratings:start")
    html = client.get(reverse("ratings:start")).content.decode()
    assert "You rate in 1 open study." in html and reverse("ratings:desk") in html
    assert "Start a run" not in html and "Your first study" not in html  # not staff


def test_sign_in_page_explains_the_first_sign_in_only_until_somebody_has_signed_in(client: Client, ada: User) -> None:
    User.objects.update(last_login=None)
    assert "Do you run this site?" in client.get(reverse("login")).content.decode()
    User.objects.update(last_login=NOW)
    assert "Do you run this site?" not in client.get(reverse("login")).content.decode()
