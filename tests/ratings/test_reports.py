import uuid

import factories
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ratings import reports, studies
from ratings.models import ItemSource, Study
from ratings.reports import SealedError, study_report

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
            studies.rate(place, verdict, confidence, uuid.uuid4())
    return study


def unblinded(study: Study, by: object) -> Study:
    studies.unblind(study, by)
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
            studies.rate(place, judged if number == 0 else True, 3, uuid.uuid4())
    report = study_report(unblinded(study, admin_user))
    (line,) = report.classifiers
    assert line.classifier == "offline/checklist"
    assert (line.rate.k, line.rate.n) == (10, 20)
    # One rater says all the classifier says (kappa 1, agreement 1), the other always yes (kappa 0, agreement 10/20).
    assert (line.agreement.value, line.agreement.observed, line.agreement.raters_used) == (0.5, 0.75, 2)
    assert report.auc is None
