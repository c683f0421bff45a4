"""Stored analyses: found again, computed once, and never current after a change of their data."""

import csv
import io
import itertools
import json
import threading
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ratings.models import Analysis, ItemSource, MachineRater, MachineRating, Rater, Rating, RatingEvent, Study
from ratings.rating import next_item, submit
from ratings.results.analyses import analysis_job, document, store
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.studies import SealedError, progress
from ratings.studies.item_counts import update_item_counts
from simulation import leases
from simulation.jobs import jobs
from simulation.models import Job, Transition, Twin
from tests.support import run_factory, study_factory
from tests.support.rating_room import store_rating

pytestmark = pytest.mark.django_db


def create_rated_study() -> Study:
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=2)
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    return study


@pytest.fixture
def study(admin_user) -> Study:
    return study_factory.unblind_study(create_rated_study(), admin_user)


def submit_answer(study: Study) -> None:
    assignment = next_item.find_next_assignment(study.raters.get(label="R01"))
    submit.submit_rating(assignment, True, 3, uuid.uuid4())


def correct_answer(study: Study) -> None:
    rating = Rating.objects.filter(assignment__item__study=study).first()
    submit.submit_rating(rating.assignment, not rating.verdict, 1, uuid.uuid4(), revision=rating.revision)


def drop_rater(study: Study) -> None:
    Rater.objects.filter(study=study, label="R02").update(dropped=True, withdrawn_at=timezone.now())


def add_machine_rating(study: Study) -> None:
    rater = MachineRater.objects.create(study=study, label="M1", cast="gpt", name="gpt-5")
    MachineRating.objects.create(rater=rater, item=study.items.first(), verdict=True, payload_sha256="0" * 64)


def import_rating(study: Study) -> None:
    rater = study.raters.create(label="R09", number=9, imported_as="Ann")
    place = rater.assignments.create(item=study.items.first(), position=1, pair=uuid.uuid4())
    plain = {"verdict": True, "confidence": 4, "submission_id": uuid.uuid4()}
    store_rating(place, imported=True, **plain)
    RatingEvent.objects.create(assignment=place, kind="imported", revision=1, at=timezone.now(), **plain)


def reassign_items(study: Study) -> None:
    study.raters.get(label="R02").assignments.filter(rating=None).update(released_at=timezone.now(), slot=None)
    update_item_counts(study.raters.all())


def add_machine_rater(study: Study) -> None:
    MachineRater.objects.create(study=study, label="M1", cast="gpt", name="gpt-5")


@pytest.mark.parametrize(
    "change",
    [submit_answer, correct_answer, drop_rater, add_machine_rating, add_machine_rater, import_rating, reassign_items],
)
@pytest.mark.both_databases
def test_state_digest_changes_with_the_ratings(change) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=2)
    submit_answer(study)
    before = progress.compute_state_digest(study)
    assert progress.compute_state_digest(study) == before
    change(study)
    assert progress.compute_state_digest(study) != before


@pytest.mark.both_databases
def test_state_digest_takes_the_same_queries_for_few_and_many_ratings() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=2)
    with CaptureQueriesContext(
        connection,
    ) as few:
        progress.compute_state_digest(study)
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    with CaptureQueriesContext(connection) as many:
        progress.compute_state_digest(study)
    assert len(few) == len(many) == 3


@pytest.mark.both_databases
def test_state_digest_of_an_unblinded_study_changes_with_later_checker_findings(study) -> None:
    own = ItemSource.objects.filter(item__study=study, perturbation="subtle")
    subtle = Twin.objects.filter(pk__in=own.values("twin"))
    with CaptureQueriesContext(connection) as queries:
        seen = {progress.compute_state_digest(study)}
    assert len(queries) == 4
    for verdict in ("ok", "error", "undecidable"):
        subtle.update(findings={"verdict": verdict, "findings": []})
        seen.add(progress.compute_state_digest(study))
    Transition.objects.update(findings={"verdict": "ok", "findings": []})
    seen.add(progress.compute_state_digest(study))
    assert len(seen) == 5
    one, other = subtle.order_by("pk")[:2]
    for found in (one, other):  # as many as before, and another one of them
        subtle.update(findings={"verdict": "ok", "findings": []})
        Twin.objects.filter(pk=found.pk).update(findings={"verdict": "error", "findings": []})
        seen.add(progress.compute_state_digest(study))
    assert len(seen) == 7


