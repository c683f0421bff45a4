"""python manage.py import_items STUDY FILE.jsonl [--dry-run]"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.exchange.imports import ImportRefused, item_imports
from ratings.exchange.imports.item_imports import CheckedItems
from ratings.management.input_files import escape_for_terminal, list_problems, open_input
from ratings.protocol import PlanError
from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count


class Command(SafeCommand):
    help = "Import items into a study, one JSON object a line. If any line is invalid, nothing is imported and all problems are listed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("file", metavar="FILE", help="a JSONL file, or - for standard input; docs/imports.md")
        parser.add_argument("--dry-run", action="store_true", help="only report what would be imported")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            study = lifecycle.get_study(options["study"])
            with open_input(options["file"]) as stream:
                read_file = item_imports.check_file if options["dry_run"] else item_imports.import_file
                checked = read_file(study, stream)
            if checked.problems:
                raise ImportRefused(checked.problems)
        except ImportRefused as refused:
            outcome = f"nothing was imported from {escape_for_terminal(options['file'])}"
            raise list_problems(self.stderr, refused.problems, outcome) from refused
        except (StudyError, PlanError) as error:
            raise CommandError(str(error), returncode=2) from error
        self._print_summary(checked, options["dry_run"])

    def _print_summary(self, checked: CheckedItems, is_dry_run: bool) -> None:
        for label, _, reference, truth, count in checked.count_by_source:
            truth_text = {True: "right", False: "wrong", None: "truth unknown"}[truth]
            self.stdout.write(
                f"{count:>6}  {escape_for_terminal(label)}, {reference or 'reference unknown'}, {truth_text}"
            )
        if checked.n_plain:
            self.stdout.write(
                f"{checked.n_plain} will be shown as plain lists, because their materials before and after cannot be matched."
            )
        if checked.n_quarantined:
            self.stdout.write(
                f"{checked.n_quarantined} contain words that might reveal their source and are in quarantine."
            )
            for line in checked.quarantine_reasons:
                self.stdout.write(f"  {escape_for_terminal(str(line))}")
        self.stdout.write(
            f"{format_count(len(checked.items), 'item')} {'would be imported' if is_dry_run else 'imported'}."
        )
