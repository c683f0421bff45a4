"""The life cycle of a study: each allowed move is taken, and every other one refused."""

import io
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from ratings.exchange.imports import rating_imports
from ratings.models import Rater, Rating, Study
from ratings.models.study_events import GuideRevised, MemberChanged, Paused
from ratings.results.study_log import title_event
from ratings.studies import StudyError, lifecycle
from ratings.studies.progress import build_report, evaluate_stop_rule
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db

MOVES: dict[str, tuple[str, Callable[[Study, User], Any]]] = {
    "open": ("open", lambda study, by: lifecycle.open_study(study, by=by)),
    "pause": ("paused", lifecycle.pause_study),
    "resume": ("open", lifecycle.resume_study),
    "close": ("closed", lifecycle.close_study),
    "reopen": ("open", lifecycle.reopen_study),
    "unblind": ("unblinded", lifecycle.unblind_study),
}
# status -> the moves it allows; unblinding twice changes nothing, and is not an error
LEGAL = {
    "draft": {"open"},
    "open": {"pause", "close"},
    "paused": {"resume", "close"},
    "closed": {"reopen", "unblind"},
    "unblinded": {"unblind"},
}
WAY = {"draft": (), "open": ("open",), "paused": ("open", "pause"), "closed": ("open", "close"), "unblinded": ("open", "close", "unblind")}  # fmt: skip


def brought_to(status: str, by: User) -> Study:
    run_factory.create_pool()
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()), by)
    for move in WAY[status]:
        MOVES[move][1](study, by)
    study.refresh_from_db()
    assert study.status == status
    return study


@pytest.mark.parametrize("status", LEGAL)
def test_study_allows_exactly_the_moves_of_its_status(status: str, ada: User) -> None:
    study = brought_to(status, ada)
    assert {MOVES[move][0] for move in LEGAL[status]} - {status} == set(Study.MOVES[status])
    for name in MOVES.keys() - LEGAL[status]:
        events = study.events.count()
        with pytest.raises(StudyError, match="only a study that is"):
            MOVES[name][1](study, ada)
        study.refresh_from_db()
        assert (study.status, study.events.count()) == (status, events)


@pytest.mark.parametrize(("status", "move"), [(status, move) for status in LEGAL for move in sorted(LEGAL[status])])
def test_each_allowed_move_adds_one_event_to_the_log(status: str, move: str, ada: User) -> None:
    study = brought_to(status, ada)
    before = study.events.count()
    MOVES[move][1](study, ada)
    study.refresh_from_db()
    assert study.status == MOVES[move][0]
    assert study.events.count() == before + (status != "unblinded")


def test_study_can_be_closed_and_unblinded_at_once_by_a_command(ada: User) -> None:
    study = brought_to("paused", ada)
    lifecycle.close_and_unblind(study, ada)
    assert list(study.events.values_list("kind", flat=True))[-3:] == ["paused", "closed", "unblinded"]


def test_stop_rule_is_met_once_every_item_has_its_ratings(ada: User) -> None:
    study = brought_to("open", ada)
    first, *others = study_factory.fill_all_rater_places(study)
    study_factory.rate_everything(first)
    given = Rating.objects.count()
    # ten items, two ratings each
    assert evaluate_stop_rule(study) == (False, given, 20, f"{20 - given} ratings to go.")
    for rater in others:
        study_factory.rate_everything(rater)
    assert evaluate_stop_rule(study).met


def test_stop_rule_ignores_ratings_that_do_not_count(ada: User) -> None:
    study = brought_to("open", ada)
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    place = Rating.objects.order_by("pk")[0].assignment
    for change in ({"occasion": 2, "slot": None}, {"surplus": True, "slot": None}):
        before = {name: getattr(place, name) for name in change}
        type(place).objects.filter(pk=place.pk).update(**change)
        assert evaluate_stop_rule(study).said == "1 rating to go."
        type(place).objects.filter(pk=place.pk).update(**before)
    assert evaluate_stop_rule(study).met
    done = place.rater.assignments.count()
    type(place.rater).objects.filter(pk=place.rater_id).update(dropped=True, withdrawn_at=study.created_at)
    assert evaluate_stop_rule(study).given == 20 - done


def test_stop_rule_by_number_of_ratings_is_met_at_that_number(ada: User) -> None:
    run_factory.create_pool()
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(stop="ratings", stop_ratings=2))
    study = lifecycle.create_study(protocol, ada)
    assert not evaluate_stop_rule(study).met
    lifecycle.open_study(study)
    study_factory.rate_everything(study_factory.fill_rater_place(study, "R01"))
    assert evaluate_stop_rule(study).met


def test_stop_rule_by_deadline_is_met_when_the_day_is_over(ada: User) -> None:
    day = date(2027, 3, 31)
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(stop="deadline", deadline=day.isoformat()))
    study = lifecycle.create_study(protocol, ada)
    assert evaluate_stop_rule(study, today=day).said == "Ratings are collected until the end of 31 March 2027."
    assert not evaluate_stop_rule(study, today=day).met
    assert evaluate_stop_rule(study, today=day + timedelta(days=1)).met


def test_stop_rule_is_never_met_without_items(ada: User) -> None:
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(sources=[])), ada)
    assert not evaluate_stop_rule(study).met


def test_stop_rule_does_not_offset_missing_ratings_with_surplus_of_another_item(ada: User) -> None:
    study = brought_to("open", ada)
    item = study.items.order_by("pk")[0]
    rows = "".join(f"{item.code},Dr {number},plausible,4\n" for number in range(20))
    rating_imports.import_file(study, io.BytesIO(f"item,rater,verdict,confidence\n{rows}".encode()))
    # ten items, two ratings each: one is complete, the other nine lack two
    assert evaluate_stop_rule(study) == (False, 20, 20, "18 ratings to go.")
    progress = build_report(study).progress
    assert (progress.done, progress.total, progress.missing) == (20, 38, 18)


def test_stop_rule_of_a_draft_without_items_states_that_there_are_none(ada: User) -> None:
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(sources=[])), ada)
    assert evaluate_stop_rule(study) == (False, 0, 0, "It has no items to rate yet.")


def test_deleting_a_draft_deletes_its_dependent_rows(ada: User) -> None:
    study = brought_to("draft", ada)
    study.audits.create(by=ada, passed=True, report={}, sha256="0" * 64)
    study.members.create(user=User.objects.create_user("ben"), role="analyst")
    lifecycle.delete_draft(study)
    assert not Study.objects.exists()


def test_deleting_a_draft_with_raters_is_refused_with_the_reason(ada: User) -> None:
    study = brought_to("draft", ada)
    Rater.objects.create(study=study, number=1, label="R01")
    with pytest.raises(StudyError, match="cannot be deleted: it has raters"):
        lifecycle.delete_draft(study)
    assert study.events.exists()


def test_log_title_describes_each_kind_of_event() -> None:
    given = MemberChanged(account=3, role="analyst", granted=True)
    assert title_event("member", given) == "role granted"
    assert title_event("member", given.model_copy(update={"granted": False})) == "role removed"
    assert title_event("guide", GuideRevised(version=2)) == "guide revised"
    assert title_event("paused", Paused()) == "paused"