def test_state_digest_changes_when_checker_verdicts_are_swapped(study) -> None:
    own = dict(ItemSource.objects.filter(item__study=study, twin__isnull=False).values_list("pk", "twin"))
    ways = itertools.combinations(sorted(own), 2)
    same_sum = ((one, two) for one, two in itertools.combinations(ways, 2) if sum(one) == sum(two))
    seen = set()
    for pair in next(same_sum):
        Twin.objects.update(findings={"verdict": "ok", "findings": []})
        Twin.objects.filter(pk__in=[own[pk] for pk in pair]).update(findings={"verdict": "error", "findings": []})
        seen.add(progress.compute_state_digest(study))
    assert len(seen) == 2


def test_stored_analysis_is_not_shown_once_the_checker_has_new_findings(study) -> None:
    old = store.compute_analysis(study, Filters())
    assert not checker_rows(old)
    Twin.objects.update(findings={"verdict": "error", "findings": []})
    look = store.get_or_request(study, Filters())
    assert look.is_fresh and look.analysis != old
    # Three obvious errors and three subtle ones, each of them called; the genuine steps are not checked again.
    assert checker_rows(look.analysis)["obvious"] == checker_rows(look.analysis)["subtle"] == (3, 3)


def checker_rows(analysis: Analysis) -> dict[str, tuple[int, int]]:
    """Return errors reported, and items judged, by error type."""
    lines = [line for line in list_records(analysis.document["tables"]["misses"]) if line["kind"] == "checker"]
    return {line["error"]: (line["caught"], line["n"]) for line in lines if line["error_kind"] == ""}


def test_stored_analysis_of_another_version_is_neither_shown_nor_kept(study, monkeypatch) -> None:
    old = store.compute_analysis(study, Filters())
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    monkeypatch.setattr(document, "VERSION", store.VERSION)
    monkeypatch.setattr(store, "INLINE", 0)
    look = store.get_or_request(study, Filters())
    assert (look.analysis, look.message) == (None, "The full analysis is being computed.")
    made = store.compute_analysis(study, Filters())
    assert made != old
    assert list(Analysis.objects.all()) == [made]


@pytest.mark.both_databases
def test_first_request_returns_quick_numbers_and_the_job_for_their_intervals(study) -> None:
    look = store.get_or_request(study, Filters())
    assert look.is_fresh and look.analysis and look.job
    assert not look.analysis.full and look.analysis.document["resamples"] == 0
    assert "without the intervals that need resampling. The full analysis is being computed." in look.message
    again = store.get_or_request(study, Filters())
    assert (again.analysis, again.job) == (look.analysis, look.job)
    assert Analysis.objects.count() == Job.objects.filter(kind="analysis").count() == 1


def test_analysis_job_computes_the_full_document_and_draws_its_figures(study) -> None:
    job = store.get_or_request(study, Filters()).job
    done = jobs.run_job_here(job)
    assert done.status == "done", done.error
    look = store.get_or_request(study, Filters())
    assert look.is_fresh and look.job is None and look.analysis.full
    assert look.message == "Computed just now from 20 ratings; intervals from 2,000 resamples, seed 0."
    assert set(look.analysis.drawings.values_list("name", "profile")) >= {("rates", "wide"), ("rates", "narrow")}
    assert Analysis.objects.count() == 1  # the quick one is no longer needed
    assert done.result["href"] == reverse("ratings:study", kwargs={"slug": study.slug})
    drawn = list(look.analysis.drawings.values_list("pk", flat=True))
    analysis_job.draw_figures(look.analysis)
    assert list(look.analysis.drawings.values_list("pk", flat=True)) == drawn


def test_analysis_computed_by_a_command_gets_its_figures_from_a_job_once(study) -> None:
    store.compute_analysis(study, Filters())
    look = store.get_or_request(study, Filters())
    assert look.is_fresh and look.job is not None and look.message.endswith("seed 0. Its figures are being drawn.")
    jobs.run_job_here(look.job)
    again = store.get_or_request(study, Filters())
    assert again.job is None and again.analysis is not None and again.analysis.drawings.exists()
    again.analysis.drawings.all().delete()  # as if there had been nothing to draw
    assert store.get_or_request(study, Filters()).job is None


def test_analysis_page_works_and_one_job_waits_while_answers_keep_arriving(study, admin_client) -> None:
    add_machine_rating(study)
    with connection.execute_wrapper(an_answer_before_every_look_at_the_ratings):
        pages = [admin_client.get(build_url("study", study)) for _ in range(3)]
        job = Job.objects.get(kind="analysis")
        jobs.run_job_unit(leases.claim_row(Job, job.code))
        job.refresh_from_db()
    assert {page.status_code for page in pages} == {200} and not Analysis.objects.exists()
    assert all("The full analysis is being computed." in page.content.decode() for page in pages)
    assert (job.status, job.reason) == ("waiting", "moving")
    assert jobs.run_job_here(job).status == "done"
    assert store.get_or_request(study, Filters()).is_fresh


