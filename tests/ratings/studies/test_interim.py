"""Interim analysis: who may take one, what it shows, and what it never reveals."""

import io
import itertools
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from ratings.exchange.imports import rating_imports
from ratings.models import Assignment, Membership, Rater, Study
from ratings.models.study_events import Audited, InterimLook, TableExported
from ratings.rating import submit
from ratings.studies import StudyError, access, interim_analysis, lifecycle, running_raters
from ratings.studies.interim_analysis import InterimNotAllowed, take_interim_analysis
from tests.support import run_factory, study_factory, study_log_texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    """Twenty originals and twenty subtle twins by one source, one rating each."""
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    return study_factory.create_open_study(raters=2, sources=sources, ratings_per_item=1)


@pytest.fixture
def analyst(study: Study) -> User:
    user = User.objects.create_user("analyst")
    Membership.objects.create(study=study, user=user, role="analyst")
    return user


def rate_some(study: Study, perturbation: str, count: int, verdict: bool = True) -> list[Assignment]:
    open_ones = Assignment.objects.filter(item__study=study, rating=None, item__source__perturbation=perturbation)
    assignments = list(open_ones.order_by("pk")[:count])
    for assignment in assignments:
        submit.submit_rating(assignment, verdict, 3, uuid.uuid4())
    return assignments


Told = dict[str, tuple[int, int] | None]


def told(study: Study, user: User) -> Told:
    return {
        line.perturbation: line.rate and (line.rate.k, line.rate.n) for line in take_interim_analysis(study, user).lines
    }


def test_interim_analysis_shows_the_latest_quarter_and_only_sources_with_ten_ratings(
    study: Study, analyst: User
) -> None:
    # 40 ratings are planned: snapshots at 10, 20, 30 and 40.
    rate_some(study, "none", 9)
    assert told(study, analyst) == {"none": None, "subtle": None}
    rate_some(study, "none", 1)
    assert told(study, analyst) == {"none": (10, 10), "subtle": None}
    rate_some(study, "subtle", 9, verdict=False)
    assert told(study, analyst) == {"none": (10, 10), "subtle": None}


def test_interim_row_of_a_source_changes_only_after_ten_more_ratings(study: Study, analyst: User) -> None:
    rate_some(study, "none", 10)
    rate_some(study, "subtle", 9, verdict=False)
    rate_some(study, "none", 1)  # 20: none has 11, one more than shown; subtle has 9
    assert told(study, analyst) == {"none": (10, 10), "subtle": None}
    rate_some(study, "subtle", 2, verdict=False)
    rate_some(study, "none", 8, verdict=False)  # 30: none has 19, nine more than shown; subtle has 11
    assert told(study, analyst) == {"none": (10, 10), "subtle": (0, 11)}
    rate_some(study, "none", 1)
    rate_some(study, "subtle", 9)  # 40: none has 20, ten more than shown; subtle has 20, nine more
    assert told(study, analyst) == {"none": (12, 20), "subtle": (0, 11)}


def test_interim_analysis_requested_after_each_rating_never_reveals_the_source_of_a_rating(
    study: Study, analyst: User
) -> None:
    seen: list[tuple[int, Told]] = []
    for number in range(1, 41):
        rate_some(study, "none" if number % 2 else "subtle", 1)
        seen.append((number, told(study, analyst)))
    moves = [now for (_, before), (now, after) in itertools.pairwise(seen) if before != after]
    # 20: ten of each; at 30 each has only five more, which is not shown; at 40 ten more.
    assert moves == [20, 40]


def test_interim_analysis_does_not_change_when_a_rating_is_corrected(study: Study, analyst: User) -> None:
    *_, assignment = rate_some(study, "none", 10)
    before = told(study, analyst)
    submit.submit_rating(assignment, False, 1, uuid.uuid4(), revision=1)
    assert told(study, analyst) == before


def test_interim_analysis_does_not_count_a_correction_as_a_rating(study: Study, analyst: User) -> None:
    *_, assignment = rate_some(study, "none", 9)
    submit.submit_rating(assignment, False, 1, uuid.uuid4(), revision=1)
    assert told(study, analyst)["none"] is None


