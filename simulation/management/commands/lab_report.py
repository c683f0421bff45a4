"""python manage.py lab_report [--experiment SLUG ...] [--seed N] [--variants] [--json]"""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation import lab_report
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Report what can be simulated, and check that every reference protocol is sufficient, that none of its parts can be "
        "omitted, and that its variants are refused for the reason that they name. Reads the data files, not the database. Exits with 1 if there are faults."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", action="append", default=[], help="only this slug; may be repeated")
        parser.add_argument("--seed", type=int, default=1, help="seed of episodes and noise")
        parser.add_argument(
            "--variants", action="store_true", help="print only the tables of variants and alternatives"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
        parser.add_argument("--directory", type=Path, default=settings.FIXTURES_DIR, help="folder of the data files")

    def handle(self, *args: Any, **options: Any) -> None:
        progress = ProgressLine("lab_report")
        try:
            result = lab_report.build_report(
                options["directory"], options["seed"], options["experiment"], progress.show_progress
            )
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        progress.show_progress(f"checked {len(result.protocol_checks)} experiments", last=True)
        if options["json"]:
            self.stdout.write(json.dumps(lab_report.report_to_json(result), ensure_ascii=False, indent=1))
        else:
            text = lab_report.format_variants(result) if options["variants"] else lab_report.format_report(result)
            self.stdout.write(text)
        if result.all_faults:
            raise CommandError(f"{len(result.all_faults)} faults", returncode=1)
