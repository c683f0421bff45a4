"""The blinding audit works on a scratch copy and never writes to the live database."""

import ast
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection, connections
from django.urls import reverse

from ratings.models import BlindingAudit, ItemSource, Rater, Study
from ratings.rating import submit
from ratings.studies.blinding_audit import audit_runner, browser, scratch_copy, visits
from ratings.studies.blinding_audit.audit_runner import inspect_copy
from ratings.studies.blinding_audit.browser import Browser
from ratings.studies.blinding_audit.findings import AuditError
from simulation.jobs import jobs
from tests.support import run_factory, study_factory
from wetbench_site.database_copies import extra_databases, postgres
from wetbench_site.maintenance.backup import manifest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def place(settings: Any, tmp_path: Path) -> Path:
    """The folder of the copies. The child reads its secret key from the environment of the tests."""
    settings.VAR_DIR = tmp_path / "a folder + 100 % var"
    return Path(settings.VAR_DIR) / "scratch"


@pytest.fixture
def study() -> Study:
    run_factory.create_pool(3)
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 1},
        {"cast": "offline", "perturbation": "subtle", "count": 2},
    ]
    made = study_factory.create_open_study(1, sources=sources, ratings_per_item=1)
    submit.submit_rating(
        made.raters.get().assignments.earliest("position"), True, 3, "7d0e1c9c-52a4-4a1e-9a68-0f6a1b0f1d11"
    )
    return made


def leftovers(place: Path) -> list[str]:
    """Return the names of all copies that exist, as folders and as databases."""
    found = [path.name for path in place.glob("*")]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT datname FROM pg_database WHERE datname ^@ 'wetbench_scratch_'")
            found += [name for (name,) in cursor.fetchall()]
    return found


# From start to report


@pytest.mark.both_databases
def test_audit_writes_only_its_report_to_the_live_database(study: Study, place: Path) -> None:
    before = manifest.count_contents()
    told: list[tuple[int, int]] = []
    audit = audit_runner.run_audit(study, progress=lambda done, of: told.append((done, of)))
    after = manifest.count_contents()
    changed = {table for table, rows in after.rows.items() if rows != before.rows[table]}
    assert changed == {"ratings_blindingaudit", "ratings_studyevent"}
    assert after.ratings_sha256 == before.ratings_sha256
    assert told[0] == (0, 0) and told[-1] == (1, 1)
    report = BlindingAudit.objects.get().report
    answers = next(check for check in report["checks"] if check["name"] == "answers")
    assert answers["passed"] and answers["measured"]["answer, 200"] == 3
    assert report["copied_at"] <= report["at"] and audit.sha256 == audit_runner.compute_digest(report)
    assert leftovers(place) == []


@pytest.mark.both_databases
def test_audit_that_is_stopped_leaves_no_copy(study: Study, place: Path) -> None:
    calls: list[int] = []

    def stop(done: int, of: int) -> None:
        calls.append(done)
        if len(calls) == 2:
            raise jobs.JobCancelled

    with pytest.raises(jobs.JobCancelled):
        inspect_copy(study, stop)
    assert leftovers(place) == []


@pytest.mark.both_databases
def test_audit_process_that_dies_is_reported_and_one_that_loses_its_parent_ends(study: Study, place: Path) -> None:
    with scratch_copy.create_scratch_copy() as copy:
        with audit_runner._start_child(study, copy) as child:
            os.kill(child.pid, signal.SIGKILL)
            with pytest.raises(AuditError, match=r"without a report \(signal SIGKILL.*memory.*audit again"):
                audit_runner._await_report(child, study, lambda done, of: None)
        with audit_runner._start_child(study, copy) as child:
            assert child.stdin
            child.stdin.close()  # as the system does when the parent is killed
            assert child.wait(timeout=60) == 3
        study.pk = 10**6
        with audit_runner._start_child(study, copy) as child, pytest.raises(AuditError, match="not in the copy"):
            audit_runner._await_report(child, study, lambda done, of: None)
    assert leftovers(place) == []


def test_audit_process_gets_the_copy_and_no_access_to_the_live_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DATABASE_URL",
        "DATABASE_URL_FILE",
        "CELERY_BROKER_URL",
        "WETBENCH_SCRATCH_DATABASE_URL",
        "EMAIL_HOST",
    ):
        monkeypatch.setenv(name, "live")
    monkeypatch.setenv("SECRET_KEY", "the same")
    given = audit_runner._build_environment(scratch_copy.ScratchCopy("sqlite:////copy", None))  # type: ignore[arg-type]
    assert given["DATABASE_URL"] == "sqlite:////copy" and given["SECRET_KEY"] == "the same"
    assert "live" not in given.values()


