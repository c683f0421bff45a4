"""What the commands that compute statistics share: their options, and output as text, CSV or JSON."""

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ratings.exchange import exports, long_tables
from ratings.management.input_files import list_problems, open_input
from ratings.results.rating_rows import format_source_name
from wetbench_site.safe_output import SafeCommand

MAX_PROBLEMS_SHOWN = 50


class StatisticsCommand(SafeCommand):
    """A command that computes statistics of a file without a database. Its examples are printed below the help."""

    requires_system_checks = []
    examples: Sequence[str] = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # Django's formatter would join the lines of the examples.
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        lines = ["examples:", *(f"  manage.py {example}" for example in self.examples)]
        return super().create_parser(prog_name, subcommand, epilog="\n".join(lines), **kwargs)

    def add_format_options(self, parser: CommandParser, *, has_text: bool = True) -> None:
        """Add --json and, if the default output is text, --csv."""
        formats = parser.add_mutually_exclusive_group()
        formats.add_argument("--json", action="store_true", help="print JSON")
        if has_text:
            formats.add_argument("--csv", action="store_true", help="print a CSV table, one result a line")

    def add_resampling_options(self, parser: CommandParser) -> None:
        """Add --seed and --resamples."""
        parser.add_argument(
            "--seed", type=partial(parse_integer, 0), default=0, help="seed of all random steps (default: 0)"
        )
        parser.add_argument(
            "--resamples",
            type=partial(parse_integer, 0),
            default=2000,
            help="bootstrap resamples; 0 skips intervals that need them (default: 2000)",
        )

    def load_ratings(self, name: str, options: long_tables.ReadingOptions) -> long_tables.LongTable:
        """Return the ratings of the file, or of standard input for "-". Raises CommandError with all problems listed."""
        try:
            with open_input(name) as stream:
                return long_tables.parse_long_csv(stream, options, format_source_name)
        except long_tables.UnreadableError as error:
            raise list_problems(self.stderr, error.problems, "nothing was computed", MAX_PROBLEMS_SHOWN) from error

    def print_lines(self, lines: Iterable[str]) -> None:
        """Write the lines to standard output; stop without an error if its reader closes it, as `| head` does."""
        try:
            for line in lines:
                self.stdout.write(line, ending="")
            self.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python reports the broken pipe again when it flushes standard output at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def print_table(self, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
        """Write the rows as CSV with all digits of their numbers."""
        lines = exports.format_table_lines(columns, rows, exact=True)
        self.print_lines(line.replace("\r\n", "\n") for line in lines)


def parse_integer(minimum: int, text: str) -> int:
    """Return the integer. Raises ArgumentTypeError unless the text is a whole number of at least `minimum`."""
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum}")
    return number


def parse_names(text: str) -> list[str]:
    """Return names separated by commas; quote a name that contains a comma. Raises ArgumentTypeError if there is none."""
    try:
        names = [name.strip() for name in next(csv.reader([text]), []) if name.strip()]
    except csv.Error:
        names = []
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no names; separate names by commas")
    return names
