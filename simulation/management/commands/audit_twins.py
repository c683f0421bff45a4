"""python manage.py audit_twins [--pairs N] [--seed N] [--json] [--write]"""

import json
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.management.command_options import ProgressLine, integer_between
from simulation.twin_audit import pairs, report
from wetbench_site.safe_output import SafeCommand

_PAGE = settings.BASE_DIR / "docs" / "twins.md"


class Command(SafeCommand):
    help = (
        "Measure how many planted errors programs without scientific knowledge find, and which texts differ between "
        "twins and originals, on new offline twins. Reads the data files, not the database. Exits with 1 if a result misses its aim."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        pairs_help = "number of twins of each error type, equally many of each experiment"
        parser.add_argument("--pairs", type=integer_between(30, 100_000), default=2000, help=pairs_help)
        parser.add_argument("--seed", type=integer_between(0, 1_000_000), default=1, help="seed of episodes and errors")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
        parser.add_argument("--write", action="store_true", help="write the tables of docs/twins.md")

    def handle(self, *args: Any, **options: Any) -> None:
        progress = ProgressLine("audit_twins")
        created = []
        for pair in pairs.create_pairs(settings.FIXTURES_DIR, options["pairs"], options["seed"]):
            created.append(pair)
            if len(created) % 100 == 0:
                progress.show_progress(f"{len(created)} twins, now {pair.experiment}")
        result = report.build_report(created, options["seed"], progress.show_progress)
        progress.show_progress(f"audited {len(created)} twins", last=True)
        if options["write"]:
            _PAGE.write_text(report.insert_report(_PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")
        text = json.dumps(report.report_to_json(result), ensure_ascii=False, indent=1)
        self.stdout.write(text if options["json"] else report.format_report(result))
        for fault in result.all_faults:
            self.stderr.write(fault)
        if result.all_faults:
            raise CommandError(f"{len(result.all_faults)} results miss their aims", returncode=1)
