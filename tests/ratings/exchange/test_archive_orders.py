"""Requests for an archive: seal, log, state of the study, command, job and page, and the import of exported ratings."""

import csv
import hashlib
import io
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings.blinding.pseudonyms import replace_invisible
from ratings.exchange import exports
from ratings.exchange.archive import archive_requests, build, contents, study_files
from ratings.exchange.imports import ImportRefused, rating_imports
from ratings.models import Assignment, ItemSource, Rating, Study
from ratings.models.study_events import ItemsImported, Reminded
from ratings.rating import submit
from ratings.results.study_log import describe_events
from ratings.studies import SealedError, lifecycle
from ratings.studies.blinding_audit import audit_runner
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.item_counts import update_item_counts
from simulation.jobs import job_files, jobs
from simulation.models import Job
from tests.support import exported_study, run_factory, study_factory, study_log_texts
from tests.support.embedded_worker import run_until_idle

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(db: None) -> Study:
    return exported_study.create_rated_study()


@pytest.fixture
def boss(client: Client) -> User:
    user = User.objects.create_superuser("root")
    client.force_login(user)
    return user


def command(*args: str) -> str:
    out = io.StringIO()
    call_command("export_study", *args, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def exports_of(study: Study) -> list[tuple[str, str]]:
    found = study.events.filter(kind="exported").order_by("pk")
    return [
        (line.by.username if line.by else "", line.description.split(", SHA")[0]) for line in describe_events(found)
    ]


def page(study: Study) -> str:
    return reverse("ratings:export", args=[study.slug])


# Sealed


def test_archive_before_unblinding_is_only_available_blinded(study: Study, boss: User, tmp_path: Path) -> None:
    with pytest.raises(SealedError):
        exported_study.build_archive(study, blinded=False)
    with pytest.raises(SealedError):
        archive_requests.request_archive(study, False, boss)
    with pytest.raises(CommandError, match="until then use --blinded") as refused:
        command(study.slug, str(tmp_path / "out.zip"))
    assert refused.value.returncode == 2 and list(tmp_path.iterdir()) == []
    assert exports_of(study) == []


def test_archive_job_refuses_an_archive_with_sources_of_a_sealed_study(study: Study, boss: User) -> None:
    job = jobs.request_job(
        "export", {"study": str(study.code), "variant": "with sources"}, subject=f"study/{study.slug}", user=boss
    )
    run_until_idle()
    job.refresh_from_db()
    assert job.status == "failed" and "Request the blinded archive instead." in job.error
    assert not job_files.list_finished_files(job) and exports_of(study) == []


@pytest.mark.both_databases
def test_blinded_archive_does_not_query_the_sources(study: Study) -> None:
    with CaptureQueriesContext(connection) as asked:
        exported_study.build_archive(study, blinded=True)
    read = [query["sql"] for query in asked.captured_queries]
    assert [sql for sql in read if ItemSource._meta.db_table in sql] == []
    assert [sql for sql in read if '"payload"' in sql] == []  # whoever made an item could know it by what it shows


def test_blinded_archive_links_no_imported_rating_to_an_item(study: Study) -> None:
    codes = sorted(str(code) for code in study.items.values_list("code", flat=True))
    before = exported_study.unzip_files(exported_study.build_archive(study, blinded=True))
    file = io.BytesIO(
        "\n".join(["item,rater,verdict,confidence,note", *(f"{c},Dr Who,1,5,it is {c}" for c in codes[:4])]).encode()
    )
    rating_imports.import_file(study, file)
    after = exported_study.unzip_files(exported_study.build_archive(study, blinded=True))
    # It shows neither their items nor that some items now have more ratings: the importer knows the item of each row.
    assert after["items.csv"] == before["items.csv"] and after["ratings_wide.csv"] == before["ratings_wide.csv"]
    label = study.raters.get(imported_as="Dr Who").label
    for name in ("ratings.csv", "versions.csv", "events.csv"):
        own = [row for row in exported_study.parse_csv(after[name]) if row["rater"] == label]
        assert len(own) == 4 and {row["item"] for row in own} == {""}
        assert {row.get("note", "") for row in own} == {""}
    told = {row["rater"]: row["who"] for row in exported_study.parse_csv(after["raters.csv"])}
    assert told[label] == "imported" and b"Dr Who" not in b"".join(after.values())


def test_blinded_certificate_hides_how_codes_and_positions_correlate_with_the_truth(study: Study, boss: User) -> None:
    said = "the item's code and planted errors go together: AUC 0.98, Holm p = 0.0012"
    contrast = {"name": "the item's code and planted errors", "auc": 0.98, "n": 10}
    order = Check("order", "Does a code go with it?", 10, [Leak("order", said)], {"contrasts": [contrast]})
    form = Check("form", "Does the form?", 24, [], {"known_tells": ["a and b: characters, AUC 0.91"]})
    report = audit_runner.build_report(study, [order, form])
    audit = audit_runner.store_report(study, report)
    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=True))
    told = json.loads(files["certificate.json"])
    text = files["certificate.json"] + files["methods.txt"]
    assert [
        sign for sign in (b"AUC", b"0.98", b"Holm", b"0.91", b"characters", audit.sha256.encode()) if sign in text
    ] == []
    leak = {"where": "order", "what": "described once the study is unblinded"}
    assert told["report"]["leaks"] == told["report"]["checks"][0]["leaks"] == [leak]
    assert (told["report"]["checks"][0]["leaks_in_all"], told["report"]["checks"][0]["outcome"]) == (1, "leaks")
    assert (told["report"]["known_tells"], told["report"]["checks"][1]["measured"]) == ([], {})
    assert not told["passed"] and "unblinded" in told["withheld"]
    # The digest of the report in the certificate: sorted, without spaces.
    shown = json.dumps(told["report"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert (
        told["sha256"] == hashlib.sha256(shown.encode()).hexdigest() and told["sha256"].encode() in files["methods.txt"]
    )
    study = study_factory.unblind_study(study, boss)
    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=False))
    whole = json.loads(files["certificate.json"])
    assert (whole["report"], whole["sha256"]) == (report, audit.sha256) and audit.sha256.encode() in files[
        "methods.txt"
    ]
    assert (
        b"0.98" not in exported_study.unzip_files(exported_study.build_archive(study, blinded=True))["certificate.json"]
    )


