"""Backups: created while raters rate, restored into another database, and rejected if they are damaged or do not fit."""

import gc
import json
import os
import shutil
import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.accounts.signing_in import LinkEffect
from ratings.api import tokens
from ratings.models import Assignment, Rater, Rating, RatingEvent, UnsavedAnswer
from ratings.raters import invitations
from ratings.rating import submit
from simulation.models import Worker
from tests.support.rating_room import create_open_study
from wetbench_site.database_copies import postgres, sqlite
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.backup import creation, manifest, restoration
from wetbench_site.maintenance.backup.creation import CreatedBackup
from wetbench_site.maintenance.backup.restoration import Restored
from wetbench_site.maintenance.verify import checks, rating_checks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> None:
    """A VAR_DIR of the test, in which a restore stores the backup of replaced data."""
    settings.VAR_DIR = tmp_path / "var"


@pytest.fixture(autouse=True)
def nobody_else() -> None:
    """Collect connections of threads of earlier tests, which stay open until then although the threads have ended."""
    gc.collect()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups"


def silent(said: str) -> None:
    """Ignore progress messages."""


def backup(folder: Path) -> CreatedBackup:
    return creation.create_backup(folder, silent, scratch=False)


def restore(file: Path) -> Restored:
    """Restore as if the site were stopped. On failure, add the threads and workers of this process to the error."""
    try:
        return restoration.restore_backup(file, silent, replace=True)
    except BackupError as error:
        error.add_note(f"threads of this process: {', '.join(one.name for one in threading.enumerate())}")
        error.add_note(f"workers: {list(Worker.objects.values_list('owner', 'kind', 'seen_at'))}")
        raise


class Raters:
    """Threads that rate their items and correct each rating, until they are stopped."""

    def __init__(self, assignments: list[list[Assignment]]) -> None:
        self.done, self.count = threading.Event(), 0
        self.threads = [threading.Thread(target=self._rate, args=(own,)) for own in assignments]

    def __enter__(self) -> "Raters":
        for thread in self.threads:
            thread.start()
        while self.count < 8:
            self.done.wait(0.01)
        return self

    def __exit__(self, *args: object) -> None:
        self.done.set()
        for thread in self.threads:
            thread.join()

    def _rate(self, own: list[Assignment]) -> None:
        try:
            for assignment in own:
                if self.done.is_set():
                    return
                submit.submit_rating(assignment, True, 3, uuid.uuid4())
                submit.submit_rating(assignment, False, 5, uuid.uuid4(), revision=1, note="µ = on second thoughts")
                self.count += 2
        finally:
            connection.close()


def sound() -> bool:
    return not any(one.findings for one in checks.run_checks(rating_checks.ANSWER_CHECKS, lambda *told: None))


@pytest.mark.both_databases
def test_backup_taken_while_raters_rate_is_a_snapshot_that_a_restore_reproduces(folder: Path) -> None:
    study = create_open_study(items=40, raters=3)
    Client().force_login(User.objects.earliest("pk"))
    with Raters([list(rater.assignments.order_by("position")) for rater in study.raters.all()]) as raters:
        before = raters.count
        made = backup(folder)
        after = raters.count
    held = made.manifest.held
    # It has every rating confirmed before it, none saved after it, and no rating without its log.
    assert before <= held.rows["ratings_ratingevent"] <= after + 3 * 2
    assert held.rows["ratings_ratingevent"] >= held.rows["ratings_rating"] >= before // 2
    assert Rating.objects.count() >= held.rows["ratings_rating"]
    assert os.stat(made.file).st_mode & 0o777 == os.stat(manifest.get_manifest_path(made.file)).st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == [made.file.name, f"{made.file.name}.json"]

    Rating.objects.update(note="forged")
    RatingEvent.objects.filter(revision=2).delete()
    assert not sound()
    with pytest.raises(BackupError, match="--replace"):
        restoration.restore_backup(made.file, silent, force=True)
    assert Rating.objects.filter(note="forged").exists()  # nothing was changed

    restored = restoration.restore_backup(made.file, silent, replace=True, force=True)
    now = manifest.count_contents()
    assert (now.ratings_sha256, now.migrations) == (held.ratings_sha256, held.migrations)
    emptied = {table for table, rows in held.rows.items() if now.rows[table] != rows}
    assert emptied == {model._meta.db_table for model in apps.get_models() if issubclass(model, AbstractBaseSession)
                       and held.rows[model._meta.db_table]}  # fmt: skip
    assert sound() and not Rating.objects.filter(note="forged").exists()
    assert (
        restored.replaced_backup is not None
        and manifest.load_manifest(restored.replaced_backup).held.rows["ratings_rating"] > 0
    )
    assert Client().get("/healthz").status_code == 200  # the site answers


