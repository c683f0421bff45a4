"""python manage.py simulate_raters STUDY --raters N --seed S"""

from typing import Any

from django.core.management.base import CommandParser

from ratings.management.input_files import add_study_argument, exit_with_2
from ratings.protocol import PlanError
from ratings.raters import simulated_raters
from ratings.studies import StudyError, lifecycle
from simulation.management.command_options import integer_between
from simulation.runs.create import MAX_SEED
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Fill open rater places of a study with simulated raters, who rate all their items."

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument("--raters", type=int, required=True)
        parser.add_argument("--sensitivity-obvious", type=float, default=0.9, help="share of obvious errors noticed")
        parser.add_argument("--sensitivity-subtle", type=float, default=0.3, help="share of subtle errors noticed")
        parser.add_argument(
            "--specificity", type=float, default=simulated_raters.SPECIFICITY, help="share of genuine items accepted"
        )
        parser.add_argument(
            "--agreement", type=float, default=simulated_raters.AGREEMENT,
            help="agreement with the classifier in evidence studies",
        )  # fmt: skip
        parser.add_argument(
            "--located", type=float, default=simulated_raters.LOCATED,
            help="share of noticed errors whose row is marked, in studies with marking",
        )  # fmt: skip
        parser.add_argument("--seed", type=integer_between(0, MAX_SEED), required=True)

    @exit_with_2(StudyError, PlanError, ValueError)
    def handle(self, *args: Any, **options: Any) -> None:
        shares = [options[name] for name in ("sensitivity_obvious", "sensitivity_subtle", "specificity")]
        more = {name: options[name] for name in ("agreement", "located", "seed")}
        study = lifecycle.get_study(options["study"])
        result = simulated_raters.simulate_raters(
            study, options["raters"], *shares, **more, progress=self._report_progress
        )
        if result.revoked:
            self.stdout.write(f"Links revoked, never opened: {', '.join(result.revoked)}")
        if result.replanned:
            self.stdout.write(f"Assignments replanned for {len(result.raters)} raters")
        self.stdout.write(
            f"{len(result.raters)} simulated raters ({', '.join(result.raters)}) gave {result.ratings} ratings"
        )

    def _report_progress(self, done: int, total: int) -> None:
        if done == total or done % 50 == 0:
            self.stderr.write(f"{done} of {total} ratings")
