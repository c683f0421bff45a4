"""python manage.py export_ratings STUDY [--blinded] > ratings.csv"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.exchange import exports
from ratings.management.input_files import add_study_argument, exit_with_2
from ratings.studies import SealedError, StudyError, lifecycle
from simulation.management.command_options import tolerate_closed_pipe
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Write a study's ratings as CSV to standard output, one row per rating."

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument("--blinded", action="store_true", help="leave the sealed columns empty")

    @exit_with_2(StudyError)
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lines = exports.export_csv_lines(lifecycle.get_study(options["study"]), options["blinded"])
        except SealedError as error:
            raise CommandError(f"{error}; until then use --blinded", returncode=2) from error
        with tolerate_closed_pipe(self.stdout):
            for line in lines:
                self.stdout.write_data(line)