def test_blinded_archive_reports_the_number_of_imported_items_without_sources(study: Study, boss: User) -> None:
    lifecycle.log_event(study, ItemsImported(items=3, sources=("gpt-9", "Author")), boss)

    def said(blinded: bool) -> list[str]:
        rows = exported_study.parse_csv(
            exported_study.unzip_files(exported_study.build_archive(study, blinded=blinded))["events.csv"]
        )
        return [row["detail"] for row in rows if row["kind"] == "items imported"][-1:]

    assert said(True) == ["3 items"]
    study = study_factory.unblind_study(study, boss)
    assert said(False) == ["3 items: gpt-9, Author"] and said(True) == ["3 items"]


def test_export_study_rejects_a_folder_named_zip_and_logs_nothing(study: Study, tmp_path: Path) -> None:
    (tmp_path / "there.zip").mkdir()
    with pytest.raises(CommandError, match="is a folder: choose another name") as refused:
        command(study.slug, str(tmp_path / "there.zip"), "--blinded")
    assert refused.value.returncode == 2 and exports_of(study) == []


def test_archive_shows_nothing_of_a_dropped_rater_except_the_withdrawal(study: Study) -> None:
    rater = study.raters.get(label="R02")
    study.raters.filter(pk=rater.pk).update(withdrawn_at=rater.consented_at, dropped=True)
    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=True))
    (row,) = [row for row in exported_study.parse_csv(files["raters.csv"]) if row["rater"] == "R02"]
    assert {name for name, cell in row.items() if cell} == {"rater", "who", "withdrawn_at", "dropped"}
    for name in ("ratings.csv", "versions.csv", "events.csv"):
        assert "R02" not in {row["rater"] for row in exported_study.parse_csv(files[name])}
    assert b"R02" not in files["ratings_wide.csv"]
    assert b"of raters who withdrew and whose ratings are dropped under the protocol" in files["methods.txt"]


def test_archive_of_a_draft_is_refused(client: Client, boss: User, tmp_path: Path) -> None:
    run_factory.create_pool()
    draft = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="draft-one")))
    with pytest.raises(CommandError, match="nothing to export before it is opened"):
        command("draft-one", str(tmp_path / "out"), "--blinded")
    assert b"nothing to export" in client.get(page(draft)).content
    client.post(page(draft), {"variant": "blinded"})
    assert not Job.objects.filter(kind="export").exists()


