"""One rule defines which ratings count, and every count uses it."""

import io
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from ratings.exchange import exports
from ratings.exchange.imports import rating_imports
from ratings.models import Assignment, Membership, Rater, Study
from ratings.rating import submit
from ratings.studies import interim_analysis, progress, running_raters
from ratings.studies.item_counts import update_item_counts
from ratings.web.study.study import add_list_counts
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def study(db: None) -> Study:
    """Eleven items of one source, all rated by R01. Ten are planned, which is what an interim analysis needs."""
    run_factory.create_pool(11)
    sources = [{"cast": "offline", "perturbation": "none", "count": 11}]
    study = study_factory.create_open_study(
        raters=1, sources=sources, ratings_per_item=1, stop="ratings", stop_ratings=10
    )
    for assignment in Assignment.objects.filter(rater__study=study):
        submit.submit_rating(assignment, True, 3, uuid.uuid4())
    return study


def everywhere(study: Study) -> set[int]:
    """Return how many ratings count by the stop rule, in the list of studies, on the study's page and in its file."""
    in_file = [row for row in exports.iter_rating_cells(study, blinded=True) if row["counts"] == 1]
    return {
        progress.count_ratings(study),
        add_list_counts(Study.objects.filter(pk=study.pk))[0].given,
        progress.build_report(study).progress.done,
        len(in_file),
    }


def interim_look(study: Study) -> list[int | None]:
    analyst = User.objects.create_user(f"analyst-{uuid.uuid4().hex}")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    return [line.rate and line.rate.n for line in interim_analysis.take_interim_analysis(study, analyst).lines]


@pytest.mark.parametrize(
    "change",
    [{"occasion": 2, "slot": None}, {"surplus": True, "slot": None}, {"released_at": timezone.now(), "slot": None}],
    ids=["second occasion", "surplus", "released"],
)
def test_repeat_surplus_and_released_ratings_count_nowhere(study: Study, change: dict[str, Any]) -> None:
    assert everywhere(study) == {11}
    first, second = Assignment.objects.filter(rater__study=study)[:2]
    Assignment.objects.filter(pk=first.pk).update(**change)
    update_item_counts(study.raters.all())
    assert everywhere(study) == {10} and interim_look(study) == [10]
    Assignment.objects.filter(pk=second.pk).update(**change)
    update_item_counts(study.raters.all())
    assert everywhere(study) == {9} and interim_look(study) == [None]


def test_list_of_studies_counts_imported_and_simulated_ratings_and_no_correction(study: Study) -> None:
    first, second = study.items.order_by("pk")[:2]
    lines = [f"{first.code},Ann,yes,3,1", f"{second.code},Ann,no,2,1", f"{first.code},Bob,no,2,0"]
    file = "\n".join(["item,rater,verdict,confidence,simulated", *lines])
    rating_imports.import_file(study, io.BytesIO(file.encode()))
    # Eleven by R01, two by Ann, who is simulated, and one by Bob.
    assert everywhere(study) == {14} and list_counts(study) == (14, 2)
    assignment = Assignment.objects.filter(rater__label="R01").order_by("-answered_at", "-position")[0]
    submit.submit_rating(assignment, False, 1, uuid.uuid4(), revision=1)
    assert everywhere(study) == {14} and list_counts(study) == (14, 2)
    running_raters.withdraw_rater(study.raters.get(label="R01"))
    assert everywhere(study) == {14} and list_counts(study) == (14, 2)


def test_list_of_studies_leaves_out_a_rater_who_withdrew_with_their_ratings() -> None:
    run_factory.create_pool(4)
    sources = [{"cast": "offline", "perturbation": "none", "count": 4}]
    study = study_factory.create_open_study(raters=2, sources=sources, ratings_per_item=1, withdrawal="drop")
    leaving, staying = study_factory.fill_all_rater_places(study)
    # Two items each. When one rater leaves after the first item, the other is assigned both of their items.
    [assignment, _] = leaving.assignments.all()
    submit.submit_rating(assignment, True, 3, uuid.uuid4())
    study_factory.rate_everything(staying)
    assert everywhere(study) == {3} and list_counts(study) == (3, 0)
    running_raters.withdraw_rater(leaving)
    assert everywhere(study) == {2} and list_counts(study) == (2, 0)
    study_factory.rate_everything(staying)
    assert everywhere(study) == {4} and list_counts(study) == (4, 0)


def list_counts(study: Study) -> tuple[int, int]:
    """Return the ratings, and those of simulated raters, that the list of studies shows."""
    [row] = add_list_counts([study])
    return row.given, row.simulated


def test_ratings_of_a_dropped_rater_count_nowhere(study: Study) -> None:
    Rater.objects.filter(study=study).update(withdrawn_at=timezone.now(), dropped=True)
    assert everywhere(study) == {0} and interim_look(study) == [None]


def test_cannot_judge_counts_as_a_rating_but_in_no_rate(study: Study) -> None:
    # cannot judge is a rating that was given (the item needs no other), and no verdict
    assignment = Assignment.objects.filter(rater__study=study).order_by("-rating__submitted_at", "-rating__pk")[0]
    submit.submit_rating(assignment, None, None, uuid.uuid4(), cannot_judge=True, revision=1)
    assert everywhere(study) == {11}
    report = progress.build_report(study)
    assert (report.progress.done, report.cannot_judge) == (11, 1)
    assert interim_look(study) == [10]
