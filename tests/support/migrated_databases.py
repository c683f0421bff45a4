"""Databases with all migrations applied, which take seconds of processor time: applied once, then copied for each process of the tests."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import django
from django.conf import settings

from tests.support.services import PostgresCluster

_CACHE: Path = settings.BASE_DIR / ".pytest_cache" / "migrated"
_TEMPLATE = "migrated"
_NO_SERVICES = {"CELERY_BROKER_URL": "", "WETBENCH_LOG_LEVEL": "ERROR"}


def copy_sqlite_database(target: Path) -> None:
    """Copy a migrated, empty database to this path. The first test process that needs it migrates it, in about ten seconds."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    template = _CACHE / f"{_compute_version()}.sqlite3"
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not template.exists():
            for outdated in _CACHE.glob("*.sqlite3*"):
                outdated.unlink()
            new = template.with_suffix(".new")
            _migrate(f"sqlite:///{new}")
            new.rename(template)
    shutil.copyfile(template, target)


def create_postgres_database(cluster: PostgresCluster, name: str) -> str:
    """Create a migrated, empty database and return its DATABASE_URL."""
    return cluster.create_database(name, get_postgres_template(cluster))


def get_postgres_template(cluster: PostgresCluster) -> str:
    """Return the name of a migrated, empty database that nobody uses; the first call for a cluster migrates it."""
    if _TEMPLATE not in cluster.templates:
        _migrate(cluster.create_database(_TEMPLATE))
        cluster.templates.add(_TEMPLATE)
    return _TEMPLATE


def _migrate(url: str) -> None:
    environment = {**os.environ, **_NO_SERVICES, "DATABASE_URL": url}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, cwd=settings.BASE_DIR, env=environment, check=True)


def _compute_version() -> str:
    """Return a digest of all migrations and of the models that content types and permissions are made of."""
    digest = hashlib.sha256(django.__version__.encode())
    for app in ("ratings", "simulation"):
        for folder in ("migrations", "models"):
            for path in sorted((settings.BASE_DIR / app / folder).glob("*.py")):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
