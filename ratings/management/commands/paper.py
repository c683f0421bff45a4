"""python manage.py paper [--max-cost USD] [--scripted] [--plan FILE] [--threads 2]"""

import time
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse

from ratings.paper import comparison, replicate
from ratings.paper.plan import PATH, Plan, PlanFileError, ReplicationNames, load_plan
from ratings.protocol import PlanError, ProtocolError
from ratings.raters import email_messages
from ratings.results.benchmarks.store import BenchmarkError
from ratings.results.paper_values import PaperValuesError, load_paper_values
from ratings.studies import StudyError
from simulation.casts import load_files
from simulation.lab.errors import LabError
from simulation.management import local_address, supervisor
from simulation.management.command_options import ProgressLine, integer_between, parse_money
from wetbench_site.safe_output import SafeCommand

EXPECTED_ERRORS = (LabError, StudyError, PlanError, BenchmarkError, PlanFileError, ProtocolError, PaperValuesError)
INTERRUPTED_STATUS = 130  # exit status of a shell for a program that Ctrl-C ended


class Command(SafeCommand):
    help = (
        "Replicate the WetBench paper: its runs, twins, both studies with simulated raters and its benchmark; then write "
        "paper.json. Without API keys the replies are scripted. A second start continues where the first one stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--max-cost", type=parse_money, help="limit in US dollars for all runs together; required with API keys"
        )
        parser.add_argument("--scripted", action="store_true", help="use scripted replies although API keys are set")
        parser.add_argument(
            "--plan", type=Path, default=PATH, help="file of study sizes instead of fixtures/paper_study.json"
        )
        parser.add_argument("--threads", type=integer_between(1, 400), default=4, help="threads that call models")

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor.enable_line_buffering()
        try:
            self._replicate_paper(options)
        except KeyboardInterrupt:
            below = "\n" if self.stderr.isatty() else ""  # starts a new line below the progress line
            self.stderr.write(f"{below}Stopped. Run the same command to continue.")
            raise SystemExit(INTERRUPTED_STATUS) from None

    def _replicate_paper(self, options: dict[str, Any]) -> None:
        started = time.monotonic()
        try:
            plan = load_plan(options["plan"])
            load_paper_values()  # reports errors in the file before anything costs time or money
            call_command("migrate", verbosity=0)
            load_files.load_lab(settings.FIXTURES_DIR)
            scripted = self._decide_if_scripted(plan, options["scripted"])
            with replicate.scripted_replies(plan) if scripted else nullcontext():
                maker = replicate.Replicator(
                    plan, scripted, self.stdout.write, ProgressLine, options["threads"],
                    None if scripted else options["max_cost"],
                )  # fmt: skip
                maker.check_plan()
                if not scripted:
                    self._print_costs(maker, options["max_cost"])
                maker.run_replication()
            lines = comparison.compare_numbers(comparison.find_results(ReplicationNames(scripted)))
        except EXPECTED_ERRORS as error:
            raise CommandError(str(error), returncode=2) from error
        path = self._choose_file(scripted)
        comparison.save_json(lines, path)
        page = email_messages.make_url_builder(site=local_address.read_address())(reverse("ratings:paper"))
        page += "?replies=scripted" if scripted else ""
        seconds = f"{time.monotonic() - started:.0f} s"
        self.stdout.write(f"Wrote {path} ({seconds}). The page “Paper and ours” shows the same: {page}")
        self.stdout.write(
            "To see it, run `make serve` and sign in with a link from `.venv/bin/python manage.py sign_in_link admin`"
        )
        self.stdout.write(comparison.summarise_missing(lines))

    def _choose_file(self, scripted: bool) -> Path:
        """Return the output file. Scripted replies do not overwrite the file of a replication by models."""
        path = Path(settings.VAR_DIR) / "paper.json"
        if not scripted or not path.exists() or comparison.find_results(ReplicationNames(False)).is_empty:
            return path
        self.stdout.write(f"{path} has the replication by models and is not changed")
        return path.with_name("scripted-paper.json")

    def _decide_if_scripted(self, plan: Plan, requested: bool) -> bool:
        """Return whether replies are scripted: on request, or if no key is set."""
        needed, missing = replicate.find_missing_keys(plan)
        if not requested and missing and len(missing) < len(needed):
            problem = f"Some keys are set, and these are missing: {', '.join(missing)}"
            raise CommandError(f"{problem}. Set them too, or use --scripted", returncode=2)
        scripted = requested or bool(missing)
        if scripted:
            self.stdout.write(
                "The replies are scripted: a local server answers instead of the models. The numbers show that everything "
                "works; they are not results of any model. The raters are simulated."
            )
        return scripted

    def _print_costs(self, maker: replicate.Replicator, max_cost: Decimal | None) -> None:
        """Print retired models and the maximum cost of each run. Raises CommandError without a limit or a price."""
        for retired in maker.find_retired():
            self.stdout.write(retired.message)
        costs = maker.estimate_costs()
        for cost in costs:
            amount = f"${cost.worst:,.2f}" if cost.worst is not None else f"no price of {'; '.join(cost.unpriced)}"
            self.stdout.write(f"  at most {amount}: {cost.part}")
        if any(cost.worst is None for cost in costs):
            raise CommandError(
                "Without prices the limit cannot be enforced: add prices of these models (docs/models.md)", returncode=2
            )
        total = sum((cost.worst or Decimal(0) for cost in costs), start=Decimal(0))
        self.stdout.write(f"In total at most ${total:,.2f}; raters are simulated and cost nothing")
        if max_cost is None:
            raise CommandError(
                "Nothing was started. Set a cost limit: make paper MAX_COST=100. The runs stop before they exceed it, "
                "and the same command with a larger limit continues",
                returncode=2,
            )