@pytest.fixture
def made(folder: Path) -> CreatedBackup:
    User.objects.create_superuser("root")
    return backup(folder)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 100)


def flip(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        byte = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte[0] ^ 1]))


def overwrite(file: Path) -> None:
    file.write_bytes(b"not a database at all")


def tell(file: Path, **changes: Any) -> None:
    told = json.loads(manifest.get_manifest_path(file).read_text())
    manifest.get_manifest_path(file).write_text(json.dumps({**told, **changes}))


def other_kind(file: Path) -> None:
    tell(file, database="postgresql" if connection.vendor == "sqlite" else "sqlite")


def newer(file: Path) -> None:
    held = json.loads(manifest.get_manifest_path(file).read_text())["held"]
    tell(file, held={**held, "migrations": [*held["migrations"], "ratings.9999_later"]})


def another_count(file: Path) -> None:
    held = json.loads(manifest.get_manifest_path(file).read_text())["held"]
    tell(file, held={**held, "rows": {**held["rows"], "auth_user": 7}})


SPOILT = [
    (cut, "has .* instead of"),
    (flip, "is damaged"),
    (overwrite, "not a backup of"),
    (Path.unlink, "does not exist"),
    (lambda file: manifest.get_manifest_path(file).unlink(), "manifest must be next to"),
    (lambda file: manifest.get_manifest_path(file).write_text("{"), "cannot be read as the manifest"),
    (lambda file: tell(file, form=2), "format 2"),
    (other_kind, "DATABASE_URL is a database of"),
    (newer, "newer version.*ratings.9999_later"),
    (another_count, "auth_user has 1 rows instead of 7"),
]


def test_restore_rejects_a_changed_file_and_changes_nothing(made: CreatedBackup) -> None:
    whole = made.file.parent.parent / "whole"
    shutil.copytree(made.file.parent, whole)
    for spoil, says in SPOILT:
        shutil.rmtree(made.file.parent)
        shutil.copytree(whole, made.file.parent)
        spoil(made.file)
        with pytest.raises(BackupError, match=says):
            restoration.restore_backup(made.file, silent, replace=True, force=True)
        assert User.objects.filter(username="root").exists()
    assert not list(Path(str(connection.settings_dict["NAME"])).parent.glob(".*restoring*"))


def test_restore_is_rejected_while_a_worker_is_alive_or_the_database_file_is_open(made: CreatedBackup) -> None:
    alive = Worker.objects.create(owner="host:1:x", kind="embedded")
    with pytest.raises(BackupError, match="Workers are running: host:1:x"):
        restore(made.file)
    Worker.objects.filter(pk=alive.pk).update(seen_at=timezone.now() - timedelta(days=1))
    here, done = threading.Event(), threading.Event()

    def hold() -> None:
        User.objects.count()
        here.set()
        done.wait(30)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    here.wait(30)
    try:
        with pytest.raises(BackupError, match="stop the web server and the workers first"):
            restoration.restore_backup(made.file, silent, replace=True, force=True)
    finally:
        done.set()
        holder.join()
    assert Worker.objects.exists()
    restore(made.file)
    assert not Worker.objects.exists()


def test_restore_clears_leases_of_workers(folder: Path) -> None:
    from simulation.models import Job
    from tests.support.job_factories import create_job

    held = create_job("study/a", "running", fence=4)
    restore(backup(folder).file)
    row = Job.objects.get(pk=held.pk)
    assert (row.lease_until, row.fence) == (None, 5)


def test_restore_revokes_all_links_and_tokens(folder: Path) -> None:
    study = create_open_study(items=4, raters=2)
    rater = study.raters.filter(user__isnull=True).first() or Rater.objects.create(study=study, label="R09", number=9)
    root = User.objects.create_superuser("root")
    invitation, link = invitations.create_invitation(rater), signing_in.create_link(root, "admin")
    token = tokens.create_token(root, "notebook", ["studies:read"])[1]
    made = backup(folder)
    restore(made.file)
    found = invitations.find_invitation(invitation)
    assert found is not None and "revoked" in invitations.describe_expiry(found)
    assert signing_in.peek_link(link, AnonymousUser(), "admin").effect == LinkEffect.GONE
    assert tokens.find_active_token(token) is None
    assert Rater.objects.get(pk=rater.pk).invited_at is None
    assert sound() and invitations.create_invitation(Rater.objects.get(pk=rater.pk))