def an_answer_before_every_look_at_the_ratings(execute, sql, params, many, context):
    if sql.startswith("SELECT") and 'FROM "ratings_rating"' in sql:
        with context["connection"].cursor() as cursor:
            cursor.execute('UPDATE "ratings_machinerater" SET "changes" = "changes" + 1')
    return execute(sql, params, many, context)


def test_large_study_is_computed_only_by_its_job(study, monkeypatch) -> None:
    monkeypatch.setattr(store, "INLINE", 19)  # the study has 20 ratings
    look = store.get_or_request(study, Filters())
    assert (look.analysis, look.is_fresh, look.message) == (None, False, "The full analysis is being computed.")
    assert look.job.status == "queued"
    assert not Analysis.objects.exists()


@pytest.mark.parametrize("change", [correct_answer, drop_rater, add_machine_rating, import_rating])
def test_stored_analysis_from_before_a_change_is_shown_as_out_of_date_or_not_at_all(study, monkeypatch, change) -> None:
    old = store.compute_analysis(study, Filters(), resamples=store.RESAMPLES)
    assert store.get_or_request(study, Filters()).is_fresh
    change_unblinded(study, change)
    monkeypatch.setattr(store, "INLINE", 0)
    look = store.get_or_request(study, Filters())
    assert (look.analysis, look.is_fresh) == (old, False)
    assert look.message.startswith("Out of date: ratings, or machine verdicts on the items, have changed since.")
    assert look.job.status == "queued"
    monkeypatch.setattr(store, "INLINE", 5000)
    fresh = store.get_or_request(study, Filters())
    assert fresh.is_fresh and fresh.analysis != old and fresh.analysis.state_digest != old.state_digest


def change_unblinded(study: Study, change: Any) -> None:
    """Apply a change that an unblinded study does not accept; its effect must be reported all the same."""
    Study.objects.filter(pk=study.pk).update(status="open")
    change(Study.objects.get(pk=study.pk))
    Study.objects.filter(pk=study.pk).update(status="unblinded")


@pytest.mark.both_databases
def test_stored_analysis_is_found_again_with_the_same_bytes(study) -> None:
    made = store.compute_analysis(study, Filters(), resamples=30)
    kept = Analysis.objects.get(pk=made.pk)
    assert store.hash_document(kept.document) == kept.sha256 == made.sha256
    assert kept.document["data"]["sha256"] == kept.data_sha256
    assert (kept.n_ratings, kept.resamples, kept.seed, kept.full) == (20, 30, 0, True)
    assert store.compute_analysis(study, Filters(), resamples=30) == kept
    Analysis.objects.all().delete()
    assert store.compute_analysis(study, Filters(), resamples=30).sha256 == kept.sha256
    assert store.compute_analysis(study, Filters(), resamples=30, seed=1).sha256 != kept.sha256


def test_stored_analyses_are_separate_for_each_filter(study) -> None:
    whole = store.compute_analysis(study, Filters(), resamples=0)
    part = store.compute_analysis(study, Filters(error="subtle"), resamples=0)
    assert (whole.n_ratings, part.n_ratings, part.filters) == (20, 6, {"error": "subtle"})
    assert whole.key != part.key
    assert store.get_or_request(study, Filters(error="subtle")).analysis == part


@pytest.mark.both_databases
def test_stored_analyses_of_earlier_states_and_old_filters_are_deleted(study, monkeypatch) -> None:
    monkeypatch.setattr(store, "KEPT", 2)
    monkeypatch.setattr(store, "KEPT_FILTERED", 1)
    for error in ("none", "obvious"):
        store.compute_analysis(study, Filters(error=error), resamples=0)
    assert list(Analysis.objects.values_list("filters", flat=True)) == [{"error": "obvious"}]
    for seed in range(3):
        store.compute_analysis(study, Filters(), resamples=0, seed=seed)
    assert list(Analysis.objects.filter(filters={}).values_list("seed", flat=True)) == [2, 1]


def test_failed_analysis_job_is_not_requested_again_by_a_page_view(study) -> None:
    job = store.get_or_request(study, Filters()).job
    Job.objects.filter(pk=job.pk).update(status="failed", error="broke")
    look = store.get_or_request(study, Filters())
    assert look.job == job and "could not be computed" in look.message
    again = jobs.retry_job(look.job)
    assert store.get_or_request(study, Filters()).job == again


def test_viewing_the_page_does_not_restart_a_stopped_analysis_job(study) -> None:
    job = store.get_or_request(study, Filters()).job
    assert leases.claim_row(Job, job.code)
    jobs.cancel_job(job)
    assert store.get_or_request(study, Filters()).job == job
    job.refresh_from_db()
    assert job.cancel_requested_at is not None


