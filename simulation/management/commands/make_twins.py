"""python manage.py make_twins --experiment SLUG|all [--error obvious|subtle|both|none] [--per-transition 1] [--cast NAME]
    [--sample N --seed S] [--sizes 10-40]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.lab.deviations import DEFAULT_SIZES, DETECTION_LIMIT, parse_sizes
from simulation.lab.errors import LabError
from simulation.management.command_options import RunCommand, get_run_options, integer_between
from simulation.runs import RunProgress, create, list_accepted_steps


class Command(RunCommand):
    help = "Queue twins with planted errors of all accepted transitions of ended episodes."
    noun = "twin"
    waiting_help = "wait for the twins, and create them here if no worker is running"
    threads_help = "threads if the twins are created here"

    def add_arguments(self, parser: CommandParser) -> None:
        error_help = "obvious is Error Type 1; none: another model's own answer"
        sample_help = "create twins of this many steps, drawn by the seed"
        sizes_help = (
            "range of the deviations of subtle numeric errors that rules plant, default 10-40; those below"
            f" {DETECTION_LIMIT:.0%}".replace("%", "%%")
            + " form a separate stratum"
        )
        seed_help = "seed of the sample and the errors; without it, random"
        parser.add_argument("--experiment", default="all", help="a slug, or all")
        parser.add_argument("--error", choices=sorted(create.PERTURBATIONS), default="both", help=error_help)
        parser.add_argument("--per-transition", type=int, default=1, help="twins of each kind per transition")
        parser.add_argument("--cast", default="offline", help="cast that plants the error")
        parser.add_argument("--sample", type=integer_between(1, 1_000_000), help=sample_help)
        parser.add_argument("--seed", type=int, default=None, help=seed_help)
        parser.add_argument("--sizes", default=None, metavar="PERCENT-PERCENT", help=sizes_help)
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["per_transition"] <= 20:
            raise CommandError("--per-transition must be from 1 to 20", returncode=2)
        size = options["cast"], options["per_transition"], options["seed"]
        try:
            steps = list_accepted_steps(create.get_experiments(options["experiment"]))
            if not steps.exists():
                experiment_name = "any experiment" if options["experiment"] == "all" else options["experiment"]
                raise LabError(f"No accepted step of {experiment_name} has ended yet: run `run_episodes --wait` first")
            errors, given = create.PERTURBATIONS[options["error"]], get_run_options(options)
            sizes = parse_sizes(options["sizes"]) if options["sizes"] else DEFAULT_SIZES
            run = create.create_twin_run(steps, errors, *size, sample=options["sample"], sizes=sizes, **given)
        except create.TwinsExistError as error:
            self.stdout.write(str(error))
            return
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        self.follow_run(run, run.twins.count(), options)

    def print_endings(self, progress: RunProgress) -> None:
        if unsuited := progress.by_status.get("unsuited"):
            self.stdout.write(f"{unsuited} of {progress.total} transitions have no error of the requested type")
        if unusable := progress.by_status.get("unusable"):
            self.stdout.write(f"{unusable} of {progress.total} twins are unusable: no difference, or no reason given")
