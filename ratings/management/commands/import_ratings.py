"""python manage.py import_ratings STUDY FILE.csv [--dry-run]"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange.imports import ImportRefused, rating_imports
from ratings.management.upload import opened, plain
from ratings.stats.nouns import counted
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
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
            study = lifecycle.find(options["study"])
            import_file = rating_imports.check if options["dry_run"] else rating_imports.take
            with opened(options["file"]) as stream:
                checked = import_file(study, stream)
            if checked.problems:
                raise ImportRefused(checked.problems)
        except ImportRefused as refused:
            for problem in refused.problems:
                self.stderr.write(plain(str(problem)))
            raise CommandError(
                f"{counted(len(refused.problems), 'problem')}; nothing was imported", returncode=1
            ) from refused
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        action = "would be imported" if options["dry_run"] else "imported"
        raters = len(checked.known_raters) + len(checked.new_raters)
        ratings, items = counted(len(checked.rows), "rating"), counted(checked.items, "item")
        left_out = (
            f" {counted(checked.left_out, 'row')} left out: the study of origin does not count them."
            if checked.left_out
            else ""
        )
        unnamed = (
            f" {counted(checked.nameless, 'row')} left out: imported ratings, whose items a blinded export does not identify."
            if checked.nameless
            else ""
        )
        self.stdout.write(f"{ratings} of {items} by {counted(raters, 'rater')} {action}.{left_out}{unnamed}")
