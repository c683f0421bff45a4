import uuid

import factories
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings import answering, reports, studies
from ratings.models import Assignment, ItemSource, Rating, Study
from ratings.reports import SealedError, study_report
from ratings.views.items import mark_name

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def rated(answers: dict[str, list[tuple[bool, int]]], **changes: object) -> Study:
    """A study of 20 originals and 20 subtle twins rated by two; `answers` are each rater's, by perturbation, in turn."""
    factories.pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    study = factories.open_study(raters=2, sources=sources, **changes)
    for rater in study.raters.all():
        turn = {"none": iter(answers["none"] * 20), "subtle": iter(answers["subtle"] * 20)}
        places = rater.assignments.select_related("item__source").order_by("item__payload_sha256")
        for place in places:
            verdict, confidence = next(turn[place.item.source.perturbation])
            answering.rate(place, verdict, confidence, uuid.uuid4())
    return study


def unblinded(study: Study, by: object) -> Study:
    studies.close_and_unblind(study, by)
    study.refresh_from_db()
    return study


def test_rates_kappa_and_auc_by_source_are_what_the_arithmetic_says(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    report = study_report(unblinded(study, admin_user))
    none, subtle = report.sources
    # Both raters say the same of everything: 20 of 20 originals and 10 of 20 twins plausible, by two raters each.
    assert (none.perturbation, none.rate.k, none.rate.n, none.n_items, none.n_raters) == ("none", 40, 40, 20, 2)
    assert (subtle.perturbation, subtle.rate.k, subtle.rate.n, subtle.rate.value) == ("subtle", 20, 40, 0.5)
    assert (none.kappa.value, none.kappa.observed, none.kappa.pairs_undefined) == (None, 1, 1)
    assert "0/0" in none.kappa.reason
    assert (subtle.kappa.value, subtle.kappa.pairs_used) == (1, 1)
    assert (report.overall.value, report.overall.n_items, report.overall.n_ratings) == (1, 40, 80)
    # Correct: 40 originals with confidence 5 and 20 twins with 4; incorrect: 20 twins with 2. All pairs won.
    assert report.auc == (1.0, 60, 20, "")
    # Wilson for 20 of 40: half width 1.96 * sqrt(0.25/40 + 3.8415/6400) / (1 + 3.8415/40) = 0.148 around 1/2
    assert subtle.rate.low == pytest.approx(0.352, abs=5e-4)
    assert report.sealed is False


def test_before_unblinding_a_report_holds_nothing_by_source() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    report = study_report(study)
    assert report.sealed
    assert (report.sources, report.auc, report.classifiers) == ((), None, ())
    assert (report.progress.done, report.progress.total, report.progress.items) == (80, 80, 40)
    assert (report.pooled_rate.k, report.pooled_rate.n) == (60, 80)


def test_before_unblinding_no_report_reads_a_source() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    with CaptureQueriesContext(connection) as asked:
        study_report(study)
    table = ItemSource._meta.db_table
    assert asked.captured_queries
    assert not any(table in query["sql"] for query in asked.captured_queries)


def test_rows_with_sources_are_sealed_until_the_study_is_unblinded(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    studies.close(study)
    study.refresh_from_db()
    with pytest.raises(SealedError, match="sealed until it is unblinded"):
        reports.rating_rows(study)
    assert len(list(reports.rating_rows(unblinded(study, admin_user)))) == 80


@pytest.mark.parametrize("unseal", [False, True])
def test_a_report_asks_as_many_questions_for_twenty_ratings_as_for_ten(unseal, admin_user) -> None:
    factories.pool(40)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = factories.open_study(raters=2, sources=source, ratings_per_item=1, slug=f"study-{count}")
        for rater in study.raters.all():
            factories.rate_all(rater)
        if unseal:
            unblinded(study, admin_user)
        with CaptureQueriesContext(connection) as queries:
            report = study_report(study)
        assert report.progress.done == count
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 4


def test_a_study_without_ratings_has_no_numbers_and_says_why(admin_user) -> None:
    factories.pool()
    report = study_report(unblinded(factories.open_study(), admin_user))
    assert report.pooled_rate.value is None
    assert report.pooled_rate.reason == "there are no ratings"
    assert (report.auc.value, report.auc.reason) == (None, "no rating has a known truth")
    assert report.raters[0].median_seconds is None


def test_simulated_raters_are_named_as_such(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    assert study_report(study).simulated == ""
    study.raters.filter(label="R02").update(simulated=True)
    report = study_report(study)
    assert report.simulated == "1 of 2 raters are simulated; they gave 40 of 80 ratings."
    assert [line.simulated for line in report.raters] == [False, True]


def test_evidence_is_compared_with_each_classifier(admin_user) -> None:
    factories.evidence_pool(20)
    study = factories.open_study(raters=2, **factories.evidence_protocol(20))
    for number, rater in enumerate(study.raters.order_by("label")):
        for place in rater.assignments.select_related("item__source"):
            judged = place.item.source.verdicts["offline/checklist"]
            answering.rate(place, judged if number == 0 else True, 3, uuid.uuid4())
    report = study_report(unblinded(study, admin_user))
    (line,) = report.classifiers
    assert line.classifier == "offline/checklist"
    assert (line.rate.k, line.rate.n) == (10, 20)
    # One rater says all the classifier says (kappa 1, agreement 1), the other always yes (kappa 0, agreement 10/20).
    assert (line.agreement.value, line.agreement.observed, line.agreement.raters_used) == (0.5, 0.75, 2)
    assert report.auc is None


def test_what_counts_nowhere_moves_no_number(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    before = study_report(study)
    surplus, again, unsure, *_ = Rating.objects.filter(verdict=True).order_by("pk")
    Assignment.objects.filter(pk=surplus.assignment_id).update(slot=None, surplus=True)
    Assignment.objects.filter(pk=again.assignment_id).update(slot=None, occasion=2)
    Rating.objects.filter(pk=unsure.pk).update(verdict=None, confidence=None, cannot_judge=True)
    after = study_report(study)
    # Three answers of yes are gone from 60 of 80; one of them was given, and could not judge.
    assert (before.pooled_rate.k, before.pooled_rate.n) == (60, 80)
    assert (after.pooled_rate.k, after.pooled_rate.n) == (57, 77)
    assert (after.progress.done, after.progress.total) == (78, 80)
    assert (after.surplus, after.cannot_judge) == (1, 1)
    assert sum(line.n_items > 0 for line in study_report(unblinded(study, admin_user)).sources) == 2


def test_a_dropped_raters_ratings_are_nowhere_and_their_line_says_so() -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2)]})
    study.raters.filter(label="R02").update(withdrawn_at=timezone.now(), dropped=True)
    report = study_report(study)
    assert (report.pooled_rate.n, report.progress.done) == (40, 40)
    assert [line.dropped for line in report.raters] == [False, True]