# Making copies


def test_scratch_folders_of_killed_audits_are_removed_and_those_in_use_are_kept(place: Path) -> None:
    with scratch_copy.create_own_folder() as first:
        (place / "audit-killed").mkdir()
        (place / "audit-killed" / "copy.sqlite3").touch()
        with scratch_copy.create_own_folder() as second:
            assert sorted(place.iterdir()) == sorted([first, second])
            assert second.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_scratch_copy_on_a_full_disk_is_an_error_with_the_free_space(
    study: Study, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(AuditError, match=r"could not be created.*0 MB free"):
        audit_runner.run_audit(study)
    assert leftovers(place) == []


@pytest.mark.both_databases
def test_scratch_databases_of_killed_audits_are_dropped_and_those_in_use_are_kept(study: Study, place: Path) -> None:
    if connection.vendor != "postgresql":
        return
    with scratch_copy.create_scratch_copy():
        (used,) = [name for name in leftovers(place) if name.startswith("wetbench")]
        killed = f"{used[:-8]}00000000"
        postgres.create_database(killed)
        postgres.create_database("wetbench_scratch_00000000_00000000")  # of another site
        with extra_databases.connect_server_database(postgres.get_database_name(), "another_audit") as live:
            scratch_copy._drop_leftovers(live, used[:-8])
        assert used in leftovers(place) and killed not in leftovers(place)
    assert leftovers(place) == ["wetbench_scratch_00000000_00000000"]
    postgres.drop_database("wetbench_scratch_00000000_00000000")


@pytest.mark.both_databases
def test_scratch_copy_error_names_the_missing_database_right_and_the_variable_to_set(study: Study) -> None:
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS wetbench_plain")
        cursor.execute("CREATE ROLE wetbench_plain NOCREATEDB")
        cursor.execute("SET ROLE wetbench_plain")
        try:
            with (
                pytest.raises(AuditError, match=r"CREATEDB.*WETBENCH_SCRATCH_DATABASE_URL"),
                scratch_copy.create_scratch_copy(),
            ):
                pass
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE wetbench_plain")


@pytest.fixture
def named(settings: Any) -> Iterator[str]:
    """An empty database for copies, named in the settings; SQLite needs none."""
    if connection.vendor != "postgresql":
        yield ""
        return
    postgres.create_database("wetbench_named")
    live = django_settings.ENVIRONMENT.get_text("DATABASE_URL")
    settings.SCRATCH_DATABASE_URL = f"{live.rpartition('/')[0]}/wetbench_named"
    yield "wetbench_named"
    postgres.drop_database("wetbench_named")


@pytest.mark.both_databases
def test_named_scratch_database_is_used_and_emptied_only_if_it_is_a_free_copy(
    named: str, study: Study, place: Path, settings: Any
) -> None:
    if not named:
        return
    for _ in range(2):
        with scratch_copy.create_scratch_copy() as copy:
            assert copy.url == settings.SCRATCH_DATABASE_URL
            with extra_databases.connect_server_database(named, "look") as look:
                assert ItemSource.objects.using(look).count() == study.items.count()
            with pytest.raises(AuditError, match="Another audit"), scratch_copy.create_scratch_copy():
                pass
    with extra_databases.connect_server_database(named, "look") as look, connections[look].cursor() as cursor:
        assert connections[look].introspection.table_names() == []
        cursor.execute("CREATE TABLE of_somebody_else (n int)")
        with pytest.raises(AuditError, match=r"not empty.*of_somebody_else"), scratch_copy.create_scratch_copy():
            pass
        assert connections[look].introspection.table_names() == ["of_somebody_else"]
    settings.SCRATCH_DATABASE_URL = f"{settings.SCRATCH_DATABASE_URL.rpartition('/')[0]}/{postgres.get_database_name()}"
    with pytest.raises(AuditError, match="names the live database"), scratch_copy.create_scratch_copy():
        pass
    settings.SCRATCH_DATABASE_URL = "sqlite:////tmp/no"
    with (
        pytest.raises(AuditError, match="must be the URL of a PostgreSQL database"),
        scratch_copy.create_scratch_copy(),
    ):
        pass
    assert Study.objects.filter(pk=study.pk).exists()


# Functions that write


WRITERS: dict[str, Callable[[Rater], Any]] = {
    "a transaction that is rolled back": lambda rater: scratch_copy.roll_back_changes().__enter__(),
    "a user in a rater's place": visits.prepare_user,
    "another rater": lambda rater: visits.create_rater(rater.study),
    "claimed items": lambda rater: visits.assign_items(rater, {}),
    "released work": lambda rater: list(visits.visit_after_rating(Browser(), rater, with_all_pages=False)),
    "other origins": lambda rater: visits.swap_sources(rater.study, 1),
    "a session": lambda rater: Browser(User(pk=1)),
    "a request": lambda rater: Browser().send_request("desk", "get", "/rate/"),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_audit_functions_that_write_refuse_the_live_database(writer: Callable[[Rater], Any], study: Study) -> None:
    before = manifest.count_contents()
    with pytest.raises(RuntimeError, match="scratch copy only"):
        writer(study.raters.get())
    assert manifest.count_contents() == before


def test_guard_cannot_be_told_to_allow_writes_to_the_live_database() -> None:
    with pytest.raises(RuntimeError, match="is not a scratch copy"):
        scratch_copy.allow_writes()
    assert not scratch_copy._is_allowed


_WRITING = ("update", "delete", "create", "bulk_create", "bulk_update", "save", "get_or_create", "update_or_create")


def test_audit_functions_that_write_rows_all_require_a_scratch_copy() -> None:
    writing: list[str] = []
    for path in sorted((django_settings.BASE_DIR / "ratings/studies/blinding_audit").rglob("*.py")):
        if path.name == Path(str(audit_runner.__file__)).name:
            continue  # stores the report, in the live database
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            written = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in _WRITING]
            rows = [
                call for call in written if ".objects" in ast.unparse(call) or ast.unparse(call) == "session.create"
            ]
            if rows:
                writing.append(function.name)
                assert "require_scratch_copy()" in ast.unparse(function), f"{path.name}: {function.name}"
    known = (
        visits.prepare_user,
        visits.create_rater,
        visits.assign_items,
        visits.visit_after_rating,
        visits.swap_sources,
        browser._create_session,
    )
    assert {function.__name__ for function in known} <= set(writing)


# The browser


def test_audit_browsers_share_one_handler(settings: Any) -> None:
    def handler() -> Any:
        return browser._load_handler(tuple(settings.MIDDLEWARE))

    before = handler()
    assert handler() is before
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.support.leaking_middleware.mark_header"]
    assert handler() is not before


def test_audit_browser_forms_pass_the_csrf_check(study: Study, audit_in_place: None) -> None:
    """A form with the token of its cookie is accepted; one with another token is refused."""
    place = study.raters.get().assignments.earliest("position")
    url = reverse("ratings:draft", args=[place.code])
    with scratch_copy.roll_back_changes():
        own = Browser(visits.prepare_user(study.raters.get()))
        assert own.send_request("draft", "post", url, place, data={"verdict": "no"}).status in (200, 204)
        refused = own.send_request(
            "draft", "post", url, place, data={"verdict": "no"}, headers={"X-CSRFToken": "a" * 32}
        )
        assert refused.status == 403


def test_audit_browser_returns_an_error_of_the_site_as_status_500(
    study: Study, audit_in_place: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch_copy.roll_back_changes():
        user = visits.prepare_user(study.raters.get())
        monkeypatch.setattr("ratings.accounts.signing_in.NameOrEmail.get_user", lambda *given: 1 / 0)
        page = Browser(user).send_request("desk", "get", reverse("ratings:desk"))
    assert page.status == 500 and page.is_html


# The job


@pytest.mark.both_databases
def test_audit_ends_when_its_job_is_stopped(study: Study, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = audit_runner.request_audit(study)
    started = audit_runner._start_child

    def started_and_stopped(study: Study, copy: scratch_copy.ScratchCopy) -> Any:
        jobs.cancel_job(job)
        return started(study, copy)

    monkeypatch.setattr(audit_runner, "_start_child", started_and_stopped)
    assert jobs.run_job_here(job).status == "cancelled"
    assert not BlindingAudit.objects.exists() and leftovers(place) == []
