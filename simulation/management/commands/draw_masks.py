"""python manage.py draw_masks --task SLUG|all [--n 0-8] [--per-n 7] [--mode uniform] [--seed 1] [--json]"""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.management.command_options import integer_between
from simulation.management.task_options import add_task_options, parse_numbers, read_tasks
from simulation.replication.tasks.mask_draws import MODES, count_masks, draw_masks
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Draw masks of replication tasks: which functions are hidden together. The same seed gives the same masks, and more masks never change "
        "earlier ones. Reads the task folders, not the database."
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
        parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")

    def handle(self, *args: Any, **options: Any) -> None:
        tasks = read_tasks(Path(options["directory"]), options["task"])
        draws = []
        for task in tasks:
            numbers = options["n"] if options["n"] is not None else range(len(task.functions) + 1)
            if too_large := [n for n in numbers if n > len(task.functions)]:
                text = f"--n: {too_large[0]} is more than the {len(task.functions)} functions of {task.slug}"
                raise CommandError(text, returncode=2)
            draws += [
                draw
                for n in numbers
                for draw in draw_masks(task, n, options["per_n"], options["mode"], options["seed"])
            ]
        if options["json"]:
            self.stdout.write(json.dumps({"masks": [vars(draw) for draw in draws]}))
            return
        for draw in draws:
            self.stdout.write(f"{draw.slug} {draw.key}: {', '.join(draw.functions) or 'nothing hidden'}")
        totals = {n: sum(draw.n == n for draw in draws) for n in sorted({draw.n for draw in draws})}
        exist = sum(count_masks(task, n, options["mode"]) for task in tasks for n in totals if n <= len(task.functions))
        listed = ", ".join(f"n = {n}: {number}" for n, number in totals.items())
        self.stdout.write(f"{len(draws)} masks of {exist} ({listed})")
