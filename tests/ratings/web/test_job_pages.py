"""Job pages: progress, result files, who can see and control a job; imports and audits as jobs."""

import hashlib
import os
import subprocess
import sys
import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings import jobs as ratings_jobs
from ratings.models import BlindingAudit, Study
from ratings.studies import access, lifecycle
from ratings.studies.blinding_audit import audit_runner
from simulation.jobs import jobs as job_kinds
from simulation.models import Job, Worker
from simulation.runs import create
from tests.support import call_factories, job_factories, run_factory, study_factory
from tests.support.embedded_worker import run_until_idle

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def study(db: None) -> Study:
    run_factory.create_pool()
    return study_factory.create_open_study(slug="one", name="Study one")


def at_work() -> None:
    Worker.objects.create(owner="elsewhere:1:x", kind="embedded")


def page(client: Client, job: Job, **more: Any) -> str:
    return client.get(reverse("ratings:job", args=[job.code]), **more).content.decode()


def as_member(study: Study, role: str) -> Client:
    user = User.objects.create_user(role)
    study.members.create(user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


# Progress


def test_running_job_shows_progress_and_polls_every_two_seconds(boss: Client, study: Study) -> None:
    at_work()
    job = job_factories.create_job("study/one", "running", step=3, of=12, message="Drawing <the> figures")
    shown = page(boss, job)
    assert '<progress value="3" max="12"' in shown and "Drawing &lt;the&gt; figures" in shown
    assert 'hx-trigger="every 2s"' in shown and "make worker" not in shown
    Job.objects.filter(pk=job.pk).update(step=4)
    assert '<progress value="4" max="12"' in page(boss, job, headers=HTMX)


def test_queued_job_polls_every_ten_seconds_and_shows_a_missing_worker(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one")
    shown = page(boss, job)
    assert 'hx-trigger="every 10s"' in shown and "No worker is running: start one with" in shown
    assert "make worker" in shown
    at_work()
    assert "No worker is running" not in page(boss, job)


@pytest.mark.parametrize("status", Job.ENDED)
def test_ended_job_stops_polling(boss: Client, study: Study, status: str) -> None:
    job = job_factories.create_job("study/one", status, error="It broke. Ask again." if status == "failed" else "")
    shown = page(boss, job, headers=HTMX)
    assert "hx-get" not in shown and "<html" not in shown
    assert ("It broke. Ask again." in shown) is (status == "failed")
    assert (reverse("ratings:retry_job", args=[job.code]) in shown) is (status != "done")


def test_job_page_reports_a_worker_silent_for_90_seconds(boss: Client, study: Study, settings: Any) -> None:
    settings.LEASE_SECONDS, settings.WORKER_SILENT_SECONDS = 60, 90
    at_work()
    job = job_factories.create_job("study/one", "running")
    heard = timezone.now() + timedelta(seconds=60)  # a lease starts with a heartbeat
    Job.objects.filter(pk=job.pk).update(lease_until=heard - timedelta(seconds=89))
    assert "not responded" not in page(boss, job)
    Job.objects.filter(pk=job.pk).update(lease_until=heard - timedelta(seconds=95))
    assert "The worker has not responded for 95 s. Another worker will take over soon." in page(boss, job)
    Worker.objects.all().delete()
    assert "The worker has not responded for 95 s." in page(boss, job) and "make worker" in page(boss, job)


def test_done_job_shows_its_message_and_a_link_to_the_result(boss: Client, study: Study) -> None:
    done = {"said": "Blinding <holds>.", "href": "/studies/one/audit/", "label": "The report"}
    shown = page(boss, job_factories.create_job("study/one", "done", result=done))
    assert "Blinding &lt;holds&gt;." in shown and '<a href="/studies/one/audit/">The report</a>' in shown


def test_page_that_includes_a_done_job_offers_to_reload(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one", "done")
    within = {**HTMX, "HX-Current-URL": "http://testserver/studies/one/?error=subtle"}
    assert '<a href="/studies/one/?error=subtle">Reload this page' in page(boss, job, headers=within)
    alone = {**HTMX, "HX-Current-URL": f"http://testserver/jobs/{job.code}/"}
    assert "Reload this page" not in page(boss, job, headers=alone)


# Files


@pytest.mark.both_databases
def test_job_file_is_downloaded_with_size_and_digest(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one", "done")
    body = b"the results" * 100_000  # 1,100,000 bytes, in five pieces
    file = job_factories.create_job_file(job, 'odd "name"\n.zip', body, "application/zip")
    address = reverse("ratings:job_file", args=[job.code, file.pk])
    shown = page(boss, job)
    assert address in shown and hashlib.sha256(body).hexdigest() in shown and "1.0\xa0MB" in shown
    answer = boss.get(address)
    assert answer.streaming and b"".join(answer.streaming_content) == body
    assert answer.headers["Content-Length"] == "1100000" and answer.headers["Content-Type"] == "application/zip"
    assert (
        answer.headers["Content-Disposition"].startswith("attachment") and "no-store" in answer.headers["Cache-Control"]
    )
    assert boss.head(address).headers["Content-Length"] == "1100000"


def test_job_inputs_and_incomplete_files_cannot_be_downloaded(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one", "done")
    sent = job.files.create(role="in", name="in.csv", content_type="text/csv", size=0, sha256="a" * 64)
    half = job.files.create(role="out", name="half.csv", content_type="text/csv", size=0)
    for file in (sent, half):
        assert boss.get(reverse("ratings:job_file", args=[job.code, file.pk])).status_code == 404
        assert file.name not in page(boss, job)


@pytest.mark.both_databases
def test_job_page_says_when_files_were_removed(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one", "done", result={"files_removed": "2026-11-01T00:00:00+00:00"})
    assert "have been removed" in page(boss, job)


@pytest.mark.both_databases
def test_job_page_query_count_does_not_grow_with_files(
    boss: Client, study: Study, django_assert_max_num_queries: Any
) -> None:
    job = job_factories.create_job("study/one", "done")
    counts = []
    for files in (1, 19):
        for _ in range(files):
            job_factories.create_job_file(job, f"{uuid.uuid4().hex}.csv")
        with django_assert_max_num_queries(12) as seen:
            page(boss, job)
        counts.append(len(seen))
    assert counts[0] == counts[1]


# Permissions


@pytest.mark.parametrize(("kind", "may"), [("drawn", True), ("import_items", False)])
def test_analyst_can_stop_only_those_kinds_of_jobs_that_an_analyst_may_request(
    study: Study, kind: str, may: bool
) -> None:
    client = as_member(study, "analyst")
    job = job_factories.create_job("study/one", "queued", kind)
    cancel = reverse("ratings:cancel_job", args=[job.code])
    assert (cancel in page(client, job)) is may
    assert client.post(cancel).status_code == (302 if may else 404)
    job.refresh_from_db()
    assert job.status == ("cancelled" if may else "queued")


def test_job_of_another_study_or_a_benchmark_returns_404(study: Study) -> None:
    client = as_member(study, "admin")
    study_factory.create_open_study(slug="two", name="Study two")
    for subject in ("study/two", "study/none", "benchmark/b1", ""):
        job = job_factories.create_job(subject)
        assert client.get(reverse("ratings:job", args=[job.code])).status_code == 404, subject
    assert client.get(reverse("ratings:job", args=[job_factories.create_job("study/one").code])).status_code == 200


def test_benchmark_job_is_visible_to_staff_only(client: Client, study: Study) -> None:
    client.force_login(User.objects.create_user("kim", is_staff=True))
    assert "Drawn" in page(client, job_factories.create_job("benchmark/b1"))
    assert client.get(reverse("ratings:job", args=[job_factories.create_job("study/one").code])).status_code == 404


@pytest.mark.both_databases
def test_study_does_not_inherit_jobs_of_a_deleted_draft_with_its_name(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one")
    Job.objects.filter(pk=job.pk).update(created_at=study.created_at - timedelta(days=1))
    assert boss.get(reverse("ratings:job", args=[job.code])).status_code == 404


@pytest.mark.both_databases
def test_job_can_be_stopped_and_retried_from_its_page(boss: Client, study: Study) -> None:
    job = job_factories.create_job("study/one")
    stopped = boss.post(reverse("ratings:cancel_job", args=[job.code]), follow=True).content.decode()
    assert "Stopped" in stopped and "It was stopped by a user." in stopped
    again = boss.post(reverse("ratings:retry_job", args=[job.code]))
    new = Job.objects.get(retry_of=job)
    assert again.headers["Location"] == reverse("ratings:job", args=[new.code]) and new.status == "queued"
    assert new.asked_by and new.asked_by.username == "root"


# The audit


@pytest.mark.both_databases
def test_audit_button_pressed_repeatedly_creates_one_job(boss: Client, study: Study) -> None:
    """`test_audit_blinding` tests that the page then shows the certificate."""
    address = reverse("ratings:audit", args=[study.slug])
    for _ in range(2):
        shown = boss.post(address, follow=True).content.decode()
    assert "Queued" in shown and str(Job.objects.get().code) in shown and not BlindingAudit.objects.exists()


def test_audit_that_cannot_run_shows_the_reason(boss: Client, study: Study) -> None:
    job = audit_runner.request_audit(study)
    Study.objects.filter(pk=study.pk).update(status="draft")
    run_until_idle()
    shown = page(boss, job)
    assert "Study one has no items yet" in shown and reverse("ratings:retry_job", args=[job.code]) in shown


# Registration


@pytest.mark.parametrize(("kind", "title", "module"), ratings_jobs.JOB_KINDS)
def test_every_job_kind_is_run_by_its_registered_module(kind: str, title: str, module: str) -> None:
    handler = job_kinds.find_handler(kind)
    assert handler is not None and handler.__module__ == module and job_kinds.get_title(kind) == title


def test_job_registration_does_not_import_the_job_modules() -> None:
    """Run in a new process, in which nothing has been imported yet."""
    code = (
        "import sys, django; django.setup(); from simulation.jobs import jobs as job_kinds; assert job_kinds.is_declared('analysis'); "
        "print([name for name in ('scipy.stats', 'sklearn', 'altair', 'vl_convert') if name in sys.modules])"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# Runs whose calls belong to jobs


def test_run_and_call_pages_show_their_jobs(boss: Client, study: Study) -> None:
    run = call_factories.create_llm_run("ratings")
    job = job_factories.create_job(
        access.format_subject(study), "running", "machine_rating", run=run, step=1, of=40, message="GPT rates"
    )
    call = call_factories.create_answered_call(
        run_factory.create_episode(replicate=99),
        number=0,
        run=run,
        episode=None,
        job=job,
        role="rating",
        speaker="gpt-5",
        purpose="rate",
    )
    shown = boss.get(reverse("simulation:run", args=[run.code])).content.decode()
    assert "Ratings by a model rater" in shown and "1 of 40" in shown and str(job.code) in shown
    listed = boss.get(reverse("simulation:run_calls", args=[run.code])).content.decode()
    assert "item 1" in listed and "step" not in listed.split("<tbody>")[1].split("</tbody>")[0]
    answer = boss.get(reverse("simulation:call", args=[call.code]))
    assert answer.status_code == 200 and "ratings of study/one" in answer.content.decode()
    assert create.get_progress(run).is_finished is False and create.get_progress(run).total == 1


def test_staff_without_a_role_see_no_links_to_forbidden_pages(
    client: Client, study: Study, django_assert_num_queries: Any
) -> None:
    run = call_factories.create_llm_run("ratings")
    subject = access.format_subject(study)
    jobs = [job_factories.create_job(subject, "done", "machine_rating", run=run) for _ in range(3)]
    about = {"episode": None, "job": jobs[0], "role": "rating", "speaker": "gpt-5", "purpose": "rate"}
    call = call_factories.create_answered_call(run_factory.create_episode(replicate=99), number=0, run=run, **about)
    pages = [reverse("simulation:run", args=[run.code]), reverse("simulation:call", args=[call.code])]
    links = [[reverse("ratings:job", args=[job.code]) for job in jobs], [reverse("ratings:job", args=[jobs[0].code])]]
    kim = User.objects.create_user("kim", is_staff=True)
    client.force_login(kim)
    for page_, linked in zip(pages, links, strict=True):
        shown = client.get(page_).content.decode()
        assert "study/one" in shown and not [link for link in linked if link in shown]
    study.members.create(user=kim, role="analyst")
    for page_, linked in zip(pages, links, strict=True):
        shown = client.get(page_).content.decode()
        assert all(link in shown and client.get(link).status_code == 200 for link in linked)
    with django_assert_num_queries(2):  # the study and the role in it, for three jobs as for one
        assert access.find_visible_jobs(kim, jobs) == {job.pk for job in jobs}


def test_job_of_a_deleted_draft_is_not_linked(boss: Client, study: Study) -> None:
    run = call_factories.create_llm_run("ratings")
    job = job_factories.create_job(access.format_subject(study), "done", "machine_rating", run=run)
    Job.objects.filter(pk=job.pk).update(created_at=study.created_at - timedelta(days=1))
    assert str(job.code) not in boss.get(reverse("simulation:run", args=[run.code])).content.decode()


def test_answers_of_model_raters_are_sealed_even_for_staff(boss: Client, study: Study) -> None:
    run = call_factories.create_llm_run("ratings")
    job = job_factories.create_job(access.format_subject(study), "done", "machine_rating", run=run)
    said = {
        "reply": call_factories.build_reply("LEAK-VERDICT"),
        "request": call_factories.build_request("LEAK-QUESTION"),
    }
    about = {"episode": None, "job": job, "role": "rating", "speaker": "gpt-5", "purpose": "rate"}
    call = call_factories.create_answered_call(
        run_factory.create_episode(replicate=99), number=0, run=run, **about, **said
    )
    pages = [reverse(f"simulation:{name}", args=[call.code]) for name in ("call", "call_request", "call_reply")]
    lists = [reverse(f"simulation:{name}", args=[run.code]) for name in ("run", "run_calls")]
    sealed = [
        boss.get(address) for address in (*pages, *lists, f"{pages[0]}?all=1", reverse("ratings:job", args=[job.code]))
    ]
    assert [answer.status_code for answer in sealed] == [200, 404, 404, 200, 200, 200, 200]
    assert not any(b"LEAK" in answer.content for answer in sealed) and b"sealed until" in sealed[0].content

    lifecycle.close_and_unblind(study, User.objects.get(username="root"))
    assert [b"LEAK-VERDICT" in boss.get(pages[at]).content for at in (0, 2)] == [True, True]


@pytest.mark.both_databases
def test_rating_job_out_of_budget_continues_with_a_larger_budget(boss: Client, study: Study) -> None:
    run = call_factories.create_llm_run("ratings", max_cost=None, max_tokens=100)
    failed = job_factories.create_job(
        "study/one", "failed", "machine_rating", run=run, reason="budget", error="100 tokens"
    )
    address = reverse("simulation:continue_run", args=[run.code])
    assert address in boss.get(reverse("simulation:run", args=[run.code])).content.decode()
    assert boss.post(address, {"max_tokens": "100000"}).status_code == 302
    again = Job.objects.get(retry_of=failed)
    run.refresh_from_db()
    assert again.status == "queued" and run.max_tokens == 100_000 and run.max_cost is None


def test_stopping_a_run_stops_its_jobs(boss: Client, study: Study) -> None:
    run = call_factories.create_llm_run("ratings", max_cost=Decimal(1))
    job = job_factories.create_job("study/one", kind="machine_rating", run=run)
    boss.post(reverse("simulation:stop_run", args=[run.code]))
    job.refresh_from_db()
    assert job.status == "cancelled"
