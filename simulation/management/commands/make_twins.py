"""python manage.py make_twins --experiment SLUG|all [--error obvious|subtle|both|none] [--per-transition 1] [--cast NAME]
    [--sample N --seed S]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Perturbation
from simulation.management.command_options import (
    ProgressLine,
    add_run_options,
    get_run_options,
    integer_between,
    print_failures,
    print_usage,
)
from simulation.models import Episode, Run, Transition
from simulation.runs import create
from simulation.runs.create import TwinsExistError

ERRORS: dict[str, list[str]] = {
    "obvious": [Perturbation.OBVIOUS],
    "subtle": [Perturbation.SUBTLE],
    "both": [Perturbation.OBVIOUS, Perturbation.SUBTLE],
    "none": [Perturbation.NONE],
}


class Command(BaseCommand):
    help = "Queue twins with planted errors of all accepted transitions of ended episodes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", default="all", help="a slug, or all")
        parser.add_argument(
            "--error",
            choices=sorted(ERRORS),
            default="both",
            help="obvious is Error Type 1; none: another model's own answer",
        )
        parser.add_argument("--per-transition", type=int, default=1, help="twins of each kind per transition")
        parser.add_argument("--cast", default="offline", help="cast that plants the error")
        parser.add_argument(
            "--sample", type=integer_between(1, 1_000_000), help="create twins of this many steps, drawn by the seed"
        )
        parser.add_argument(
            "--seed", type=int, default=None, help="seed of the sample and the errors; without it, random"
        )
        add_run_options(parser)
        parser.add_argument(
            "--wait", action="store_true", help="wait for the twins, and create them here if no worker is running"
        )
        parser.add_argument(
            "--threads", type=integer_between(1, 400), default=2, help="threads if the twins are created here"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["per_transition"] <= 20:
            raise CommandError("--per-transition must be from 1 to 20", returncode=2)
        try:
            experiments = create.get_experiments(options["experiment"])
            steps = Transition.objects.filter(
                accepted=True,
                episode__experiment__in=experiments,
                episode__counts=True,
                episode__status__in=Episode.ENDED,
            )
            if not steps.exists():
                experiment_name = "any experiment" if options["experiment"] == "all" else options["experiment"]
                raise LabError(f"No accepted step of {experiment_name} has ended yet: run `run_episodes --wait` first")
            run = create.create_twin_run(
                steps,
                ERRORS[options["error"]],
                options["cast"],
                options["per_transition"],
                options["seed"],
                sample=options["sample"],
                **get_run_options(options),
            )
        except TwinsExistError as error:
            self.stdout.write(str(error))
            return
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        number = run.twins.count()
        self.stdout.write(f"run {run.code}: {number} twin{'s' * (number != 1)} queued, seed {run.seed}")
        if options["wait"]:
            self._wait_for_twins(run, options["threads"])
        elif not create.has_live_worker():
            self.stdout.write("No worker is running: start one with `make worker`, or use --wait.")

    def _wait_for_twins(self, run: Run, threads: int) -> None:
        progress = workers.wait_for_run(run, threads, ProgressLine("twins"))
        if unsuited := progress.by_status.get("unsuited"):
            self.stdout.write(f"{unsuited} of {progress.total} transitions have no error of the requested type")
        if unusable := progress.by_status.get("unusable"):
            self.stdout.write(f"{unusable} of {progress.total} twins are unusable: no difference, or no reason given")
        print_usage(run, self.stdout)
        print_failures(run, self.stderr)
        if failed := progress.by_status.get("failed", 0) + progress.by_status.get("blocked", 0):
            raise CommandError(f"{failed} of {progress.total} twins failed or are blocked")
