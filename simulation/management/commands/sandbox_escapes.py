"""python manage.py sandbox_escapes [--json]"""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.replication.sandbox.base import SandboxFault, SandboxUnavailable
from simulation.replication.sandbox.choosing import SandboxSettings, build_sandbox
from simulation.replication.sandbox.escapes.attempts import Escape, escape_to_json, run_escapes
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Try ten times to break out of the sandbox of this machine, with a harmless process and file of the host as target. "
        "Exits with 1 if an attempt succeeds, and with 2 if there is no sandbox."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            # Not open_sandbox: this command also has to show what a backend that fails its self-test lets through.
            sandbox = build_sandbox(SandboxSettings.from_environment())
            escapes = list(run_escapes(sandbox))
        except (SandboxUnavailable, SandboxFault) as error:
            raise CommandError(str(error), returncode=2) from error
        open_ones = [escape for escape in escapes if not escape.contained]
        if options["json"]:
            report = {
                "backend": sandbox.name,
                "contained": len(escapes) - len(open_ones),
                "escapes": list(map(escape_to_json, escapes)),
            }
            self.stdout.write(json.dumps(report, ensure_ascii=False))
        else:
            for escape in escapes:
                self._print(escape)
        if open_ones:
            raise CommandError(f"{len(open_ones)} of {len(escapes)} escapes are not contained", returncode=1)

    def _print(self, escape: Escape) -> None:
        self.stdout.write(f"{escape.number}. {escape.title}: {'contained' if escape.contained else 'NOT CONTAINED'}")
        for attempt in escape.attempts:
            self.stdout.write(f"   {attempt.tried}: {attempt.stopped_by or 'NOTHING STOPPED IT'}")
