"""python manage.py import_ratings STUDY FILE.csv [--dry-run]"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.exchange.imports import ImportRefused, rating_imports
from ratings.management.input_files import list_problems, open_input
from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count


class Command(SafeCommand):
    help = (
        "Import ratings into a study: a CSV with the columns item, rater, verdict, confidence and optionally "
        "submitted_at, seconds, note, simulated. If any row is invalid, nothing is imported and all problems are listed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("file", metavar="FILE", help="a CSV file, or - for standard input")
        parser.add_argument("--dry-run", action="store_true", help="only report what would be imported")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            study = lifecycle.get_study(options["study"])
            import_file = rating_imports.check_file if options["dry_run"] else rating_imports.import_file
            with open_input(options["file"]) as stream:
                checked = import_file(study, stream)
            if checked.problems:
                raise ImportRefused(checked.problems)
        except ImportRefused as refused:
            raise list_problems(self.stderr, refused.problems, "nothing was imported") from refused
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        action = "would be imported" if options["dry_run"] else "imported"
        raters = len(checked.known_raters) + len(checked.new_raters)
        ratings, items = format_count(len(checked.rows), "rating"), format_count(checked.items, "item")
        left_out = (
            f" {format_count(checked.left_out, 'row')} left out: the study of origin does not count them."
            if checked.left_out
            else ""
        )
        unnamed = (
            f" {format_count(checked.nameless, 'row')} left out: imported ratings, whose items a blinded export does not identify."
            if checked.nameless
            else ""
        )
        self.stdout.write(f"{ratings} of {items} by {format_count(raters, 'rater')} {action}.{left_out}{unnamed}")
