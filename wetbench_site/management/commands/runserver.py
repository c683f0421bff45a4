"""python manage.py runserver"""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from whitenoise.runserver_nostatic.management.commands.runserver import Command as RunServer

from wetbench_site import loopback, migration_state


class Command(RunServer):  # type: ignore[misc]  # whitenoise is not typed
    help = "Django's own server, for those who develop WetBench. On a site of this machine it binds nothing else."

    def run(self, **options: Any) -> None:
        if not settings.PRODUCTION and (why := loopback.refusal([(self.addr, self.port)])):
            raise CommandError(why)
        super().run(**options)

    def check_migrations(self) -> None:
        """Refuse a database older than the initial migrations before Django builds its graph, which would fail."""
        applied = MigrationRecorder(connection).applied_migrations()
        if why := migration_state.explain_gaps(applied, "This database"):
            raise CommandError(why)
        super().check_migrations()
