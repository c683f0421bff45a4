"""Tests of the list of raters (filter, search, order, actions on several), the page of a rater, and active time."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.utils import timezone

from ratings.models import Assignment, InitialRating, Membership, PracticeAnswer, Rater, Rating, Study
from ratings.raters import active_time, invitations, mailings, rater_overview
from ratings.studies import progress
from tests.support import invited_raters
from tests.support.rating_room import store_rating

pytestmark = pytest.mark.django_db


@pytest.fixture
def study_admin() -> User:
    return User.objects.create_user("boss", email="boss@example.org", is_staff=True)


@pytest.fixture
def study(study_admin: User) -> Study:
    return invited_raters.create_small_study(raters=5, items=3, by=study_admin)


@pytest.fixture
def admin_browser(client: Client, study_admin: User, study: Study) -> Client:
    client.force_login(study_admin)
    return client


def build_url(path: str) -> str:
    return f"https://lab.example.org{path}"


def list_labels(client: Client, query: str = "") -> list[str]:
    """Return the labels that the page lists, in order."""
    return [row.label for row in client.get(f"/studies/small/raters/{query}").context["page"]]


def join_and_rate(study: Study, label: str, seconds: list[float | None], email: str = "") -> Rater:
    """Let somebody join and answer their first items with these active seconds."""
    rater = invited_raters.join_by_link(invited_raters.get_rater(study, label), email=email)
    for active, assignment in zip(seconds, rater.assignments.order_by("position"), strict=False):
        store_rating(assignment, verdict=True, confidence=4, seconds=100, active_seconds=active)
    rater.refresh_from_db()
    return rater


def make_mixed_study(study: Study) -> None:
    """R01 has finished, too fast; R02 rates; R03 has joined; R04 is invited; R05 is open."""
    join_and_rate(study, "R01", [1.0, 1.5, 1.8])
    join_and_rate(study, "R02", [30.0])
    join_and_rate(study, "R03", [])
    mailings.invite_people(study, [mailings.Invitee(1, "dee@example.org", "Dee Lamb")], None, build_url)


def make_idle(rater: Rater, days: float) -> None:
    """Move everything that this rater did into the past."""
    at = timezone.now() - timedelta(days=days)
    Rater.objects.filter(pk=rater.pk).update(last_seen_at=at)
    rater.assignments.filter(answered_at__isnull=False).update(answered_at=at, opened_at=at)


# The list


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("", ["R01", "R02", "R03", "R04", "R05"]),
        ("?state=finished", ["R01"]),
        ("?state=fast", ["R01"]),
        ("?state=rating", ["R02"]),
        ("?state=joined", ["R03"]),
        ("?state=invited", ["R04"]),
        ("?state=free", ["R05"]),
        ("?state=withdrawn", []),
        ("?state=nonsense", ["R01", "R02", "R03", "R04", "R05"]),
        ("?q=lamb", ["R04"]),
        ("?q=DEE@example", ["R04"]),
        ("?q=r02", ["R02"]),
        ("?q=open", ["R05"]),
        ("?q=dee&state=free", []),
        ("?sort=-rater", ["R05", "R04", "R03", "R02", "R01"]),
        ("?sort=-done", ["R01", "R02", "R05", "R04", "R03"]),  # 3 and 1 answers, then none, in reverse order
        ("?sort=median", ["R01", "R02", "R03", "R04", "R05"]),  # medians 1.5 s and 30 s; unknown ones are last
        ("?sort=-median", ["R02", "R01", "R03", "R04", "R05"]),
        ("?sort=-active", ["R02", "R01", "R03", "R04", "R05"]),  # 30 s and 1.0 + 1.5 + 1.8 s
        ("?sort=password", ["R01", "R02", "R03", "R04", "R05"]),
    ],
)
def test_list_shows_the_raters_that_the_url_asks_for(
    admin_browser: Client, study: Study, query: str, labels: list[str]
) -> None:
    make_mixed_study(study)
    assert list_labels(admin_browser, query) == labels


def test_list_has_a_rater_in_exactly_one_group_besides_idle_and_fast(study: Study) -> None:
    make_mixed_study(study)
    Rater.objects.filter(label="R05").update(withdrawn_at=timezone.now())
    groups = [row.groups - {"idle", "fast"} for row in rater_overview.list_raters(study)]
    assert groups == [{"finished"}, {"rating"}, {"joined"}, {"invited"}, {"withdrawn"}]


def test_list_does_not_search_names_for_analysts(study: Study) -> None:
    make_mixed_study(study)
    analyst, client = User.objects.create_user("ann"), Client()
    Membership.objects.create(study=study, user=analyst, role="analyst")
    client.force_login(analyst)
    assert list_labels(client, "?q=lamb") == [] and list_labels(client, "?q=r04") == ["R04"]
    for path in ("raters/", "raters/R04/"):
        text = client.get(f"/studies/small/{path}").content.decode()
        assert "Dee Lamb" not in text and "dee@example.org" not in text and "selected/" not in text
    assert client.get("/studies/small/hours.csv").status_code == 200
    for path in ("selected/", "links/", "links.csv", "wording/", "invite-list/"):
        assert client.post(f"/studies/small/raters/{path}").status_code == 404


def test_list_without_a_match_says_so_and_leads_back(admin_browser: Client, study: Study) -> None:
    text = admin_browser.get("/studies/small/raters/?q=nobody").content.decode()
    assert "No rater matches" in text and "Show all raters" in text and "0 of 5 raters" in text


def test_idle_raters_are_those_with_items_left_and_no_activity_for_three_days(
    admin_browser: Client, study: Study
) -> None:
    for label, seconds, days in (("R01", [9.0], 3.1), ("R02", [9.0], 2.9), ("R03", [9.0, 9.0, 9.0], 9)):
        make_idle(join_and_rate(study, label, seconds), days)
    invitations.create_invitation(invited_raters.get_rater(study, "R04"))
    assert list_labels(admin_browser, "?state=idle") == ["R01"]  # R02 was here, R03 has finished, R04 never joined
    assert "1 idle for 3 days" in admin_browser.get("/studies/small/raters/").content.decode()
    Study.objects.update(status="paused")
    assert list_labels(admin_browser, "?state=idle") == []


def test_rater_between_two_sessions_is_not_idle_during_the_washout(study_admin: User) -> None:
    study = invited_raters.create_small_study(
        items=2, slug="two", by=study_admin, design="crossover", conditions="screens", washout_days=14
    )
    rater = join_and_rate(study, "R01", [9.0])  # the first of two items: session 1 is complete
    for days, is_idle in ((16.9, False), (17.1, True)):
        make_idle(rater, days)
        assert rater_overview.list_raters(study)[0].is_idle is is_idle


# Too fast


def test_rater_with_a_median_under_two_seconds_is_flagged_with_the_reason(admin_browser: Client, study: Study) -> None:
    join_and_rate(study, "R01", [1.0, 1.9, 40.0])
    join_and_rate(study, "R02", [2.0, 2.0, 2.0])
    reason = "Median time per item under 2 s: 1.9 s over 3 items."
    rows = rater_overview.list_raters(study)
    assert [row.too_fast for row in rows[:2]] == [reason, ""]
    for path in ("", "R01/"):
        assert reason in admin_browser.get(f"/studies/small/raters/{path}").content.decode()
    assert reason not in admin_browser.get("/studies/small/raters/R02/").content.decode()


@pytest.mark.parametrize("fields", [{"simulated": True, "invited_at": None}, {"imported_as": "somebody"}])
def test_simulated_and_imported_raters_are_not_flagged_as_people(study: Study, fields: dict[str, Any]) -> None:
    rater = join_and_rate(study, "R01", [0.5])
    Rater.objects.filter(pk=rater.pk).update(**fields)
    row = rater_overview.list_raters(study)[0]
    assert row.too_fast == "" and "fast" not in row.groups


def test_median_time_in_the_confirm_layout_includes_the_first_verdict(study_admin: User) -> None:
    study = invited_raters.create_small_study(
        items=1, slug="two", by=study_admin, display={"layouts": ["confirm"], "context": [False], "marks": ["off"], "by": "rater"}
    )  # fmt: skip
    rater = join_and_rate(study, "R01", [1.0])
    add_initial_rating(rater.assignments.get(), 20.0)
    assert progress.count_study(study).raters[rater.pk].median_seconds == 21.0
    assert rater_overview.list_raters(study)[0].too_fast == ""


def add_initial_rating(assignment: Assignment, seconds: float) -> None:
    submission = Rating.objects.get(assignment=assignment).submission_id
    InitialRating.objects.create(
        assignment=assignment, verdict=True, confidence=3, submission_id=submission, active_seconds=seconds
    )


# Active time


def test_hours_csv_has_the_active_seconds_of_every_rater(admin_browser: Client, study: Study) -> None:
    rater = join_and_rate(study, "R01", [1200.0, 600.5, None])  # the third without JavaScript
    PracticeAnswer.objects.create(rater=rater, key="a", verdict=True, confidence=3, right=True)
    add_initial_rating(rater.assignments.get(position=1), 99.5)
    add_initial_rating(rater.assignments.get(position=3), 50.0)  # its final answer was not timed
    Rater.objects.filter(pk=rater.pk).update(corrections=2, withdrawn_at=timezone.now(), dropped=True)
    Rater.objects.filter(label="R05").update(simulated=True)
    answer = admin_browser.get("/studies/small/hours.csv")
    assert answer["Content-Disposition"] == 'attachment; filename="small-hours.csv"'
    header, *rows = csv.reader(io.StringIO(answer.content.decode("utf-8-sig")))
    assert header == list(active_time.COLUMNS)
    # 1200 + 600.5 + 99.5 = 1900 seconds = 0.528 hours; dropped raters have worked as well.
    assert rows[0][:9] == ["R01", "person", "3", "2", "1900.000", "0.528", "1", "2", "1"]
    first, last = rater.assignments.get(position=1).rating, rater.assignments.get(position=3).rating
    assert rows[0][9:] == [first.submitted_at.isoformat(), last.submitted_at.isoformat()]
    assert rows[1] == ["R02", "person", "0", "0", "0.000", "0.000", "0", "0", "0", "", ""]
    assert [row[1] for row in rows] == ["person", "person", "person", "person", "simulated"]


def test_active_time_of_imported_ratings_is_not_counted(study: Study) -> None:
    rater = join_and_rate(study, "R01", [30.0])
    Rating.objects.update(imported=True)
    Rater.objects.filter(pk=rater.pk).update(imported_as="somebody")
    times = active_time.compute_active_times(study)[0]
    assert (times.kind, times.answers, times.timed, times.seconds, times.first_at) == ("imported", 1, 0, 0.0, None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "1 h 0 min"), (5400, "1 h 30 min")]
)
def test_active_time_is_shown_in_hours_and_minutes(seconds: float, text: str) -> None:
    assert active_time.format_duration(seconds) == text


def test_raters_page_shows_the_sum_of_the_active_time_of_people(admin_browser: Client, study: Study) -> None:
    join_and_rate(study, "R01", [1800.0])
    simulated = join_and_rate(study, "R02", [1800.0])
    Rater.objects.filter(pk=simulated.pk).update(simulated=True, invited_at=None)
    text = admin_browser.get("/studies/small/raters/").content.decode()
    assert "<strong>30 min</strong> in all; simulated and imported raters are not in the sum." in text


# Several raters at once


def post_selected(client: Client, do: str, *labels: str, **fields: str) -> Any:
    return client.post("/studies/small/raters/selected/", {"rater": labels, "do": do, **fields}, follow=True)


def test_reminders_go_to_the_selected_raters_only(admin_browser: Client, study: Study) -> None:
    for label, email in (("R01", "ada@example.org"), ("R02", "bo@example.org")):
        join_and_rate(study, label, [30.0], email)
    mail.outbox.clear()
    text = post_selected(admin_browser, "remind", "R01", "R05").content.decode()
    assert [letter.to for letter in mail.outbox] == [["ada@example.org"]]
    assert "1 reminder sent." in text and "1 selected rater has nothing to be reminded of" in text
    assert study.events.get(kind="reminded").data == {"raters": 1}


def test_new_links_for_selected_raters_replace_their_earlier_ones_and_keep_the_invited_person(
    admin_browser: Client, study: Study
) -> None:
    make_mixed_study(study)
    old = invited_raters.find_link(mail.outbox[-1].body)
    text = post_selected(admin_browser, "links", "R03", "R04").content.decode()
    assert "2 personal links" in text and "R04\tDee Lamb\tdee@example.org\thttp" in text
    assert Client().get(old).status_code == 410


def test_revoking_selected_invitations_reports_those_that_have_none(admin_browser: Client, study: Study) -> None:
    make_mixed_study(study)
    text = post_selected(admin_browser, "revoke", "R03", "R04", "R05").content.decode()
    assert "1 invitation revoked." in text
    assert "R03 has joined; remove the rater instead" in text and "R05 has no invitation to revoke" in text
    assert list_labels(admin_browser, "?state=free") == ["R04", "R05"]


def test_selected_raters_are_removed_only_after_a_confirmation(admin_browser: Client, study: Study) -> None:
    make_mixed_study(study)
    text = post_selected(admin_browser, "remove", "R02", "R03").content.decode()
    assert "Remove R02, R03?" in text and "cannot be undone" in text
    assert not study.raters.exclude(withdrawn_at=None).exists()
    text = post_selected(admin_browser, "remove", "R02", "R03", confirmed="1").content.decode()
    assert "2 raters removed." in text
    assert list_labels(admin_browser, "?state=withdrawn") == ["R02", "R03"]


def test_action_without_a_selection_or_without_a_name_changes_nothing(admin_browser: Client, study: Study) -> None:
    assert "Select at least one rater first." in post_selected(admin_browser, "revoke").content.decode()
    assert "Select at least one rater first." in post_selected(admin_browser, "revoke", "R99").content.decode()
    assert "Choose what to do" in post_selected(admin_browser, "promote", "R01").content.decode()


def test_action_returns_to_the_filter_it_was_started_from(admin_browser: Client, study: Study) -> None:
    make_mixed_study(study)
    fields = {"rater": "R04", "do": "revoke", "back": "state=invited&sort=-rater&next=//evil.example.org"}
    answer = admin_browser.post("/studies/small/raters/selected/", fields)
    assert answer["Location"] == "/studies/small/raters/?state=invited&sort=-rater"


def test_rater_page_of_an_unknown_label_is_404(admin_browser: Client, study: Study) -> None:
    assert admin_browser.get("/studies/small/raters/R99/").status_code == 404