# The command


def test_export_study_writes_the_same_files_to_folder_and_zip(study: Study, tmp_path: Path) -> None:
    folder, file = tmp_path / "new" / "folder", tmp_path / "study.ZIP"
    assert command(study.slug, str(folder), "--blinded").startswith("14 files in ")
    said = command(str(study.code), str(file), "--blinded")
    in_folder = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert in_folder == exported_study.unzip_files(file.read_bytes())
    assert hashlib.sha256(file.read_bytes()).hexdigest() in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "study.ZIP"]  # nothing half-written stays
    assert exports_of(study) == [("", "archive, blinded")] * 2


def test_export_study_keeps_a_non_empty_folder_and_replaces_a_zip(study: Study, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="not an empty folder") as refused:
        command(study.slug, str(tmp_path), "--blinded")
    assert refused.value.returncode == 2 and [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    file = tmp_path / "study.zip"
    file.write_bytes(b"an earlier one")
    command(study.slug, str(file), "--blinded")
    assert zipfile.ZipFile(file).testzip() is None
    with pytest.raises(CommandError, match="There is no study"):
        command("nowhere", str(file))
    with pytest.raises(CommandError, match=r"mine\.txt"):
        command(study.slug, str(tmp_path / "mine.txt" / "below.zip"), "--blinded")


@pytest.mark.parametrize(("umask", "rights"), [(0o077, 0o600), (0o027, 0o640), (0o022, 0o644)])
def test_export_study_zip_permissions_follow_the_umask(study: Study, tmp_path: Path, umask: int, rights: int) -> None:
    before = os.umask(umask)
    try:
        command(study.slug, str(tmp_path / "study.zip"), "--blinded")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "study.zip").stat().st_mode) == rights


# State of the study


@pytest.mark.both_databases
def test_archive_is_rewritten_if_the_study_changes_meanwhile(study: Study) -> None:
    changes = [lambda: lifecycle.log_event(study, Reminded(raters=1)), lambda: None]

    def tell(step: int, of: int, said: str) -> None:
        if said == "Writing events.csv" and changes:
            changes.pop(0)()

    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=True, report_progress=tell))
    assert [row["detail"] for row in exported_study.parse_csv(files["events.csv"]) if row["kind"] == "reminded"] == [
        "1 rater"
    ]
    assert changes == []


def test_archive_fails_if_the_study_keeps_changing(study: Study) -> None:
    def tell(step: int, of: int, said: str) -> None:
        if said == "Writing items.csv":
            lifecycle.log_event(study, Reminded(raters=1))

    with pytest.raises(build.ExportError, match="Pause the study, or try again at a quieter time"):
        exported_study.build_archive(study, blinded=True, report_progress=tell)


def test_archive_error_explains_that_the_analysis_failed(study: Study, boss: User, tmp_path: Path) -> None:
    study = study_factory.unblind_study(study, boss)
    assignments = Assignment.objects.filter(item__study=study, surplus=False)

    def moves(step: int, of: int, said: str) -> None:
        Assignment.objects.filter(pk=assignments.first().pk).update(slot=None, surplus=True)  # type: ignore[union-attr]
        update_item_counts(study.raters.all())

    with pytest.raises(
        build.ExportError, match=r"could not be computed.*change while .*Try again; the blinded archive"
    ):
        exported_study.build_archive(study, blinded=False, report_progress=moves)


# The job


def test_archive_job_creates_the_same_bytes_as_the_command_and_logs_the_requester(
    study: Study, boss: User, client: Client, tmp_path: Path
) -> None:
    assert client.post(page(study), {"variant": "blinded"}).status_code == 302
    job = Job.objects.get(kind="export")
    assert exports_of(study) == []  # nothing was handed out yet
    run_until_idle()
    job.refresh_from_db()
    (file,) = job_files.list_finished_files(job)
    assert (job.status, file.name, job.result["said"]) == (
        "done",
        "export-study-blinded.zip",
        "14 files in one archive, blinded.",
    )
    command(study.slug, str(tmp_path / "a.zip"), "--blinded")
    made = (tmp_path / "a.zip").read_bytes()
    assert b"".join(job_files.iter_file(file)) == made and file.sha256 == hashlib.sha256(made).hexdigest()
    assert exports_of(study) == [("root", "archive, blinded"), ("", "archive, blinded")]
    shown = client.get(page(study)).content.decode()
    # The page lists what the zip contains, with the sizes that the zip states.
    sizes = {info.filename: info.file_size for info in zipfile.ZipFile(tmp_path / "a.zip").infolist()}
    assert {part["name"]: part["bytes"] for part in job.result["parts"] if part["files"] == 1} == {
        name: size for name, size in sizes.items() if "/" not in name
    }
    assert "<code>ratings.csv</code>" in shown
    assert file.sha256 in shown and "export-study-blinded.zip" in shown and "has changed since" not in shown
    assert b"".join(client.get(reverse("ratings:job_file", args=[job.code, file.pk]))) == made  # type: ignore[arg-type]


