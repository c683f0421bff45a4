"""What there is where a backup is to go: anything at all, and anybody at work on it."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from ratings.models import Study
from simulation.models import Run, Worker
from wetbench_site.database_copies import postgres, sqlite
from wetbench_site.database_copies.faults import BackupError


def has_data() -> bool:
    """Whether anybody would miss it: people, studies or runs. The laboratory's own data files are loaded anew."""
    if connection.vendor == "sqlite" and not sqlite.place().is_file():
        return False
    there = set(connection.introspection.table_names())
    return any(model._meta.db_table in there and model._default_manager.exists() for model in (User, Study, Run))


def refuse_at_work() -> None:
    """BackupError while workers say that they are alive, or others hold the database open."""
    if connection.vendor == "sqlite" and not sqlite.place().is_file():
        return
    if owners := _alive():
        raise BackupError(
            f"Workers are alive: {', '.join(owners)}. Stop them and the web server first. One that died counts as alive"
            f" for {settings.WORKER_SILENT_SECONDS:.0f} s; --force does not wait for that"
        )
    if connection.vendor == "sqlite":
        sqlite.refuse_in_use()
    elif others := postgres.others():
        raise BackupError(
            f"{others} other connections to the database are open: stop the web server and the workers first,"
            " or say --force"
        )


def _alive() -> list[str]:
    if Worker._meta.db_table not in connection.introspection.table_names():
        return []
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return list(Worker.objects.filter(seen_at__gt=since).values_list("owner", flat=True))
