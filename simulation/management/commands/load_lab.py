"""python manage.py load_lab"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from simulation.casts import load_files
from simulation.code_runs import tasks
from simulation.lab.errors import LabError
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Load the actions, experiments, models, casts and replication tasks of fixtures/ into the database. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--directory", type=Path, default=settings.FIXTURES_DIR, help="folder of the data files")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # All or nothing: a task names experiments.
            with transaction.atomic():
                loaded = load_files.load_lab(options["directory"])
                loaded["replication tasks"] = tasks.load_tasks(options["directory"] / tasks.FOLDER_NAME)
        except LabError as error:
            raise CommandError(f"Nothing was loaded.\n{error}") from error
        for kind, count in loaded.items():
            self.stdout.write(f"{kind}: {count.new} new, {count.changed} changed, {count.same} unchanged")
