"""python manage.py import_items STUDY FILE.jsonl [--dry-run]"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange.imports import ImportRefused, item_imports
from ratings.exchange.imports.item_imports import Checked
from ratings.management.upload import opened, plain
from ratings.protocol import PlanError
from ratings.stats.nouns import counted
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Import items into a study, one JSON object a line. If any line is invalid, nothing is imported and all problems are listed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("file", metavar="FILE", help="a JSONL file, or - for standard input; docs/imports.md")
        parser.add_argument("--dry-run", action="store_true", help="only report what would be imported")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            study = lifecycle.find(options["study"])
            with opened(options["file"]) as stream:
                checked = item_imports.check(study, stream) if options["dry_run"] else item_imports.take(study, stream)
            if checked.problems:
                raise ImportRefused(checked.problems)
        except ImportRefused as refused:
            for problem in refused.problems:
                self.stderr.write(plain(str(problem)))
            raise CommandError(
                f"{counted(len(refused.problems), 'problem')}; nothing was imported", returncode=1
            ) from refused
        except (StudyError, PlanError) as error:
            raise CommandError(str(error), returncode=2) from error
        self._tell(checked, options["dry_run"])

    def _tell(self, checked: Checked, dry: bool) -> None:
        for label, _, reference, truth, count in checked.sources:
            truth_text = {True: "right", False: "wrong", None: "truth unknown"}[truth]
            self.stdout.write(f"{count:>6}  {plain(label)}, {reference or 'reference unknown'}, {truth_text}")
        if checked.plain:
            self.stdout.write(
                f"{checked.plain} will be shown as plain lists, because their materials before and after cannot be matched."
            )
        if checked.held:
            self.stdout.write(f"{checked.held} contain words that might reveal their source and are in quarantine.")
            for line in checked.held_lines:
                self.stdout.write(f"  {plain(str(line))}")
        self.stdout.write(f"{counted(len(checked.items), 'item')} {'would be imported' if dry else 'imported'}.")
