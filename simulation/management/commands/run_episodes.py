"""python manage.py run_episodes --experiment SLUG|all --cast NAME --attempts N [--seed S] [--manifest] [--wait]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.management.arguments import between
from simulation.management.ordering import add_terms, tell_spending, tell_troubles, terms
from simulation.management.progress import ProgressLine
from simulation.models import Run
from simulation.runs import queueing


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
        add_terms(parser)
        parser.add_argument(
            "--wait", action="store_true", help="wait for the episodes, and run them here if no worker is running"
        )
        parser.add_argument("--threads", type=between(1, 400), default=2, help="threads if the episodes run here")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["attempts"] <= 1000:
            raise CommandError("--attempts must be from 1 to 1000", returncode=2)
        try:
            experiments = queueing.experiments_named(options["experiment"])
            run = queueing.queue_episodes(
                experiments,
                options["cast"],
                options["attempts"],
                options["seed"],
                manifest=options["manifest"],
                **terms(options),
            )
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        number = run.episodes.count()
        self.stdout.write(f"run {run.code}: {number} episode{'s' * (number != 1)} queued, seed {run.seed}")
        if options["wait"]:
            self._wait(run, options["threads"])
        elif not queueing.workers_alive():
            self.stdout.write("No worker is running: start one with `make worker`, or use --wait.")

    def _wait(self, run: Run, threads: int) -> None:
        progress = workers.see_through(run, threads, ProgressLine("episodes"))
        tell_spending(run, self.stdout)
        tell_troubles(run, self.stderr)
        if failed := progress.by_status.get("failed", 0) + progress.by_status.get("blocked", 0):
            raise CommandError(f"{failed} of {progress.total} episodes failed or are blocked")
