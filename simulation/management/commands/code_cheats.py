"""python manage.py code_cheats [--task SLUG] [--json]"""

import json
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.replication.grading.cheats import CheatResult, try_cheats
from simulation.replication.sandbox.base import SandboxFault, SandboxUnavailable
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.task_files import load_task
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Try eight ways to cheat on a replication task, and check that none is graded as solved and that each gets the expected outcome "
        "and findings. Reads the task's folder, not the database. Exits with 1 if a cheat gets another grade, "
        "and with 2 if there is no such task or no sandbox."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--task", default="qpcr-titre", metavar="SLUG", help="the task; qpcr-titre by default")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        root = settings.FIXTURES_DIR / "replication"
        known = sorted(path.parent.name for path in root.glob("*/task.json"))
        if options["task"] not in known:
            raise CommandError(f"there is no task {options['task']!r}; allowed: {', '.join(known)}", returncode=2)
        try:
            results = try_cheats(load_task(root / options["task"]), open_sandbox())
        except (SandboxUnavailable, SandboxFault, LabError) as error:
            raise CommandError(str(error), returncode=2) from error
        numbers = sorted({result.cheat.number for result in results})
        failed = sorted({result.cheat.number for result in results if result.problems})
        if options["json"]:
            summary = {"task": options["task"], "cheats": len(numbers), "failed": failed}
            self.stdout.write(json.dumps({**summary, "results": [result.to_json() for result in results]}, indent=1))
        else:
            for result in results:
                self.stdout.write(format_result(result))
            self.stdout.write(f"{len(numbers) - len(failed)} of {len(numbers)} cheats got the expected grade")
        if failed:
            raise CommandError(f"cheats with an unexpected grade: {', '.join(map(str, failed))}", returncode=1)


def format_result(result: CheatResult) -> str:
    """Return a result on one line, and its problems on lines below."""
    warned = " (screen set to warn)" if result.cheat.screen == "warn" else ""
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in result.grade.findings)) or "none"
    line = f"{result.cheat.number} {result.cheat.name}{warned}: {result.grade.outcome}; findings: {kinds}"
    return "\n".join([line, *(f"  PROBLEM: {problem}" for problem in result.problems)])
