"""python manage.py migrate"""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as Migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from wetbench_site import checks


class Command(Migrate):
    help = "Bring the database to the schema of this version. Databases older than the initial migrations are rejected."

    def handle(self, *args: Any, **options: Any) -> None:
        # Before Django builds its graph of migrations, which raises NodeNotFoundError for such a database.
        applied = MigrationRecorder(connections[options["database"]]).applied_migrations()
        if reason := checks.explain_migration_gaps(applied, "This database"):
            raise CommandError(f"Nothing was changed. {reason}")
        super().handle(*args, **options)
