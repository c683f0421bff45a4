"""The progress of a study, and the tables of its items."""

import re
import uuid

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rating, Study
from ratings.rating import next_item, submit
from ratings.results import rating_rows
from ratings.studies import SealedError
from ratings.studies.item_counts import update_item_counts
from ratings.studies.progress import build_report
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db


def rated(answers: dict[str, list[tuple[bool, int]]], **changes: object) -> Study:
    """A study of 20 originals and 20 subtle twins rated by two; `answers` are each rater's, by perturbation, in turn."""
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    study = study_factory.create_open_study(raters=2, sources=sources, **changes)
    for rater in study.raters.all():
        turn = {"none": iter(answers["none"] * 20), "subtle": iter(answers["subtle"] * 20)}
        places = rater.assignments.select_related("item__source").order_by("item__payload_sha256")
        for place in places:
            verdict, confidence = next(turn[place.item.source.perturbation])
            submit.submit_rating(place, verdict, confidence, uuid.uuid4())
    return study


def test_report_shows_the_progress_of_the_study() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    report = build_report(study)
    assert report.progress == (80, 80, 40, 2, 2, 0)
    rating = Rating.objects.filter(assignment__rater__label="R02")[0]
    rating.delete()
    Assignment.objects.filter(pk=rating.assignment_id).update(answered_at=None)
    update_item_counts(study.raters.all())
    assert build_report(study).progress == (79, 80, 40, 2, 1, 1)


