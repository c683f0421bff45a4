"""python manage.py masking_curve RUN [RUN ...] [--json]"""

import json
from collections import defaultdict
from typing import Any, NamedTuple

from django.core.management.base import CommandError, CommandParser

from ratings.stats.proportions import Rate, estimate_rate
from simulation.management.command_options import get_run
from simulation.models import Episode
from wetbench_site.safe_output import SafeCommand

ALL = "all"


class CurvePoint(NamedTuple):
    """The share of sufficient records among the ended episodes of a cast with one number of hidden steps and one kind of help."""

    cast: str
    help: str
    experiment: str
    hidden: int
    rate: Rate

    def to_dict(self) -> dict[str, Any]:
        rate = self.rate
        shares = {"sufficient": rate.k, "episodes": rate.n, "share": rate.value, "low": rate.low, "high": rate.high}
        names = ("cast", "help", "experiment", "hidden")
        return {name: getattr(self, name) for name in names} | shares


class Command(SafeCommand):
    help = (
        "Print the share of sufficient records by the number of hidden steps, for each experiment of the runs and for all, with "
        "Wilson intervals, which take attempts as independent: those of all experiments are too narrow for new experiments. "
        "Episodes that were stopped or failed are left out; all others count, submitted or not."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="+", metavar="RUN", help="codes of runs with hidden steps")
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = [get_run(code) for code in options["runs"]]
        points = compute_curve([run.pk for run in runs])
        if not points:
            raise CommandError("no episode with hidden steps has ended in these runs", returncode=2)
        if options["json"]:
            self.stdout.write(json.dumps([point.to_dict() for point in points], indent=1))
            return
        self.stdout.write(
            f"{'experiment':40} {'cast':16} {'help':7} {'hidden':>6} {'sufficient':>10}  share, 95 % interval (Wilson)"
        )
        for cast, help_mode, experiment, hidden, rate in points:
            self.stdout.write(
                f"{experiment:40} {cast:16} {help_mode:7} {hidden:6} {f'{rate.k}/{rate.n}':>10}  "
                f"{rate.value:.3f} ({rate.low:.3f} to {rate.high:.3f})"
            )


def compute_curve(runs: list[int]) -> list[CurvePoint]:
    """Return the points of all episodes of these runs (primary keys) that ended by the rules: of each experiment, then of all."""
    rows = Episode.objects.filter(run__in=runs, counts=True, status__in=Episode.ENDED).exclude(mask_key="")
    rows = rows.exclude(status__in=("cancelled", "failed"))
    answers: dict[tuple[str, str, str, int], list[bool]] = defaultdict(list)
    # Only a submitted episode has a verdict; every other end leaves the goal unreached.
    sufficient = set(rows.filter(reviews__primary=True, reviews__sufficient=True).values_list("pk", flat=True))
    for pk, cast, mask, slug in rows.values_list("pk", "cast", "mask", "experiment__slug"):
        for experiment in (slug, ALL):
            answers[cast, mask["help"], experiment, mask["n"]].append(pk in sufficient)
    order = sorted(answers, key=lambda key: (key[0], key[1], key[2] == ALL, key[2], key[3]))
    return [CurvePoint(*key, estimate_rate(answers[key])) for key in order]