@pytest.mark.both_databases
def test_restore_that_was_killed_is_reported_and_can_be_undone(folder: Path) -> None:
    User.objects.create_superuser("root")
    made = backup(folder)
    if connection.vendor == "sqlite":  # nothing was changed; what lies about must not be read into the next copy
        with pytest.raises(BackupError, match="there is none"):
            restoration.undo_restore(silent)
        place = sqlite.get_database_path()
        for ending in ("", "-wal", "-journal"):
            place.with_name(f".{place.name}.restoring{ending}").write_bytes(b"half")
        restore(made.file)
        assert not list(place.parent.glob(".*restoring*"))
    else:
        postgres.set_schema_aside(f"{postgres.SET_ASIDE_PREFIX}20260101000000")
        with pytest.raises(BackupError, match=r"interrupted.*before_restore_20260101000000.*--undo"):
            restoration.restore_backup(made.file, silent, replace=True, force=True)
        assert restoration.undo_restore(silent, force=True) is None
    assert User.objects.filter(username="root").exists()


def test_backup_that_fails_leaves_no_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackupError, match="no directory"):
        creation.create_backup(folder / "nowhere" / "file", silent)
    (folder / "taken").write_text("mine")
    with pytest.raises(BackupError, match="exists already"):
        creation.create_backup(folder / "taken", silent)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys = OFF")
        cursor.execute("INSERT INTO ratings_unsavedanswer (assignment_id, marks, note, updated_at) "
                       "VALUES (999, '[]', '', '2026-01-01')")  # fmt: skip
    with pytest.raises(BackupError, match="foreign_key_check"):
        backup(folder)
    UnsavedAnswer.objects.all().delete()
    assert [path.name for path in folder.iterdir()] == ["taken"]


def test_backups_of_the_same_second_have_different_names(folder: Path) -> None:
    User.objects.create_superuser("root")
    made = [backup(folder).file for _ in range(3)]
    assert len(set(made)) == 3 and set(creation.list_backups(folder)) == set(made)


def test_pruning_keeps_the_last_backup_of_each_day_and_week_and_files_that_are_not_backups(folder: Path) -> None:
    # 60 days, a backup at 03:00 and one at 15:00; the last day is Sunday, 1 March 2026.
    last = datetime(2026, 3, 1, tzinfo=UTC)
    for day in range(60):
        for hour in (3, 15):
            path = folder / creation.format_backup_name(last - timedelta(days=day) + timedelta(hours=hour), "sqlite")
            path.write_text("backup")
            manifest.get_manifest_path(path).write_text("{}")
    (folder / "wetbench-notes.txt").write_text("mine")
    creation.prune_backups(folder, daily=14, weekly=8)
    left = sorted(path.name for path in folder.glob("*.sqlite3"))
    days = [f"{last - timedelta(days=day):%Y%m%d}" for day in range(14)]
    sundays = [f"{last - timedelta(weeks=week):%Y%m%d}" for week in range(8)]  # ISO weeks end on Sundays
    assert left == sorted({f"wetbench-{day}T150000Z.sqlite3" for day in (*days, *sundays)})
    assert len(list(folder.glob("*.json"))) == len(left) == 14 + 6 and (folder / "wetbench-notes.txt").exists()


def test_backup_and_restore_commands_print_results_and_advice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    User.objects.create_superuser("root")
    call_command("backup", str(folder), "--json", "--keep-daily", "2")
    told = json.loads(capsys.readouterr().out)
    assert told["held"]["rows"]["auth_user"] == 1 and told["checked"] and told["removed"] == []
    with pytest.raises(CommandError, match="The database has data"):
        call_command("restore", told["file"], "--yes")
    with pytest.raises(CommandError, match="Use --yes"):
        call_command("restore", told["file"])
    call_command("restore", told["file"], "--yes", "--replace", "--force")
    said = capsys.readouterr().out
    assert "verify: nothing found" in said and "before-restore" in said and "sign in again" in said
