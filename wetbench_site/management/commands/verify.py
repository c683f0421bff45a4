"""python manage.py verify"""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from wetbench_site.maintenance.verify import every, form
from wetbench_site.maintenance.verify.form import Looked


class Command(BaseCommand):
    help = "Check the integrity of all stored rows and report every violation. Changes nothing."
    requires_system_checks = ()  # reads rows only, so the settings do not matter

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--quiet", action="store_true", help="print nothing unless there are violations")

    def handle(self, *args: Any, **options: Any) -> None:
        results = list(form.look(every.CHECKS, self._tell))
        clean = not any(result.findings for result in results)
        if options["json"]:
            self.stdout.write(json.dumps(told(results), indent=2))
        elif not (clean and options["quiet"]):
            self.stdout.write("\n".join(lines(results)))
        if not clean:
            sys.exit(1)

    def _tell(self, done: int, of: int, name: str) -> None:
        if sys.stderr.isatty():
            self.stderr.write(f"\r\x1b[Kcheck {min(done + 1, of)} of {of}: {name}", ending="\n" if done == of else "")


def told(looked: list[Looked]) -> dict[str, Any]:
    """Return the results as a JSON object."""
    checks = [
        {
            "name": result.check.name,
            "promise": result.check.promise,
            "table": result.check.of._meta.db_table,
            "rows": result.rows,
            "seconds": round(result.seconds, 3),
            "findings": [finding._asdict() for finding in result.findings],
            "more": result.more,
        }
        for result in looked
    ]
    return {"clean": not any(result.findings for result in looked), "checks": checks}


def lines(looked: list[Looked]) -> list[str]:
    """Return a line for each check, followed by its violations."""
    output = []
    for result in looked:
        n_violations = len(result.findings) + result.more
        label = f"{n_violations} FOUND" if n_violations else "ok"
        output.append(f"{label:>9}  {result.check.name}: {result.rows:,} rows of {result.check.of._meta.db_table}")
        if n_violations:
            output.append(f"           promised: {result.check.promise}")
        output += [f"           {f.table} {f.code}: expected {f.expected}; found {f.found}" for f in result.findings]
        output += [f"           and {result.more:,} more"] * bool(result.more)
    total = sum(len(result.findings) + result.more for result in looked)
    return [*output, f"{total:,} violations" if total else "nothing found"]