def test_failed_figure_job_is_reported_and_can_be_retried(study) -> None:
    store.compute_analysis(study, Filters())
    Job.objects.filter(pk=store.get_or_request(study, Filters()).job.pk).update(status="failed", reason="worker_lost")
    look = store.get_or_request(study, Filters())
    assert (
        look.job is not None
        and look.job.status == "failed"
        and look.message.endswith("seed 0. Its figures could not be drawn.")
    )
    jobs.run_job_here(jobs.retry_job(look.job))
    assert store.get_or_request(study, Filters()).job is None


def test_sealed_study_has_no_results_or_jobs_by_source() -> None:
    study = create_rated_study()
    for ask in (store.get_or_request, store.compute_analysis):
        with pytest.raises(SealedError):
            ask(study, Filters())
    before = store.compute_blind_precision(study)
    told = json.dumps(before)
    assert "offline" not in told and "subtle" not in told
    assert {row[1] for row in before["rows"]} == {"all sources"}
    assert [row[0] for row in before["rows"] if row[5]] == ["rate", "kappa", "auc"]
    # Which item is of which source changes nothing in it.
    ItemSource.objects.filter(item__study=study).update(perturbation="none", truth=True, label="other")
    assert store.compute_blind_precision(study) == before
    assert not Analysis.objects.exists()


def test_blind_precision_of_a_large_study_is_cached_until_more_ratings_arrive(monkeypatch) -> None:
    monkeypatch.setattr(store, "AT_ONCE", 1)
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=2)
    for _ in range(3):
        submit_answer(study)
    before = store.compute_blind_precision(study)
    with CaptureQueriesContext(connection) as queries:
        assert store.compute_blind_precision(study) == before
    assert len(queries) == 1  # the count
    submit_answer(study)
    assert store.compute_blind_precision(study) != before


def build_url(view: str, study: Study, query: str = "", **more: str) -> str:
    return reverse(f"ratings:{view}", kwargs={"slug": study.slug, **more}) + query


def test_results_json_returns_the_job_and_then_the_stored_bytes(study, admin_client) -> None:
    pending = admin_client.get(build_url("results_json", study))
    job = Job.objects.get(kind="analysis")
    assert pending.status_code == 202
    assert pending.json()["job"] == reverse("ratings:job", kwargs={"job": job.code})
    jobs.run_job_here(job)
    found = admin_client.get(build_url("results_json", study))
    stored = Analysis.objects.get()
    assert found.status_code == 200 and found["ETag"] == f'"{stored.sha256}"'
    assert found.content == store.encode_document(stored.document)
    table = admin_client.get(build_url("table_csv", study, name="rates"))
    header, *rows = csv.reader(io.StringIO(table.content.decode("utf-8-sig")))
    assert header[:9] == ["source", "error", "k", "n", "items", "raters", "rate", "low", "high"]
    assert [float(row[6]) for row in rows] == [row[6] for row in stored.document["tables"]["rates"]["rows"]]
    assert "small-study-rates.csv" in table["Content-Disposition"]


def test_results_requests_with_an_unknown_table_or_filter_or_for_a_sealed_study_are_refused(
    study, admin_client
) -> None:
    assert admin_client.get(build_url("table_csv", study, name="secrets")).status_code == 404
    for view, more in (("results_json", {}), ("table_csv", {"name": "rates"})):
        refused = admin_client.get(build_url(view, study, "?error=gross", **more))
        assert (refused.status_code, "no planted error 'gross'" in refused.content.decode()) == (400, True)
        Study.objects.filter(pk=study.pk).update(status="closed")
        assert admin_client.get(build_url(view, study, **more)).status_code == 404
        Study.objects.filter(pk=study.pk).update(status="unblinded")
    assert not Analysis.objects.exists()


def test_stored_result_is_served_without_loading_the_ratings(study, admin_client) -> None:
    analysis_job.draw_figures(store.compute_analysis(study, Filters()))
    with CaptureQueriesContext(connection) as queries:
        assert admin_client.get(build_url("results_json", study)).status_code == 200
    asked = [query["sql"] for query in queries]
    assert not any('"ratings_rating"."verdict"' in sql for sql in asked)
    assert len(asked) <= 14


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_simultaneous_requests_store_one_analysis_and_request_one_job(admin_user) -> None:
    study = study_factory.unblind_study(create_rated_study(), admin_user)
    gate, found = threading.Barrier(2), []

    def ask() -> None:
        gate.wait()
        found.append(store.get_or_request(study, Filters()))
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0].analysis == found[1].analysis and found[0].job == found[1].job
    assert Analysis.objects.count() == Job.objects.count() == 1