@pytest.mark.both_databases
def test_archive_requests_for_the_same_state_share_a_file_and_are_logged(study: Study, boss: User) -> None:
    first = archive_requests.request_archive(study, True, boss)
    assert archive_requests.request_archive(study, True, boss) == first  # under way: shared
    run_until_idle()
    other = User.objects.create_user("other")
    assert archive_requests.request_archive(study, True, other) == first
    assert exports_of(study) == [("root", "archive, blinded"), ("other", "archive, blinded")]
    lifecycle.log_event(study, Reminded(raters=1))
    assert archive_requests.request_archive(study, True, boss) != first


@pytest.mark.both_databases
def test_archive_download_by_another_person_is_logged_once(study: Study, boss: User) -> None:
    job = archive_requests.request_archive(study, True, boss)
    waiting, later = (User.objects.create_user(name) for name in ("waiting", "later"))
    for user in (waiting, later):
        study.members.create(user=user, role="analyst")
    assert archive_requests.request_archive(study, True, waiting) == job  # under way: nothing is handed out yet
    run_until_idle()
    (file,) = job_files.list_finished_files(job)
    address = reverse("ratings:job_file", args=[job.code, file.pk])
    assert exports_of(study) == [("root", "archive, blinded")]
    for user in (boss, waiting, waiting, later):
        _as(user).head(address)
        _as(user).get(reverse("ratings:job", args=[job.code]))
    assert exports_of(study) == [("root", "archive, blinded")]
    for user in (boss, waiting, waiting, later):
        assert _as(user).get(address).status_code == 200
    assert exports_of(study) == [(name, "archive, blinded") for name in ("root", "waiting", "later")]
    assert set(study_log_texts.list_event_texts(study, "exported")) == {f"archive, blinded, SHA-256 {file.sha256}"}
    assert _as(User.objects.create_user("stranger")).get(address).status_code == 404
    assert len(exports_of(study)) == 3


def test_archive_page_offers_sources_after_unblinding(study: Study, boss: User, client: Client) -> None:
    sealed = client.get(page(study)).content.decode()
    assert 'value="blinded"' in sealed and 'value="full"' not in sealed and "The study is sealed" in sealed
    client.post(page(study), {"variant": "full"})
    assert not Job.objects.filter(kind="export").exists()
    archive_requests.request_archive(study, True, boss)
    run_until_idle()
    study = study_factory.unblind_study(study, boss)
    shown = client.get(page(study)).content.decode()
    assert 'value="blinded"' in shown and 'value="full"' in shown
    assert "The study has changed since this archive was created" in shown  # of before unblinding
    asked = Job.objects.count()
    assert b"Choose one of the archives below." in client.post(page(study), {"variant": "other"}, follow=True).content
    assert Job.objects.count() == asked


def test_archive_is_stale_once_the_study_differs_from_the_state_it_contains(
    study: Study, boss: User, client: Client
) -> None:
    stale = "The study has changed since this archive was created"
    job = archive_requests.request_archive(study, True, boss)
    lifecycle.log_event(study, Reminded(raters=2), boss)  # between asking and making
    run_until_idle()
    assert stale not in client.get(page(study)).content.decode()
    job.refresh_from_db()
    Job.objects.filter(pk=job.pk).update(result={"said": job.result["said"]})  # as before results told their state
    assert stale in client.get(page(study)).content.decode()
    Job.objects.filter(pk=job.pk).update(result=job.result)
    lifecycle.log_event(study, Reminded(raters=1), boss)
    assert stale in client.get(page(study)).content.decode()


