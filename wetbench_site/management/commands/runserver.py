"""python manage.py runserver"""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from whitenoise.runserver_nostatic.management.commands.runserver import Command as RunServer

from wetbench_site import checks, loopback_only


class Command(RunServer):  # type: ignore[misc]  # whitenoise is not typed
    help = "Django's development server. In the embedded profile it binds loopback addresses only."

    def run(self, **options: Any) -> None:
        if not settings.PRODUCTION and (reason := loopback_only.explain_bind_refusal([(self.addr, self.port)])):
            raise CommandError(reason)
        super().run(**options)

    def check_migrations(self) -> None:
        """Raise CommandError for a database older than the initial migrations."""
        # Before Django builds its graph of migrations, which fails for such a database.
        applied = MigrationRecorder(connection).applied_migrations()
        if reason := checks.explain_migration_gaps(applied, "This database"):
            raise CommandError(reason)
        super().check_migrations()
