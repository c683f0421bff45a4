"""python manage.py load_lab"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.casts import load_files
from simulation.lab.errors import LabError
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Load the actions, experiments, models and casts of fixtures/ into the database. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--directory", type=Path, default=settings.FIXTURES_DIR, help="folder of the data files")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            loaded = load_files.load_lab(options["directory"])
        except LabError as error:
            raise CommandError(f"Nothing was loaded.\n{error}") from error
        for kind, count in loaded.items():
            self.stdout.write(f"{kind}: {count.new} new, {count.changed} changed, {count.same} unchanged")