def test_archive_page_is_open_to_analysts_and_closed_to_raters(study: Study) -> None:
    analyst, rater = User.objects.create_user("analyst"), study.raters.get(label="R01").user
    study.members.create(user=analyst, role="analyst")
    for user, status in ((analyst, 200), (rater, 404)):
        client = Client()
        client.force_login(user)
        assert client.get(page(study)).status_code == status
    assert f'href="{page(study)}"'.encode() in _as(analyst).get(f"/studies/{study.slug}/").content


def _as(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


# Import of an export


@pytest.mark.both_databases
@pytest.mark.parametrize("blinded", [True, False])
def test_exported_ratings_can_be_imported_into_a_copy_of_the_study(boss: User, blinded: bool) -> None:
    # A duplicate has codes of its own. A copy is therefore a copy of the database from when the study was opened, as
    # restored from a backup. Here it is the state after the transaction is rolled back.
    run_factory.create_pool()
    study = study_factory.create_open_study()
    copy = transaction.savepoint()
    file = _collected(study, blinded, boss)
    transaction.savepoint_rollback(copy)
    assert not Rating.objects.exists()
    study = Study.objects.get(pk=study.pk)
    checked = rating_imports.import_file(study, io.BytesIO(file.encode()))
    # 20 ratings and an imported one; one is surplus. The blinded file does not show the item of the imported one.
    assert (len(checked.rows), checked.left_out, checked.nameless) == ((19, 1, 1) if blinded else (20, 1, 0))
    study = study_factory.unblind_study(study, boss)
    again = list(csv.DictReader(io.StringIO("".join(exports.export_csv_lines(study, blinded=False)), newline="")))
    names = {rater.label: rater.imported_as for rater in study.raters.all()}
    columns = ["item", "verdict", "confidence", "cannot_judge", "submitted_at", "seconds", "simulated", "note"]

    def told(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
        """A rating within half a millisecond takes 0.000 s here, which in imported rows means that the time is unknown."""
        return sorted((one["rater"], *(one[name].replace("0.000", "") for name in columns)) for one in rows)

    sent = [one for one in csv.DictReader(io.StringIO(file, newline="")) if one["counts"] == "1" and one["item"]]
    assert told([{**one, "rater": names[one["rater"]]} for one in again]) == told(sent)
    assert {one["rater"] for one in sent if one["simulated"] == "1"} == {"R02"}
    assert {one["imported"] for one in again} == {"1"} and len([one for one in sent if one["cannot_judge"] == "1"]) == 1
    stored = Rating.objects.exclude(note="").values_list("note", flat=True)
    assert sorted(stored) == ([] if blinded else sorted(replace_invisible(note) for note in exported_study.NOTES))


def _collected(study: Study, blinded: bool, boss: User) -> str:
    """Return the export of a study rated by people, a simulated rater and another laboratory: one unsure, one surplus."""
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    study.raters.filter(label="R02").update(simulated=True, invited_at=None)
    first, second, *others = Rating.objects.order_by("pk")
    Assignment.objects.filter(pk=first.assignment_id).update(slot=None, surplus=True)
    Rating.objects.filter(pk=second.pk).update(verdict=None, confidence=None, cannot_judge=True)
    for rating, note in zip(others, exported_study.NOTES, strict=False):
        Rating.objects.filter(pk=rating.pk).update(note=replace_invisible(note))
    item = study.items.order_by("code").values_list("code", flat=True)[0]
    rating_imports.import_file(study, io.BytesIO(f"item,rater,verdict,confidence\n{item},Dr A,0,2\n".encode()))
    if not blinded:
        lifecycle.close_and_unblind(study, boss)
    return "".join(exports.export_csv_lines(Study.objects.get(pk=study.pk), blinded))


@pytest.mark.both_databases
def test_rating_import_rejects_the_studys_own_ratings(study: Study) -> None:
    file = "".join(exports.export_csv_lines(study, blinded=True)).encode()
    with pytest.raises(ImportRefused) as refused:
        rating_imports.import_file(study, io.BytesIO(file))
    rows = list(csv.DictReader(io.StringIO(file.decode(), newline="")))
    # Line 1 names the columns; each of the 18 that count is reported, and the two that do not count are left out.
    lines = [line for line, row in enumerate(rows, 2) if row["counts"] == "1"]
    assert [(problem.line, problem.field) for problem in refused.value.problems] == [(n, "submitted_at") for n in lines]
    assert len(lines) == 18 and Rating.objects.count() == 20
    assert "remove the row from the file" in refused.value.problems[0].message


def test_archive_labels_an_imported_simulated_rater_as_imported_and_as_simulated(study: Study) -> None:
    code = study.items.values_list("code", flat=True)[0]
    file = f"item,rater,verdict,confidence,simulated\n{code},R77,1,5,1\n{code},Dr A,1,5,\n"
    rating_imports.import_file(study, io.BytesIO(file.encode()))
    files = exported_study.unzip_files(exported_study.build_archive(study, blinded=True))
    who = [row["who"] for row in exported_study.parse_csv(files["raters.csv"])][-2:]
    assert who == ["simulated, imported", "imported"]
    said = files["methods.txt"].decode()
    assert "1 simulated rater whose ratings were collected elsewhere and imported (not evidence about people)" in said
    assert "It is not known how items of imported ratings were assigned and shown." in said


def test_rating_import_restores_rater_names_exactly(study: Study) -> None:
    first = str(study.items.values_list("code", flat=True)[0])
    names = ["=cmd|' /C calc'!A0", "'single", "+49 30", "@ada", "|x", 'Dr. Ü, "Q"']
    lines = exports.format_table_lines(
        ("item", "rater", "verdict", "confidence"), [(first, name, True, 5) for name in names]
    )
    rating_imports.import_file(study, io.BytesIO("".join(lines).encode()))
    assert list(study.raters.exclude(imported_as="").order_by("number").values_list("imported_as", flat=True)) == names


def test_rating_import_ignores_a_column_named_counts_of_a_file_from_another_program(study: Study) -> None:
    first, second, *_ = (str(code) for code in study.items.values_list("code", flat=True))
    file = f"item,rater,verdict,confidence,counts\n{first},A,1,5,0\n{second},A,,,1\n"
    checked = rating_imports.check_file(study, io.BytesIO(file.encode()))
    assert [row.item for row in checked.rows] == [first] and checked.left_out == 0
    assert [(problem.line, problem.field) for problem in checked.problems] == [
        (3, "verdict")
    ]  # nobody said "cannot judge"


# Large studies


@pytest.mark.both_databases
def test_archive_query_count_does_not_grow_with_the_study(db: None) -> None:
    run_factory.create_pool(16)
    counts = []
    for items in (4, 12):
        study = study_factory.create_open_study(
            slug=f"of-{items}", sources=[{"cast": "offline", "perturbation": "none", "count": items}], raters=2
        )
        for rater in study_factory.fill_all_rater_places(study):
            study_factory.rate_everything(rater)
        with CaptureQueriesContext(connection) as asked:
            exported_study.build_archive(study, blinded=True)
        counts.append(len(asked))
    assert counts[0] == counts[1]


@pytest.mark.both_databases
def test_archive_table_is_streamed(study: Study) -> None:
    (wide,) = [entry for entry in study_files.list_common_files(study, True) if entry.name == "ratings_wide.csv"]
    with CaptureQueriesContext(connection) as asked:
        lines = iter(wide.pieces())
        head = next(lines)
        assert len(asked) == 0  # nothing is read before it is wanted
        assert str(head).startswith('"item","pair","source"')
        assert len(list(lines)) == 10 and len(asked) == 1


def test_archive_zip_is_written_in_small_pieces(study: Study, tmp_path: Path) -> None:
    seen: list[int] = []

    class Counting(io.BytesIO):
        def write(self, data: Any, /) -> int:
            seen.append(len(data))
            return super().write(data)

    file = Counting()
    archive, opened = build.open_zip(file)
    with archive:
        build.write_archive(study, True, contents.list_blinded_files(study), opened, lambda step, of, said: None)
    assert max(seen) <= 1 << 17 and json.loads(zipfile.ZipFile(file).read("datapackage.json"))["name"] == study.slug


def test_archive_changes_after_a_correction(study: Study) -> None:
    before, state = exported_study.build_archive(study, blinded=True), archive_requests.compute_state(study)
    rating = Rating.objects.filter(verdict=True).order_by("pk")[0]
    submit.submit_rating(rating.assignment, False, 1, rating.submission_id.__class__(int=7), revision=rating.revision)
    assert (
        archive_requests.compute_state(study) != state and exported_study.build_archive(study, blinded=True) != before
    )
