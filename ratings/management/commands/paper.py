"""python manage.py paper [--max-cost USD] [--scripted] [--plan FILE] [--threads 2]"""

import time
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from ratings.paper import cells, making
from ratings.paper.plan import PATH, Names, Plan, PlanFileError, read_plan
from ratings.protocol import PlanError, ProtocolError
from ratings.raters import mailing
from ratings.results.benchmarks.freezing import BenchmarkError
from ratings.results.paper_values import PaperValuesError, load_paper_values
from ratings.studies import StudyError
from simulation.casts import fixtures
from simulation.lab.errors import LabError
from simulation.management import supervising
from simulation.management.arguments import between
from simulation.management.ordering import money
from simulation.management.progress import ProgressLine

REFUSED = (LabError, StudyError, PlanError, BenchmarkError, PlanFileError, ProtocolError, PaperValuesError)
INTERRUPTED = 130  # exit status of a shell for a program that Ctrl-C ended


class Command(BaseCommand):
    help = (
        "Replicate the WetBench paper: its runs, twins, both studies with simulated raters and its benchmark; then write "
        "paper.json. Without API keys the replies are scripted. A second start continues where the first one stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--max-cost", type=money, help="limit in US dollars for all runs together; required with API keys"
        )
        parser.add_argument("--scripted", action="store_true", help="use scripted replies although API keys are set")
        parser.add_argument(
            "--plan", type=Path, default=PATH, help="file of study sizes instead of fixtures/paper_study.json"
        )
        parser.add_argument("--threads", type=between(1, 400), default=4, help="threads that call models")

    def handle(self, *args: Any, **options: Any) -> None:
        supervising.speak_line_by_line()
        try:
            self._replicate(options)
        except KeyboardInterrupt:
            below = "\n" if self.stderr.isatty() else ""  # after the progress line
            self.stderr.write(f"{below}Stopped. Run the same command to continue.")
            raise SystemExit(INTERRUPTED) from None

    def _replicate(self, options: dict[str, Any]) -> None:
        started = time.monotonic()
        try:
            plan = read_plan(options["plan"])
            load_paper_values()  # reports errors in the file before anything costs time or money
            call_command("migrate", verbosity=0)
            fixtures.load_lab(settings.FIXTURES_DIR)
            scripted = self._is_scripted(plan, options["scripted"])
            with making.scripted_replies(plan) if scripted else nullcontext():
                maker = making.Maker(
                    plan, scripted, self.stdout.write, ProgressLine, options["threads"],
                    None if scripted else options["max_cost"],
                )  # fmt: skip
                maker.check()
                if not scripted:
                    self._show_costs(maker, options["max_cost"])
                maker.make()
            lines = cells.build_lines(cells.find_parts(Names(scripted)))
        except REFUSED as error:
            raise CommandError(str(error), returncode=2) from error
        path = self._choose_file(scripted)
        cells.write_json(lines, path)
        page = mailing.address_of(site="http://127.0.0.1:8000")(reverse("ratings:paper"))
        self.stdout.write(
            f"Wrote {path} ({time.monotonic() - started:.0f} s). The page “Paper and ours” shows the same: "
            f"{page}{'?replies=scripted' if scripted else ''}"
        )
        self.stdout.write(
            "To see it, run `make serve` and sign in with a link from `.venv/bin/python manage.py sign_in_link admin`"
        )
        self.stdout.write(cells.summarise(lines))

    def _choose_file(self, scripted: bool) -> Path:
        """Return the output file. Scripted replies do not overwrite the file of a replication by models."""
        path = Path(settings.VAR_DIR) / "paper.json"
        if not scripted or not path.exists() or cells.find_parts(Names(False)).is_empty:
            return path
        self.stdout.write(f"{path} has the replication by models and is not changed")
        return path.with_name("scripted-paper.json")

    def _is_scripted(self, plan: Plan, asked: bool) -> bool:
        """Return whether replies are scripted: on request, or if no key is set."""
        needed, missing = making.missing_keys(plan)
        if not asked and missing and len(missing) < len(needed):
            raise CommandError(
                f"Some keys are set, and these are missing: {', '.join(missing)}. Set them too, or use --scripted",
                returncode=2,
            )
        scripted = asked or bool(missing)
        if scripted:
            self.stdout.write(
                "The replies are scripted: a local server answers instead of the models. The numbers show that everything "
                "works; they are not results of any model. The raters are simulated."
            )
        return scripted

    def _show_costs(self, maker: making.Maker, max_cost: Decimal | None) -> None:
        """Print which models are retired, and the maximum cost of each run.

        Raises CommandError without a limit, or if a model has no price.
        """
        for retired in maker.find_retired():
            self.stdout.write(retired.said)
        costs = maker.costs()
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
