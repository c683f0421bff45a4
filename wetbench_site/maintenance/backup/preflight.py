"""Checks of the database that a restore would replace: whether it has data, and whether anybody is using it."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from ratings.models import Study
from simulation.models import Run, Worker
from wetbench_site.database_copies import postgres, sqlite
from wetbench_site.database_copies.errors import BackupError


def has_data() -> bool:
    """Return whether there are accounts, studies or runs."""
    if connection.vendor == "sqlite" and not sqlite.get_database_path().is_file():
        return False
    tables = set(connection.introspection.table_names())
    # Experiments and catalogues do not count: they are loaded again from data files.
    return any(model._meta.db_table in tables and model._default_manager.exists() for model in (User, Study, Run))


def check_nobody_works() -> None:
    """Raise BackupError if workers are alive or others have the database open."""
    if connection.vendor == "sqlite" and not sqlite.get_database_path().is_file():
        return
    if owners := _list_live_workers():
        raise BackupError(
            f"Workers are running: {', '.join(owners)}. Stop them and the web server first. A dead one counts as running"
            f" for {settings.WORKER_SILENT_SECONDS:.0f} s; use --force to continue without waiting"
        )
    if connection.vendor == "sqlite":
        sqlite.check_not_in_use()
    elif others := postgres.count_other_connections():
        raise BackupError(
            f"{others} other connections to the database are open: stop the web server and the workers first,"
            " or use --force"
        )


def _list_live_workers() -> list[str]:
    if Worker._meta.db_table not in connection.introspection.table_names():
        return []
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return list(Worker.objects.filter(seen_at__gt=since).values_list("owner", flat=True))