def test_interim_analysis_counts_cannot_judge_as_a_planned_rating_but_in_no_rate(study: Study, analyst: User) -> None:
    rate_some(study, "none", 9)
    submit.submit_rating(Assignment.objects.filter(rating=None)[0], None, None, uuid.uuid4(), cannot_judge=True)
    assert take_interim_analysis(study, analyst).ratings == 10
    assert told(study, analyst)["none"] is None


def test_interim_analysis_excludes_surplus_ratings(study: Study, analyst: User) -> None:
    assignments = rate_some(study, "none", 10)
    Assignment.objects.filter(pk=assignments[0].pk).update(slot=None, surplus=True)
    assert told(study, analyst)["none"] is None


def test_interim_snapshot_with_dropped_ratings_is_replaced_by_the_one_before(study: Study, analyst: User) -> None:
    first, second = study.raters.order_by("number")
    for place in [*first.assignments.all(), *second.assignments.all()]:
        submit.submit_rating(place, True, 3, uuid.uuid4())
    assert told(study, analyst) == {"none": (20, 20), "subtle": (20, 20)}
    # Each rater has twenty, ten of each source. At 30 each row is still that of 20, of the first rater alone.
    Rater.objects.filter(pk=second.pk).update(withdrawn_at=timezone.now(), dropped=True)
    assert take_interim_analysis(study, analyst).ratings == 30
    assert told(study, analyst) == {"none": (10, 10), "subtle": (10, 10)}
    Rater.objects.filter(pk=first.pk).update(withdrawn_at=timezone.now(), dropped=True)
    # At 10 there were five of each source, which is not shown.
    assert take_interim_analysis(study, analyst).ratings == 10 and set(told(study, analyst).values()) == {None}


def test_interim_snapshot_excludes_raters_who_were_dropped_before_it(study: Study, analyst: User) -> None:
    first, second = study.raters.order_by("number")
    for place in first.assignments.all()[:9]:
        submit.submit_rating(place, True, 3, uuid.uuid4())
    Rater.objects.filter(pk=first.pk).update(withdrawn_at=timezone.now(), dropped=True)
    for number, place in enumerate(second.assignments.all()[:10], 1):
        submit.submit_rating(place, True, 3, uuid.uuid4())
        assert take_interim_analysis(study, analyst).ratings == (10 if number == 10 else 0)


def test_interim_snapshot_is_taken_at_the_same_count_despite_late_raters_and_imported_ratings() -> None:
    run_factory.create_pool(20)
    sources = [{"cast": "offline", "perturbation": "none", "count": 20}]
    crossed = study_factory.create_open_study(raters=2, sources=sources, ratings_per_item=2, design="crossed")
    analyst = User.objects.create_user("ann")
    Membership.objects.create(study=crossed, user=analyst, role="analyst")
    rate_some(crossed, "none", 10)
    assert take_interim_analysis(crossed, analyst)[:2] == (10, 40)  # 20 items, 2 ratings of each
    running_raters.add_rater_places(crossed, 2)
    codes = crossed.items.values_list("code", flat=True)
    table = "item,rater,verdict,confidence\n" + "".join(f"{code},A,0,1\n" for code in codes)
    rating_imports.import_file(crossed, io.BytesIO(table.encode()))
    assert take_interim_analysis(crossed, analyst)[:2] == (10, 40)
    assert told(crossed, analyst) == {"none": (10, 10)}


def test_interim_analysis_is_logged_with_its_analyst_unless_refused(study: Study, analyst: User) -> None:
    rate_some(study, "none", 10)
    take_interim_analysis(study, analyst)
    event = study.events.get(kind="looked")
    assert (event.by, event.typed_content) == (analyst, InterimLook(ratings=10, planned=40, shown=1, sources=2))
    assert study_log_texts.get_event_text(study, "looked") == "at 10 of 40 planned ratings: 1 of 2 sources shown"
    with pytest.raises(InterimNotAllowed):
        take_interim_analysis(study, User.objects.create_user("nobody"))
    assert study.events.filter(kind="looked").count() == 1


