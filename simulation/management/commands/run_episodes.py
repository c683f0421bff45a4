"""python manage.py run_episodes --experiment SLUG|all --cast NAME --attempts N [--seed S] [--truths SPLIT] [--manifest] [--wait]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.lab.truths import truth_seeds
from simulation.management.command_options import RunCommand, get_run_options
from simulation.runs import create


class Command(RunCommand):
    help = "Queue the next replicates of experiments. With --wait, wait until they have ended."
    noun = "episode"
    waiting_help = "wait for the episodes, and run them here if no worker is running"
    threads_help = "threads if the episodes run here"

    def add_arguments(self, parser: CommandParser) -> None:
        manifest_help = "agents may use ManifestMaterials; such episodes are excluded from benchmarks"
        parser.add_argument("--experiment", default="all", help="a slug, or all")
        parser.add_argument("--cast", default="offline", help="cast that runs the episodes")
        parser.add_argument("--attempts", type=int, default=1, help="replicates of each experiment")
        parser.add_argument("--seed", type=int, default=None, help="equal seeds give equal episodes")
        parser.add_argument(
            "--truths",
            choices=truth_seeds.CHOICES,
            default=truth_seeds.VALIDATION,
            help="the split whose seeds draw the hidden truths; replicate n of every cast has the same truth",
        )
        parser.add_argument("--manifest", action="store_true", help=manifest_help)
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["attempts"] <= 1000:
            raise CommandError("--attempts must be from 1 to 1000", returncode=2)
        size = options["cast"], options["attempts"], options["seed"]
        try:
            experiments, given = create.get_experiments(options["experiment"]), get_run_options(options)
            terms = {"manifest": options["manifest"], "truths": options["truths"]}
            run = create.create_episode_run(experiments, *size, **terms, **given)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        self.follow_run(run, run.episodes.count(), options)