def test_test_retest_pairs_each_raters_two_answers_and_nothing_else_reads_the_second(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(False, 4)]})
    assert study_report(study).retest is None
    rater = study.raters.get(label="R01")
    firsts = list(rater.assignments.order_by("position")[:4])
    # The first two are said again, the next two the other way round.
    for number, first in enumerate(firsts):
        place = Assignment.objects.create(
            item=first.item, rater=rater, pair=first.pair, occasion=2, position=100 + number
        )
        verdict = first.rating.verdict if number < 2 else not first.rating.verdict
        answering.rate(place, verdict, 3, uuid.uuid4())
    report = study_report(study)
    assert (report.retest.n, report.retest.observed) == (4, 0.5)
    assert report.progress.done == 80
    assert report.overall.n_ratings == 80


def test_an_item_is_disputed_when_most_of_two_or_more_raters_say_otherwise(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    # Both raters say plausible of the 20 originals (true) and of 10 of the 20 twins (wrong): ten are disputed.
    assert study_report(study).disputed == 0
    unblinded(study, admin_user)
    assert study_report(study).disputed == 10
    lines = reports.item_lines(study)
    assert [line.disputed for line in lines] == [True] * 10 + [False] * 30
    assert {(line.truth, line.yes, line.judged) for line in lines[:10]} == {(False, 2, 2)}
    # One against one is no majority.
    one = Rating.objects.filter(assignment__item__code=lines[0].code).first()
    Rating.objects.filter(pk=one.pk).update(verdict=False)
    assert study_report(study).disputed == 9
    ItemSource.objects.update(truth=None)
    assert study_report(study).disputed == 0


def test_ticked_rows_are_scored_by_source(admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(False, 4)]})
    Assignment.objects.update(marks="always")
    subtle = ItemSource.objects.filter(perturbation="subtle")
    subtle.update(target=["A:Volume"])
    found = Rating.objects.filter(assignment__item__source__in=list(subtle)[:5])
    Rating.objects.filter(pk__in=[rating.pk for rating in found]).update(marks=["A:Volume"])
    none, wrong = study_report(unblinded(study, admin_user)).sources
    assert none.localised is None
    # Five of twenty twins, by two raters each.
    assert (wrong.localised.k, wrong.localised.n) == (10, 40)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("A:Volume", "A: Volume"),
        ("A:a/b:c", "A: a/b:c"),
        ("AB/name", "AB: name"),
        ("A/row", "A: its row of the table"),
        ("A+:Volume", "A and those like it: Volume"),
        ("seen/2", "observation 2"),
        ("step/11", "step 11"),
        ("missing", "something is missing"),
        ("rejected", "the reason for the rejection"),
    ],
)
def test_a_ticked_row_is_named_in_words(key: str, said: str) -> None:
    assert mark_name(key) == said