def test_interim_analysis_is_refused_to_raters_and_admins_even_if_superusers(study: Study, admin_user: User) -> None:
    rater = study_factory.fill_rater_place(study).user
    assert "are a rater in" in interim_analysis.explain_refusal(study, rater)
    admin = User.objects.create_user("editor")
    Membership.objects.create(study=study, user=admin, role="admin")
    assert "manage this study" in interim_analysis.explain_refusal(study, admin)
    assert interim_analysis.explain_refusal(study, admin_user) == ""
    study.created_by = admin_user
    study.save()
    assert "manage this study" in interim_analysis.explain_refusal(study, admin_user)
    both = User.objects.create_superuser("both")
    study_factory.fill_rater_place(study, user=both)
    assert "are a rater in" in interim_analysis.explain_refusal(study, both)


def test_interim_analysis_is_refused_to_analysts_who_were_admins(study: Study) -> None:
    boss, ann = User.objects.create_user("boss"), User.objects.create_user("ann", is_staff=True)
    access.add_member(study, "ann", "admin", boss)
    access.add_member(study, "ann", "analyst", boss)
    assert "have managed this study" in interim_analysis.explain_refusal(study, ann)
    study.members.get(user=ann).delete()
    User.objects.filter(pk=ann.pk).update(username="anna")  # a new user name is not another person
    access.add_member(study, "anna", "analyst", boss)
    assert "have managed this study" in interim_analysis.explain_refusal(study, User.objects.get(pk=ann.pk))


def test_interim_analysis_is_refused_to_users_who_changed_the_study(study: Study, admin_user: User) -> None:
    look = InterimLook(ratings=0, planned=40, shown=0, sources=2)
    for content in (TableExported(blinded=True), Audited(passed=True), look):
        lifecycle.log_event(study, content, admin_user)
    assert interim_analysis.explain_refusal(study, admin_user) == ""
    lifecycle.pause_study(study, admin_user)
    study.refresh_from_db()
    assert "have managed this study" in interim_analysis.explain_refusal(study, admin_user)


def test_interim_analysis_is_refused_to_former_admins_recorded_in_the_table_of_role_changes(
    study: Study, analyst: User
) -> None:
    assert interim_analysis.explain_refusal(study, analyst) == ""
    study.membership_changes.create(user=analyst, role="admin", granted=True)
    assert "have managed this study" in interim_analysis.explain_refusal(study, analyst)


def test_analyst_who_took_an_interim_analysis_cannot_become_admin_before_unblinding(
    study: Study, analyst: User
) -> None:
    User.objects.filter(pk=analyst.pk).update(is_staff=True)
    take_interim_analysis(study, analyst)
    with pytest.raises(StudyError, match="has taken an interim analysis"):
        access.add_member(study, "analyst", "admin")
    lifecycle.close_and_unblind(study, None)
    study.refresh_from_db()
    assert access.add_member(study, "analyst", "admin").role == "admin"


def test_interim_analysis_is_refused_before_opening_and_after_unblinding(study: Study, admin_user: User) -> None:
    draft = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="draft")))
    assert "is draft" in interim_analysis.explain_refusal(draft, admin_user)
    lifecycle.close_and_unblind(study, None)
    study.refresh_from_db()
    assert "is unblinded" in interim_analysis.explain_refusal(study, admin_user)


def test_interim_page_takes_an_analysis_only_when_the_button_is_pressed(
    study: Study, analyst: User, client: Any
) -> None:
    rate_some(study, "subtle", 10)
    client.force_login(analyst)
    address = reverse("ratings:interim", args=[study.slug])
    page = client.get(address)
    assert page.status_code == 200
    assert b"10 of 10" not in page.content
    assert not study.events.filter(kind="looked").exists()
    assert b"10 of 10" in client.post(address).content
    assert study.events.filter(kind="looked").count() == 1


def test_interim_page_names_no_item_and_no_rater(study: Study, analyst: User, client: Any) -> None:
    rate_some(study, "subtle", 10)
    client.force_login(analyst)
    page = client.post(reverse("ratings:interim", args=[study.slug])).content.decode()
    assert not any(str(code) in page for code in study.items.values_list("code", flat=True))
    assert not any(label in page for label in study.raters.values_list("label", flat=True))
