"""python manage.py lab_report [--experiment SLUG ...] [--seed N] [--variants] [--masks] [--json]

With [--seeds N] [--truths SPLIT] [--processes N]: every reference protocol with the truths of N seeds instead.
"""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation import lab_report
from simulation.lab.errors import LabError
from simulation.lab.truths import truth_seeds
from simulation.lab_report import protocol_masks, truth_checks
from simulation.management.command_options import ProgressLine, integer_between
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = (
        "Report what can be simulated, and check that every reference protocol is sufficient, that none of its parts can be "
        "omitted, and that its variants are refused for the reason that they name. Reads the data files, not the database. Exits with 1 if there are faults."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--experiment", action="append", default=[], help="only this slug; may be repeated")
        parser.add_argument("--seed", type=int, default=1, help="seed of episodes and noise")
        parser.add_argument(
            "--variants", action="store_true", help="print only the tables of variants and alternatives"
        )
        parser.add_argument(
            "--masks",
            action="store_true",
            help="instead, count the steps of every reference protocol without which the record is insufficient",
        )
        parser.add_argument(
            "--seeds",
            type=integer_between(1, 100_000),
            help="instead, run every reference protocol with the truths of this many seeds",
        )
        splits = tuple(truth_seeds.SPLITS)
        parser.add_argument("--truths", choices=splits, default=truth_seeds.TRAIN, help="the split of these seeds")
        parser.add_argument(
            "--processes", type=integer_between(1, 64), default=1, help="number of processes that run them"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
        parser.add_argument("--directory", type=Path, default=settings.FIXTURES_DIR, help="folder of the data files")

    def handle(self, *args: Any, **options: Any) -> None:
        progress = ProgressLine("lab_report")
        if options["seeds"]:
            self.report_truths(progress, options)
            return
        if options["masks"]:
            self.report_masks(progress, options)
            return
        try:
            result = lab_report.build_report(
                options["directory"], options["seed"], options["experiment"], progress.show_progress
            )
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        progress.show_progress(f"checked {len(result.protocol_checks)} experiments", last=True)
        if options["json"]:
            self.stdout.write(json.dumps(lab_report.report_to_json(result), ensure_ascii=False, indent=1))
        else:
            text = lab_report.format_variants(result) if options["variants"] else lab_report.format_report(result)
            self.stdout.write(text)
        if result.all_faults:
            raise CommandError(f"{len(result.all_faults)} faults", returncode=1)

    def report_truths(self, progress: ProgressLine, options: Any) -> None:
        """Print the table of reference protocols with drawn truths. Exit with 1 if one is not VALID."""
        size = options["truths"], options["seeds"], options["experiment"], options["processes"]
        try:
            checks = truth_checks.check_all_truths(options["directory"], *size, progress.show_progress)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        progress.show_progress(f"checked {len(checks)} experiments", last=True)
        if options["json"]:
            self.stdout.write(json.dumps([check.to_dict() for check in checks], ensure_ascii=False, indent=1))
        else:
            headings = ("experiment", "drawn values", "seeds", "different truths", "VALID")
            self.stdout.write(lab_report.format_table(headings, truth_checks.list_rows(checks)))
            self.stdout.write("\n".join(truth_checks.list_fault_lines(checks)))
        if count := sum(len(check.faults) for check in checks):
            raise CommandError(f"{count} runs that are not VALID or have a rejected step", returncode=1)

    def report_masks(self, progress: ProgressLine, options: Any) -> None:
        """Print the number of steps and of essential steps of each protocol. Exit with 1 if one has too few."""
        place = options["directory"], options["experiment"], options["seed"]
        try:
            counted = protocol_masks.count_all(*place, progress.show_progress)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        progress.show_progress(f"checked {len(counted)} experiments", last=True)
        if options["json"]:
            self.stdout.write(json.dumps([one.to_dict() for one in counted], indent=1))
        else:
            headings = ("experiment", "steps", "essential", "numbers of the essential steps")
            self.stdout.write(lab_report.format_table(headings, protocol_masks.list_rows(counted)))
        if faults := [one.fault for one in counted if one.fault]:
            raise CommandError("; ".join(faults), returncode=1)
