"""python manage.py run_code --task SLUG|all --n LIST --per-n K --cast NAME --attempts N [--seed S] [--wait]

With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

import json
from argparse import ArgumentTypeError
from collections import Counter
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.code_runs import conditions, creation
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, RunCommand, get_run_options, integer_between
from simulation.management.task_options import parse_numbers
from simulation.models import Grading, Run
from simulation.replication.tasks.mask_draws import DEFAULT_SEED, MAX_SEED, MODES
from simulation.runs import RunProgress, create

DEFAULTS = conditions.Conditions()


class Command(RunCommand):
    help = "Queue code episodes: agents fill in hidden functions of replication tasks. With --wait, wait until they have ended."
    noun = "code episode"
    waiting_help = "wait for the code episodes, and run them here if no worker is running"
    threads_help = "threads if the code episodes run here"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--task", default="all", help="a slug, several separated by commas, or all")
        parser.add_argument(
            "--n", type=parse_numbers, default=[1], metavar="LIST", help="numbers of hidden functions: 1, 1,2,4 or 0-8"
        )
        parser.add_argument("--per-n", type=integer_between(1, 5000), default=1, help="masks of each task and number")
        parser.add_argument("--mode", choices=MODES, default="uniform", help="how the masks are drawn")
        parser.add_argument(
            "--mask-seed", type=integer_between(0, MAX_SEED), default=DEFAULT_SEED, help="seed of the draw"
        )
        parser.add_argument("--cast", default="offline-oracle", help="code cast that runs the episodes")
        parser.add_argument("--attempts", type=integer_between(1, 1000), default=1, help="replicates of each mask")
        parser.add_argument(
            "--seed",
            type=integer_between(0, create.MAX_SEED),
            default=None,
            help="seed; equal seeds give equal episodes of rule-based casts",
        )
        for name, choices in conditions.CHOICES.items():
            default = getattr(DEFAULTS, name)
            parser.add_argument(f"--{name}", choices=choices, default=default, help=_HELP[name])
        parser.add_argument("--steps", type=integer_between(1, 1000), default=DEFAULTS.steps, help=_HELP["steps"])
        parser.add_argument("--seconds", type=float, default=DEFAULTS.seconds, help=_HELP["seconds"])
        parser.add_argument("--cost", type=parse_cost, default=DEFAULTS.cost, help=_HELP["cost"])
        parser.add_argument(
            "--validate", action="store_true", help="first validate masks that were not validated here, in sandboxes"
        )
        parser.add_argument("--json", action="store_true", help="print the run, its endings and outcomes as JSON")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            order = creation.CodeOrder(
                options["task"].split(","),
                options["cast"],
                options["n"],
                options["per_n"],
                options["mode"],
                options["mask_seed"],
                options["attempts"],
                options["seed"],
                conditions.read_conditions({name: options[name] for name in DEFAULTS.to_json()}),
            )
            run = creation.create_code_run(
                order,
                # A command with --wait runs sandboxes itself, so it can validate as well.
                validate=options["validate"] or options["wait"],
                report_progress=ProgressLine("run_code").show_progress,
                **get_run_options(options),
            )
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            self.follow_as_json(run, options)
        else:
            self.follow_run(run, run.code_episodes.count(), options)
            if options["wait"]:
                self.print_outcomes(run)

    def follow_as_json(self, run: Run, options: dict[str, Any]) -> None:
        """Follow the run as without --json, but print one JSON object at its end instead of text."""
        text = self.stdout
        self.stdout = _Silence()  # type: ignore[assignment]  # follow_run writes for people
        failure: CommandError | None = None
        try:
            self.follow_run(run, run.code_episodes.count(), options)
        except CommandError as error:
            failure = error
        self.stdout = text
        statuses = Counter(run.code_episodes.order_by().values_list("status", flat=True))
        result = {"run": str(run.code), "seed": run.seed, "episodes": statuses.total(), "statuses": dict(statuses)}
        self.stdout.write(json.dumps({**result, "outcomes": dict(count_outcomes(run))}))
        if failure:
            raise failure

    def print_endings(self, progress: RunProgress) -> None:
        endings = {name: n for name, n in sorted(progress.by_status.items()) if name not in ("failed", "blocked")}
        self.stdout.write("endings: " + ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in endings.items()))

    def print_outcomes(self, run: Run) -> None:
        outcomes = count_outcomes(run)
        self.stdout.write(
            "outcomes: " + ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in outcomes.most_common())
        )
        if not run.setup_sha256:
            self.stdout.write(
                "The agents are rule-based, and most have the answer key: these numbers do not measure any language model."
            )


_HELP = {
    "paper": "what agents see of the paper",
    "code": "what prompts of language models show of the code at the start; by default lexical for the scaffold fixed, otherwise none",
    "docs": "whether hidden functions keep their docstrings",
    "profile": "size of the experiments",
    "steps": "limit of steps of an episode",
    "seconds": "limit of an episode's sandbox time, in seconds",
    "cost": "limit of the cost of an episode in US dollars, or none",
}


def count_outcomes(run: Run) -> Counter[str]:
    return Counter(Grading.objects.filter(episode__run=run).order_by().values_list("outcome", flat=True))


def parse_cost(text: str) -> float | None:
    """Return an amount of US dollars, or None for "none". Raise ArgumentTypeError for anything else."""
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither an amount of US dollars nor none") from None


class _Silence:
    def write(self, *args: Any, **options: Any) -> None:
        """Write nothing."""
