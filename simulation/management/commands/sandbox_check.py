"""python manage.py sandbox_check [--json]"""

import json
import shlex
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.sandbox.choosing import SandboxSettings, build_sandbox
from simulation.replication.sandbox.packages import list_uncompiled_packages
from simulation.replication.sandbox.self_test import measure_start_ms, run_self_test
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import join_words


class Command(SafeCommand):
    help = (
        "Test whether the sandbox of this machine isolates and limits what it runs, and measure how long it takes to start. "
        "Exits with 1 if a check fails, and with 2 if there is no sandbox."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            sandbox = build_sandbox(SandboxSettings.from_environment())
            test = run_self_test(sandbox)
        except SandboxUnavailable as error:
            if options["json"]:
                self.stdout.write(json.dumps({"usable": False, "backend": None, "problem": str(error)}))
            raise CommandError(str(error), returncode=2) from error
        start_ms = None if test.failed else measure_start_ms(sandbox)
        if options["json"]:
            failed = [{"check": check.name, "detail": check.detail} for check in test.failed]
            report = {"usable": not failed, "backend": test.backend, "checks": len(test.checks), "failed": failed}
            self.stdout.write(json.dumps({**report, "start_ms": start_ms}, ensure_ascii=False))
        else:
            for check in test.checks:
                self.stdout.write(f"{'passed' if check.passed else 'FAILED'}  {check.name} ({check.detail})")
            if start_ms is not None:
                self.stdout.write(f"{test.backend}: a sandbox that runs `true` takes {start_ms} ms (median)")
            if folders := list_uncompiled_packages(("numpy", "scipy", "sklearn")):
                command = shlex.join([sys.executable, "-m", "compileall", "-q", *map(str, folders)])
                self.stdout.write(
                    f"Without compiled code: {join_words(folder.name for folder in folders)}. Each sandbox that imports these packages "
                    f"compiles them again. To compile them once: {command}"
                )
        if test.failed:
            raise CommandError(f"{len(test.failed)} of {len(test.checks)} checks failed", returncode=1)
