"""python manage.py try_patch TASK --mask KEY (--gold | --null | --file PATH) [--profile quick|full] [--json]"""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import patch_trials, sandboxes, tasks
from simulation.lab.errors import LabError
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.tasks.mask_draws import find_mask
from simulation.replication.values import PROFILES
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Grade a patch of a masked task in sandboxes, as if an agent had left it. Nothing is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", help="slug of the task")
        parser.add_argument("--mask", required=True, help="key of the mask, such as u3-004; see `draw_masks`")
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--gold", action="store_true", help="the unmasked code")
        source.add_argument("--null", action="store_true", help="no change")
        source.add_argument(
            "--file",
            type=Path,
            help="a unified diff of the masked code, a module, or a folder with modules at their paths (code/...)",
        )
        parser.add_argument("--profile", choices=PROFILES, default="full", help="size of the experiments")
        parser.add_argument(
            "--json", action="store_true", help="print the whole grade as JSON, with values of secret data"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rows = tasks.find_tasks([options["task"]])
            if options["task"] == "all" or len(rows) != 1:
                raise CommandError(f"{options['task']!r} is not the slug of one task", returncode=2)
            row, task = rows[0], tasks.get_task(rows[0])
            draw = find_mask(task, options["mask"])
            sandbox = sandboxes.get_sandbox()
            patch = {} if options["null"] else patch_trials.list_reference_files(task)
            if options["file"]:
                patch = patch_trials.read_patch(options["file"], task, draw, sandbox)
            trial = patch_trials.try_patch(row, draw, patch, sandbox, options["profile"])
        except SandboxUnavailable as error:
            raise CommandError(f"A patch is run in a sandbox: {error}", returncode=2) from error
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        grade = trial.grade
        if options["json"]:
            self.stdout.write(json.dumps({"mask": draw.key, "functions": list(draw.functions), **grade.to_json()}))
            return
        self.stdout.write(f"{draw.key} hides {', '.join(draw.functions) or 'nothing'}: {grade.outcome}")
        for finding in grade.findings:
            label = " (secret: not for agents and raters)" if finding.is_secret else ""
            self.stdout.write(f"  {finding.kind}{label}: {finding.text}")
        for line in grade.outside:
            self.stdout.write(f"  without effect: {line}")
