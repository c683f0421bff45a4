"""python manage.py draw_masks --task SLUG|all [--n 0-8] [--per-n 7] [--mode uniform] [--seed 1] [--validate] [--json]"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import masks, sandboxes, tasks
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, integer_between
from simulation.management.task_options import add_task_options, parse_numbers, read_tasks
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.tasks.mask_draws import (
    DEFAULT_SEED,
    MAX_SEED,
    MODES,
    count_masks,
    draw_masks,
    format_key,
)
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.values import MaskDraw, Task
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count


class Command(SafeCommand):
    help = (
        "Draw masks of replication tasks: which functions are hidden together. The same seed gives the same masks, and more masks never change "
        "earlier ones. Reads the task folders. With --validate, the masks are also stored, and those that were not validated on this kind of machine are "
        "validated in sandboxes, so that runs can use them; exits with 1 if one cannot be used."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_task_options(parser, settings.FIXTURES_DIR / "replication")
        parser.add_argument(
            "--n",
            type=parse_numbers,
            default=None,
            help="numbers of hidden functions, such as 0-8 or 1,2,4; all by default",
        )
        parser.add_argument(
            "--per-n", type=integer_between(1, 5000), default=7, help="masks of each number; fewer if fewer exist"
        )
        parser.add_argument("--mode", choices=MODES, default="uniform", help="how the functions of a mask are related")
        parser.add_argument("--seed", type=integer_between(0, MAX_SEED), default=DEFAULT_SEED, help="seed of the draw")
        parser.add_argument(
            "--validate", action="store_true", help="store the masks and validate them in sandboxes; needs `load_lab`"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        known = read_tasks(Path(options["directory"]), options["task"])
        drawn: dict[str, list[MaskDraw]] = {}
        for task in known:
            numbers = options["n"] if options["n"] is not None else range(len(task.functions) + 1)
            if too_large := [n for n in numbers if n > len(task.functions)]:
                text = f"--n: {too_large[0]} is more than the {len(task.functions)} functions of {task.slug}"
                raise CommandError(text, returncode=2)
            drawn[task.slug] = [
                draw
                for n in numbers
                for draw in draw_masks(task, n, options["per_n"], options["mode"], options["seed"])
            ]
        problems = self.validate_masks(known, drawn, options["seed"]) if options["validate"] else None
        draws = [replace(draw, key=format_key(draw.key, options["seed"])) for part in drawn.values() for draw in part]
        self.print_masks(known, draws, problems, options)
        if refused := sum(map(bool, (problems or {}).values())):
            raise CommandError(f"{refused} of {format_count(len(draws), 'mask')} cannot be used", returncode=1)

    def validate_masks(self, known: list[Task], drawn: dict[str, list[MaskDraw]], seed: int) -> dict[str, str]:
        """Store the masks and validate them. Return the problem of each by "slug key", or "" if it can be used."""
        try:
            sandbox = sandboxes.get_sandbox()
            rows = {row.slug: row for row in tasks.find_tasks([task.slug for task in known])}
        except SandboxUnavailable as error:
            raise CommandError(f"Masks are validated in a sandbox: {error}", returncode=2) from error
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        if changed := [task.slug for task in known if rows[task.slug].sha256 != hash_task(task)]:
            text = f"{', '.join(changed)}: the folder differs from the version in the database. Run `python manage.py load_lab` first"
            raise CommandError(text, returncode=2)
        progress, problems = ProgressLine("draw_masks"), dict[str, str]()
        for slug, draws in drawn.items():
            progress.show_progress(f"{slug}: {format_count(len(draws), 'mask')}")
            reason = rows[slug].invalid_reason
            stored = [] if reason else masks.store_masks(rows[slug], masks.build_masks(rows[slug], draws, seed))
            try:
                masks.validate_masks(stored, sandbox)
            except LabError as error:
                reason = str(error)
            problems |= {f"{slug} {format_key(draw.key, seed)}": reason for draw in draws}
            problems |= {f"{slug} {mask.key}": mask.validation["problem"] for mask in stored if not reason}
        progress.show_progress(f"validated masks of {format_count(len(drawn), 'task')}", last=True)
        return problems

    def print_masks(
        self, known: list[Task], draws: list[MaskDraw], problems: dict[str, str] | None, options: dict[str, Any]
    ) -> None:
        if options["json"]:
            entries = [asdict(draw) for draw in draws]
            if problems is not None:
                entries = [{**entry, "problem": problems[f"{entry['slug']} {entry['key']}"]} for entry in entries]
            self.stdout.write(json.dumps({"masks": entries}))
            return
        for draw in draws:
            line = f"{draw.slug} {draw.key}: {', '.join(draw.functions) or 'nothing hidden'}"
            if problems is not None:
                line += f": {problems[f'{draw.slug} {draw.key}'] or 'validated'}"
            self.stdout.write(line)
        totals = {n: sum(draw.n == n for draw in draws) for n in sorted({draw.n for draw in draws})}
        exist = sum(count_masks(task, n, options["mode"]) for task in known for n in totals if n <= len(task.functions))
        listed = ", ".join(f"n = {n}: {number}" for n, number in totals.items())
        self.stdout.write(f"{format_count(len(draws), 'mask')} of {exist} ({listed})")
