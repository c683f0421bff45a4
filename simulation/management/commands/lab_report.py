"""python manage.py lab_report [--experiment SLUG ...] [--seed N] [--json]"""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.lab_report import report, report_tables
from simulation.management.progress import ProgressLine


class Command(BaseCommand):
    help = (
        "What the laboratory can do, and whether every reference protocol suffices while no part of it can be left out. "
        "Reads the data files, not the database. Ends with 1 if something is at fault."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", action="append", default=[], help="only this slug; may be given again")
        parser.add_argument("--seed", type=int, default=1, help="plays and noise follow from it")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
        parser.add_argument("--directory", type=Path, default=settings.FIXTURES_DIR, help="where the data files are")

    def handle(self, *args: Any, **options: Any) -> None:
        line = ProgressLine("lab_report")
        try:
            told = report.report(options["directory"], options["seed"], options["experiment"], line.say)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        line.say(f"played {len(told.rehearsals)} experiments", last=True)
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json(told), ensure_ascii=False, indent=1))
        else:
            self.stdout.write(report_tables.to_text(told))
        if told.faults:
            raise CommandError(f"{len(told.faults)} faults", returncode=1)