def test_the_items_page_is_sealed_until_the_study_is_unblinded(admin_client, admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(True, 2), (False, 4)]})
    code = study.items.first().code
    pages = [reverse("ratings:items", args=[study.slug]), reverse("ratings:item", args=[study.slug, code])]
    assert b"offline" not in admin_client.get(pages[0]).content
    assert admin_client.get(pages[1]).status_code == 404
    unblinded(study, admin_user)
    assert b"10 disputed items" in admin_client.get(pages[0]).content
    assert admin_client.get(pages[0], {"show": "disputed", "page": "x"}).context["page"].paginator.count == 10
    assert admin_client.get(pages[1]).status_code == 200
    assert admin_client.get(reverse("ratings:item", args=[study.slug, uuid.uuid4()])).status_code == 404


def test_an_items_page_shows_every_rating_and_where_the_error_is(admin_client, admin_user) -> None:
    study = rated({"none": [(True, 5)], "subtle": [(False, 4)]})
    item = study.items.filter(source__perturbation="subtle").first()
    ItemSource.objects.filter(item=item).update(target=["A:Volume"])
    Assignment.objects.update(marks="always")
    Rating.objects.filter(assignment__item=item).update(marks=["A:Volume"], note="<i>too much</i>")
    unblinded(study, admin_user)
    page = admin_client.get(reverse("ratings:item", args=[study.slug, item.code])).content.decode()
    assert page.count("found the error") == 2
    assert "&lt;i&gt;too much" in page
    assert "<i>too much" not in page


def test_the_items_page_asks_as_many_questions_for_twenty_items_as_for_ten(admin_client, admin_user) -> None:
    factories.pool(40)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = factories.open_study(raters=2, sources=source, ratings_per_item=1, slug=f"study-{count}")
        for rater in study.raters.all():
            factories.rate_all(rater)
        unblinded(study, admin_user)
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(reverse("ratings:items", args=[study.slug]))
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 12
