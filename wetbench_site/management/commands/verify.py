"""python manage.py verify"""

import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from wetbench_site.maintenance.verify import ALL_CHECKS, checks
from wetbench_site.maintenance.verify.checks import CheckResult
from wetbench_site.safe_output import NO_TABLES, SafeCommand


class Command(SafeCommand):
    help = "Check the integrity of all stored rows and report every violation. Changes nothing."
    requires_system_checks = ()  # reads rows only, so the settings do not matter

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--quiet", action="store_true", help="print nothing unless there are violations")

    def handle(self, *args: Any, **options: Any) -> None:
        # Otherwise every check would report its missing table.
        if not MigrationRecorder(connection).applied_migrations():
            raise CommandError(NO_TABLES, returncode=2)
        results = list(checks.run_checks(ALL_CHECKS, self._report_progress))
        clean = not any(result.findings for result in results)
        if options["json"]:
            self.stdout.write(json.dumps(results_to_dict(results), indent=2))
        elif not (clean and options["quiet"]):
            self.stdout.write("\n".join(format_results(results)))
        if not clean:
            sys.exit(1)

    def _report_progress(self, done: int, total: int, name: str) -> None:
        if sys.stderr.isatty():
            self.stderr.rewrite_line(f"check {min(done + 1, total)} of {total}: {name}", done == total)


def results_to_dict(results: list[CheckResult]) -> dict[str, Any]:
    """Return the results as a JSON object."""
    checks = [
        {
            "name": result.check.name,
            "promise": result.check.promise,
            "table": result.check.model._meta.db_table,
            "rows": result.rows,
            "seconds": round(result.seconds, 3),
            "findings": [finding._asdict() for finding in result.findings],
            "more": result.further_violations,
        }
        for result in results
    ]
    return {"clean": not any(result.findings for result in results), "checks": checks}


def format_results(results: list[CheckResult]) -> list[str]:
    """Return a line for each check, followed by its violations."""
    output = []
    for result in results:
        n_violations = len(result.findings) + result.further_violations
        label = f"{n_violations} FOUND" if n_violations else "ok"
        output.append(f"{label:>9}  {result.check.name}: {result.rows:,} rows of {result.check.model._meta.db_table}")
        if n_violations:
            output.append(f"           promised: {result.check.promise}")
        output += [f"           {f.table} {f.code}: expected {f.expected}; found {f.found}" for f in result.findings]
        output += [f"           and {result.further_violations:,} more"] * bool(result.further_violations)
    total = sum(len(result.findings) + result.further_violations for result in results)
    return [*output, f"{total:,} violations" if total else "nothing found"]
