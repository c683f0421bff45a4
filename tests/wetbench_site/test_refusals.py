"""Problems that stop the start of the site, and the limits of the embedded profile."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings as site
from django.core.checks import CheckMessage
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django.fixtures import Settings

from tests.support.services import PostgresCluster
from wetbench_site import checks, loopback_only
from wetbench_site.environment import InvalidConfiguration

KEY = "f3Zq9-tR0bLx7WnKc2Vd5Ym8Hj1Pg4Su6Aoe_QwIiTzUxBvNhDkEyGfXo"


def codes(found: list[CheckMessage]) -> list[str]:
    return [str(message.id) for message in found]


def test_settings_check_accepts_the_embedded_profile() -> None:
    assert checks.check_settings() == []


def test_settings_check_rejects_a_star_as_allowed_host(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["wetbench.example.org", "*"]
    assert codes(checks.check_settings()) == ["wetbench.E001"]


def test_settings_check_rejects_debug_and_weak_keys_in_production(settings: Settings) -> None:
    settings.DEBUG, settings.SECRET_KEY = True, KEY
    assert checks.check_settings() == []
    settings.PRODUCTION = True
    assert codes(checks.check_settings()) == ["wetbench.E002"]
    settings.DEBUG = False
    for weak in (KEY[:49], "ab" * 40, "django-insecure-" + KEY, "please-change-me-" + KEY):
        settings.SECRET_KEY = weak
        assert codes(checks.check_settings()) == ["wetbench.E003"], weak


@pytest.mark.parametrize("name", checks.SDK_LOGS)
def test_settings_check_rejects_sdk_logs_that_print_prompts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "info")
    assert checks.check_settings() == []
    monkeypatch.setenv(name, "Debug")
    assert codes(checks.check_settings()) == ["wetbench.E004"]


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/homes /home nfs4 rw 0 0
/dev/sdb1 /home/local\\040disk xfs rw 0 0
//server/share /mnt/share cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/site.sqlite3", "ext4"), ("/home/ann/var/site.sqlite3", "nfs4"), ("/home/local disk/site.sqlite3", "xfs"),
        ("/mnt/share/site.sqlite3", "cifs"), ("/mnt/shared/site.sqlite3", "ext4"),
    ],
)  # fmt: skip
def test_file_system_of_a_path_is_determined_by_its_innermost_mount(
    path: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(checks, "MOUNTS", mounts)
    assert checks.find_file_system(Path(path)) == kind


def test_settings_check_rejects_sqlite_on_a_network_disk(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(checks, "MOUNTS", mounts)
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", "/home/ann/site.sqlite3")
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\n")
    assert checks.check_settings() == []
    mounts.write_text(MOUNTS)
    (message,) = checks.check_settings()
    assert message.id == "wetbench.E005" and "nfs4" in message.msg and "WETBENCH_VAR_DIR" in str(message.hint)


@pytest.mark.django_db(transaction=True)
def test_durability_check_rejects_sqlite_below_synchronous_full() -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous=NORMAL")
        try:
            assert codes(checks.check_durability(databases=["default"])) == ["wetbench.E006"]
        finally:
            cursor.execute("PRAGMA synchronous=FULL")
    assert checks.check_durability(databases=["default"]) == []


@pytest.mark.django_db
def test_missing_migrations_stop_a_server_with_the_command_to_run() -> None:
    checks.check_site()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    with pytest.raises(InvalidConfiguration) as refused:
        checks.check_site()
    assert "such as sessions.0001_initial" in str(refused.value) and "manage.py migrate" in str(refused.value)


@pytest.mark.django_db
def test_migration_of_a_newer_version_does_not_stop_a_server() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('ratings', '0999_later', '2030-01-01')"
        )
    assert checks.list_missing_migrations() == []


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("[::1]", True), ("localhost", True),
        ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False), ("", False), ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False), ("wetbench.example.org", False), ("127.0.0.1.example.org", False),
    ],
)  # fmt: skip
def test_loopback_addresses_are_recognised(host: str, answer: bool) -> None:
    assert loopback_only.is_loopback(host) is answer


def test_embedded_profile_binds_only_loopback_and_socket_files() -> None:
    assert loopback_only.explain_bind_refusal([("127.0.0.1", 8000), ("::1", 8000, 0, 0), "/run/wetbench.sock"]) == ""
    assert "cannot bind 0.0.0.0:8000" in loopback_only.explain_bind_refusal([("127.0.0.1", 8000), ("0.0.0.0", 8000)])


@pytest.mark.parametrize(
    ("caller", "status"), [("127.0.0.1", "200 OK"), ("", "200 OK"), ("192.0.2.7", "403 Forbidden")]
)
def test_embedded_profile_answers_only_its_own_machine(caller: str, status: str) -> None:
    said: list[str] = []

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"a page"]

    body = b"".join(
        loopback_only.serve_loopback_only(application)(
            {"REMOTE_ADDR": caller}, lambda state, headers: said.append(state)
        )
    )
    assert said == [status] and (b"a page" in body) == (status == "200 OK")


def ran(*command: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    here = {name: value for name, value in os.environ.items() if name != "DJANGO_ALLOW_ASYNC_UNSAFE"}  # set by pytest
    return subprocess.run(
        [sys.executable, *command], cwd=site.BASE_DIR, env=here | changes, capture_output=True, text=True
    )


EXPOSED = {
    "WETBENCH_PROFILE": "production",
    "SECRET_KEY": KEY,
    "WETBENCH_HOSTS": "wetbench.example.org",
    "WETBENCH_URL": "https://wetbench.example.org",
}


def test_django_deploy_check_has_no_warnings_in_production(tmp_path: Path) -> None:
    check = ("manage.py", "check", "--deploy", "--fail-level", "WARNING")
    done = ran(*check, **EXPOSED, WETBENCH_VAR_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_gunicorn_does_not_bind_public_addresses_in_the_embedded_profile() -> None:
    served = ran("-m", "gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf", "-b", "0.0.0.0:0")
    assert served.returncode == 1 and "cannot bind 0.0.0.0:0" in served.stderr


def test_runserver_does_not_bind_public_addresses_in_the_embedded_profile() -> None:
    with pytest.raises(CommandError, match=re.escape("cannot bind 0.0.0.0:1.")):
        call_command("runserver", "0.0.0.0:1", use_reloader=False, skip_checks=True)


@pytest.mark.parametrize("broker", [{}, {"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}])
def test_worker_with_missing_migrations_prints_the_reason_once(broker: dict[str, str], tmp_path: Path) -> None:
    done = ran("manage.py", "worker", **broker, WETBENCH_VAR_DIR=str(tmp_path))
    head, fault = done.stderr.splitlines()
    assert (done.returncode, done.stdout, head) == (1, "", "WetBench cannot start:")
    assert fault.startswith("- The database lacks ") and "manage.py migrate" in fault


@pytest.mark.services
def test_durability_check_rejects_postgresql_without_synchronous_commit(
    postgres: PostgresCluster, tmp_path: Path
) -> None:
    """The cluster of the tests runs with fsync=off, which is rejected only in production."""
    url, check = postgres.create_database("ignore_submission_ids"), ("manage.py", "check", "--database", "default")
    here = {"DATABASE_URL": url, "WETBENCH_VAR_DIR": str(tmp_path)}
    assert ran(*check, **here).returncode == 0
    assert re.findall(r"wetbench\.E\d+", ran(*check, **here, **EXPOSED).stderr) == ["wetbench.E007"]
    with psycopg.connect(url, autocommit=True) as told:
        told.execute("ALTER DATABASE ignore_submission_ids SET synchronous_commit = off")
    assert re.findall(r"wetbench\.E\d+", ran(*check, **here).stderr) == ["wetbench.E006"]
