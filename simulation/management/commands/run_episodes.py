"""python manage.py run_episodes --experiment SLUG|all --cast NAME --attempts N [--seed S] [--manifest] [--wait]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.management.command_options import (
    ProgressLine,
    add_run_options,
    get_run_options,
    integer_between,
    print_failures,
    print_usage,
)
from simulation.models import Run
from simulation.runs import create


class Command(BaseCommand):
    help = "Queue the next replicates of experiments. With --wait, wait until they have ended."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", default="all", help="a slug, or all")
        parser.add_argument("--cast", default="offline", help="cast that runs the episodes")
        parser.add_argument("--attempts", type=int, default=1, help="replicates of each experiment")
        parser.add_argument("--seed", type=int, default=None, help="equal seeds give equal episodes")
        parser.add_argument(
            "--manifest",
            action="store_true",
            help="agents may use ManifestMaterials; such episodes are excluded from benchmarks",
        )
        add_run_options(parser)
        parser.add_argument(
            "--wait", action="store_true", help="wait for the episodes, and run them here if no worker is running"
        )
        parser.add_argument(
            "--threads", type=integer_between(1, 400), default=2, help="threads if the episodes run here"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["attempts"] <= 1000:
            raise CommandError("--attempts must be from 1 to 1000", returncode=2)
        try:
            experiments = create.get_experiments(options["experiment"])
            run = create.create_episode_run(
                experiments,
                options["cast"],
                options["attempts"],
                options["seed"],
                manifest=options["manifest"],
                **get_run_options(options),
            )
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        number = run.episodes.count()
        self.stdout.write(f"run {run.code}: {number} episode{'s' * (number != 1)} queued, seed {run.seed}")
        if options["wait"]:
            self._wait_for_episodes(run, options["threads"])
        elif not create.has_live_worker():
            self.stdout.write("No worker is running: start one with `make worker`, or use --wait.")

    def _wait_for_episodes(self, run: Run, threads: int) -> None:
        progress = workers.wait_for_run(run, threads, ProgressLine("episodes"))
        print_usage(run, self.stdout)
        print_failures(run, self.stderr)
        if failed := progress.by_status.get("failed", 0) + progress.by_status.get("blocked", 0):
            raise CommandError(f"{failed} of {progress.total} episodes failed or are blocked")