def test_report_reads_no_source_and_no_verdict(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            build_report(study)
        assert asked.captured_queries
        assert not any(ItemSource._meta.db_table in q["sql"] or '"verdict"' in q["sql"] for q in asked.captured_queries)
        study_factory.unblind_study(study, admin_user) if not study.is_unblinded else None


def test_rating_rows_with_sources_are_sealed_until_unblinding(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    for sealed in (rating_rows.iter_rating_rows, rating_rows.list_items):
        with pytest.raises(SealedError, match="sealed until it is unblinded"):
            sealed(study)
    assert len(list(rating_rows.iter_rating_rows(study_factory.unblind_study(study, admin_user)))) == 80


def test_rating_rows_can_be_limited_to_some_items(admin_user) -> None:
    study = study_factory.unblind_study(rated({"none": [(True, 5)], "subtle": [(True, 2)]}), admin_user)
    codes = set(study.items.values_list("code", flat=True)[:3])
    found = list(rating_rows.iter_rating_rows(study, *codes))
    assert len(found) == 6
    assert {row.item for row in found} == codes


@pytest.mark.both_databases
def test_report_takes_the_same_queries_for_10_and_20_ratings() -> None:
    run_factory.create_pool(40)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = study_factory.create_open_study(raters=2, sources=source, ratings_per_item=1, slug=f"study-{count}")
        for rater in study.raters.all():
            study_factory.rate_everything(rater)
        with CaptureQueriesContext(connection) as queries:
            report = build_report(study)
        assert report.progress.done == count
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 6


def test_report_median_ignores_unknown_times() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    Rating.objects.update(seconds=50)
    first, second, third, *_ = Rating.objects.filter(assignment__rater__label="R01").order_by("pk")
    others = Rating.objects.filter(assignment__rater__label="R01").exclude(pk__in=[first.pk, second.pk, third.pk])
    others.update(imported=True, seconds=0)  # collected elsewhere, without times

    def medians() -> list[float | None]:
        return [line.median_seconds for line in build_report(study).raters]

    Rating.objects.filter(pk=first.pk).update(seconds=10)
    Rating.objects.filter(pk=second.pk).update(seconds=90, active_seconds=30)
    Rating.objects.filter(pk=third.pk).update(seconds=100)
    # the middle one of 10, 30 (active seconds and not the elapsed 90) and 100; then of 10, 20, 30 and 100 the mean of two
    assert medians() == [30, 50]
    Rating.objects.filter(pk=others[0].pk).update(seconds=20)
    assert medians() == [25, 50]


def test_report_names_simulated_raters() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    assert build_report(study).simulated == ""
    study.raters.filter(label="R02").update(simulated=True)
    report = build_report(study)
    assert report.simulated == "1 of 2 raters are simulated; they gave 40 of 80 ratings."
    assert ([line.rater.simulated for line in report.raters], report.by_simulated) == ([False, True], 40)


@pytest.mark.both_databases
def test_report_counts_surplus_and_cannot_judge_separately() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    surplus, again, unsure, *_ = Rating.objects.filter(verdict=True).order_by("pk")
    Assignment.objects.filter(pk=surplus.assignment_id).update(slot=None, surplus=True)
    Assignment.objects.filter(pk=again.assignment_id).update(slot=None, occasion=2)
    Rating.objects.filter(pk=unsure.pk).update(verdict=None, confidence=None, cannot_judge=True)
    report = build_report(study)
    # Of 80 one is surplus and one a repeat; one counts as cannot judge.
    assert (report.progress.done, report.progress.total) == (78, 80)
    assert (report.surplus, report.cannot_judge) == (1, 1)


def show_status(study: Study) -> list[str]:
    """Return what the table of raters on the study's page shows under Done and Status."""
    page = render_to_string("ratings/_study_raters.html", {"study": study, "report": build_report(study)})
    cells = re.findall(r'data-label="(?:Done|Status)">(.*?)</td>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]


def test_pool_study_counts_no_rater_as_finished_before_anything_is_rated() -> None:
    run_factory.create_pool(10)
    study = study_factory.create_open_study(raters=3, design="pool", ratings_per_item=2)
    assert (build_report(study).progress.raters_done, build_report(study).progress.raters) == (0, 3)
    assert show_status(study) == ["0", "open place"] * 3


def test_pool_study_counts_a_rater_as_finished_when_no_more_items_can_be_claimed() -> None:
    run_factory.create_pool(10)
    study = study_factory.create_open_study(raters=3, design="pool", ratings_per_item=2)
    first, second, third = study_factory.fill_all_rater_places(study)
    for number in range(2):
        place = next_item.find_next_assignment(first)
        assert place, number
        next_item.mark_opened(place)
        submit.submit_rating(place, True, 4, uuid.uuid4())
    # Every claimed item is rated, but more can be claimed.
    assert build_report(study).progress.raters_done == 0
    assert show_status(study)[:2] == ["2", "rating"]
    study.raters.filter(pk=second.pk).update(finished_at=timezone.now())
    assert [line.is_finished for line in build_report(study).raters] == [False, True, False]
    for rater in (first, third):
        study_factory.rate_everything(rater)
    assert build_report(study).progress == (20, 20, 10, 3, 3, 0)


def test_pool_study_counts_a_rater_as_finished_at_the_limit_of_items() -> None:
    run_factory.create_pool(10)
    study = study_factory.create_open_study(raters=8, design="pool", ratings_per_item=2, items_per_rater=3)
    first, *_ = study_factory.fill_all_rater_places(study)
    assert show_status(study)[:2] == ["0 0 of 3", "ready"]
    assert study_factory.rate_everything(first) == 3
    assert build_report(study).progress.raters_done == 1
    assert show_status(study)[:2] == ["3 3 of 3", "finished"]


@pytest.mark.both_databases
def test_report_excludes_ratings_of_a_dropped_rater_and_marks_the_rater() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    study.raters.filter(label="R02").update(withdrawn_at=timezone.now(), dropped=True)
    report = build_report(study)
    assert report.progress.done == 40
    assert [line.rater.dropped for line in report.raters] == [False, True]


@pytest.mark.both_databases
def test_item_is_disputed_if_a_majority_of_raters_disagrees_with_its_truth(admin_user) -> None:
    study = study_factory.unblind_study(rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]}), admin_user)

    def disputed() -> int:
        return rating_rows.list_items(study).filter(is_disputed=True).count()

    # Both raters call the 20 originals (true) and 10 of the 20 twins (wrong) plausible: ten are disputed.
    assert disputed() == 10
    lines = list(rating_rows.list_items(study).order_by("-is_disputed", "code"))
    assert [line.is_disputed for line in lines] == [True] * 10 + [False] * 30
    assert {(line.source.reference, line.yes, line.judged, line.given) for line in lines[:10]} == {("planted", 2, 2, 2)}
    assert {line.share for line in lines[:10]} == {1.0}
    # One against one is not a majority, nor is one alone.
    one, _ = Rating.objects.filter(assignment__item__code=lines[0].code)
    Rating.objects.filter(pk=one.pk).update(verdict=False)
    assert disputed() == 9
    Rating.objects.filter(pk=one.pk).update(verdict=None, confidence=None, cannot_judge=True)
    assert disputed() == 9
    ItemSource.objects.update(reference="")
    assert disputed() == 0
