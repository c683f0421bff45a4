"""python manage.py run_episodes --experiment SLUG|all --cast NAME --attempts N [--seed S] [--truths SPLIT] [--manifest] [--wait]

With hidden steps: --hide N[,N...] [--draws D] [--mask-mode uniform|nested] [--help-mode text|prefix] [--mask-seed S]
With a cast of language models: [--prompts SET] [--max-cost USD] [--max-tokens N] [--max-minutes N]
"""

from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import HELP_MODES, MODES, Drawing
from simulation.lab.truths import truth_seeds
from simulation.management.command_options import RunCommand, get_run_options, integer_between
from simulation.runs import create, protocol_masks
from simulation.runs.protocol_masks import MaskOrder


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
        hide_help = "numbers of essential steps to hide; agents are shown the rest of the protocol, and the episodes are excluded from benchmarks"
        parser.add_argument("--hide", type=parse_numbers, metavar="N[,N...]", help=hide_help)
        parser.add_argument(
            "--draws",
            type=integer_between(1, protocol_masks.MAX_DRAWS),
            default=1,
            help="masks of each experiment for each number of hidden steps; fewer if fewer exist",
        )
        parser.add_argument(
            "--mask-mode",
            choices=MODES,
            default=MODES[0],
            help="nested: the masks of rising numbers contain each other",
        )
        parser.add_argument(
            "--help-mode",
            choices=HELP_MODES,
            default=HELP_MODES[0],
            help="prefix: the steps before the first hidden one are done for the agent",
        )
        parser.add_argument(
            "--mask-seed", type=integer_between(0, create.MAX_SEED), default=1, help="equal seeds give equal masks"
        )
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["attempts"] <= 1000:
            raise CommandError("--attempts must be from 1 to 1000", returncode=2)
        size = options["cast"], options["attempts"], options["seed"]
        try:
            experiments, given = create.get_experiments(options["experiment"]), get_run_options(options)
            terms = {"manifest": options["manifest"], "truths": options["truths"], "masks": build_mask_order(options)}
            run = create.create_episode_run(experiments, *size, **terms, **given)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        self.follow_run(run, run.episodes.count(), options)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Return numbers divided by commas. Raise ArgumentTypeError for anything else."""
    parse = integer_between(0, protocol_masks.MAX_HIDDEN)
    numbers = tuple(parse(part.strip()) for part in text.split(","))
    if len(set(numbers)) < len(numbers):
        raise ArgumentTypeError(f"{text!r} names a number twice")
    return numbers


def build_mask_order(options: Mapping[str, Any]) -> MaskOrder | None:
    """Return the masks that the options ask for, or None. Raise LabError for an option that needs --hide."""
    drawing = Drawing(options["draws"], options["mask_mode"], options["help_mode"], options["mask_seed"])
    if options["hide"] is None:
        if drawing != Drawing():
            raise LabError("--draws, --mask-mode, --help-mode and --mask-seed need --hide")
        return None
    return MaskOrder(options["hide"], drawing)
