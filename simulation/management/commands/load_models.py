"""python manage.py load_models FILE..."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.casts import load_files
from simulation.lab.errors import LabError
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Add or replace models, prices and casts from your own files (docs/models.md). If a file is invalid, nothing is loaded."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON with models, prices or casts")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            loaded = load_files.load_models(load_files.parse_model_files(options["files"]))
        except LabError as error:
            raise CommandError(f"Nothing was loaded.\n{error}") from error
        for kind, count in loaded.items():
            self.stdout.write(f"{kind}: {count.new} new, {count.changed} changed, {count.same} unchanged")
