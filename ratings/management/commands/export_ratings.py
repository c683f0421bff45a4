"""python manage.py export_ratings STUDY [--blinded] > ratings.csv"""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange import exports
from ratings.studies import SealedError, StudyError, lifecycle


class Command(BaseCommand):
    help = "Write a study's ratings as CSV to standard output, one row per rating."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("--blinded", action="store_true", help="leave the sealed columns empty")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lines = exports.export_csv_lines(lifecycle.get_study(options["study"]), options["blinded"])
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        try:
            for line in lines:
                self.stdout.write(line)
        except BrokenPipeError:  # the reader closed the pipe, as `| head` does
            # Otherwise Python reports the broken pipe again when it flushes standard output at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
