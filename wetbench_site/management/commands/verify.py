"""python manage.py verify"""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from wetbench_site.maintenance.verify import every, form
from wetbench_site.maintenance.verify.form import Looked


class Command(BaseCommand):
    help = "Derive again all that WetBench promises of its rows, and name each that breaks a promise. Writes nothing."
    requires_system_checks = ()  # the rows are asked, not the code

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="everything as one JSON object")
        parser.add_argument("--quiet", action="store_true", help="say nothing unless something is found")

    def handle(self, *args: Any, **options: Any) -> None:
        looked = list(form.look(every.CHECKS, self._tell))
        clean = not any(one.findings for one in looked)
        if options["json"]:
            self.stdout.write(json.dumps(told(looked), indent=2))
        elif not (clean and options["quiet"]):
            self.stdout.write("\n".join(lines(looked)))
        if not clean:
            sys.exit(1)

    def _tell(self, done: int, of: int, name: str) -> None:
        if sys.stderr.isatty():
            self.stderr.write(f"\r\x1b[Kcheck {min(done + 1, of)} of {of}: {name}", ending="\n" if done == of else "")


def told(looked: list[Looked]) -> dict[str, Any]:
    """All of it as JSON."""
    checks = [
        {
            "name": one.check.name,
            "promise": one.check.promise,
            "table": one.check.of._meta.db_table,
            "rows": one.rows,
            "seconds": round(one.seconds, 3),
            "findings": [finding._asdict() for finding in one.findings],
            "more": one.more,
        }
        for one in looked
    ]
    return {"clean": not any(one.findings for one in looked), "checks": checks}


def lines(looked: list[Looked]) -> list[str]:
    """A line a check, and under it what it found."""
    said = []
    for one in looked:
        found = len(one.findings) + one.more
        mark = f"{found} FOUND" if found else "ok"
        said.append(f"{mark:>9}  {one.check.name}: {one.rows:,} rows of {one.check.of._meta.db_table}")
        if found:
            said.append(f"           promised: {one.check.promise}")
        said += [f"           {f.table} {f.code}: expected {f.expected}; found {f.found}" for f in one.findings]
        said += [f"           and {one.more:,} more"] * bool(one.more)
    total = sum(len(one.findings) + one.more for one in looked)
    return [*said, f"{total:,} things are not as promised" if total else "nothing found"]
