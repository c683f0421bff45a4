"""python manage.py agreement RATINGS.csv [--json] [--truth-column truth] [--source-column source] ..."""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ratings.exchange import long_tables
from ratings.management.input_files import escape_for_terminal, list_problems, open_input
from ratings.results.rating_rows import format_source_name
from ratings.stats import summary
from ratings.stats.detection import estimate_localisation
from ratings.stats.pairwise import MIN_OVERLAP
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count

MAX_PROBLEMS_SHOWN = 50


class Command(SafeCommand):
    help = (
        "Compute agreement statistics of ratings from any tool: a long CSV with the columns item, rater, verdict and optionally "
        "confidence, truth, source, pair, localised. No database is used. Nothing is computed if a row is invalid."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="RATINGS.csv", help="a CSV file, or - for standard input")
        parser.add_argument("--truth-column", default="", metavar="NAME", help="column of the truth (default: truth)")
        parser.add_argument(
            "--source-column", default="", metavar="NAME", help="column of the source (default: source)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON list of all results")
        parser.add_argument(
            "--seed", type=partial(_parse_integer, 0), default=0, help="seed of all random steps (default: 0)"
        )
        parser.add_argument(
            "--resamples",
            type=partial(_parse_integer, 0),
            default=2000,
            help="bootstrap resamples; 0 skips intervals that need them (default: 2000)",
        )
        parser.add_argument(
            "--min-overlap", type=partial(_parse_integer, 1), default=MIN_OVERLAP, metavar="N",
            help=f"items that two raters must share to count in averages; also printed for 1 (default: {MIN_OVERLAP})",
        )  # fmt: skip
        parser.add_argument(
            "--categories",
            type=_parse_names,
            default=[],
            metavar="0,1",
            help="permitted verdicts; write --categories=-1,0,1 if the first is negative",
        )
        parser.add_argument("--raters", type=_parse_names, default=[], metavar="A,B", help="only these raters")

    def handle(self, *args: Any, **options: Any) -> None:
        columns = options["truth_column"], options["source_column"]
        ratings = self._load_ratings(
            options["file"], long_tables.ReadingOptions(*columns, options["categories"], options["raters"])
        )
        settings = {name: options[name] for name in ("seed", "resamples", "min_overlap")}
        rows = summary.compute_summary(ratings.table, ratings.repeats, **settings)
        if ratings.marked is not None:
            rows += [
                row._replace(reference=ratings.table.reference_name) for row in estimate_localisation(ratings.marked)
            ]
        notes = summary.describe_ratings(ratings.table, ratings.left_out, ratings.notes)
        if options["json"]:
            left_out = [f"left out: {format_count(n, 'rating')}: {reason}" for reason, n in ratings.left_out.items()]
            # Standard output has the JSON only, so notes go to standard error.
            for line in (*left_out, *ratings.notes):
                self.stderr.write(escape_for_terminal(line))
            self._print_lines(summary.format_json_lines(rows))
        else:
            method_note = f"95% intervals; {options['resamples']:,} resamples, seed {options['seed']}."
            self._print_lines(f"{line}\n" for line in summary.format_text_lines(rows, [*notes, method_note]))

    def _load_ratings(self, name: str, columns: long_tables.ReadingOptions) -> long_tables.LongTable:
        try:
            with open_input(name) as stream:
                return long_tables.parse_long_csv(stream, columns, format_source_name)
        except long_tables.UnreadableError as error:
            raise list_problems(self.stderr, error.problems, "nothing was computed", MAX_PROBLEMS_SHOWN) from error

    def _print_lines(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                self.stdout.write(line, ending="")
            self.stdout.flush()
        except BrokenPipeError:  # the reader closed the pipe, as `| head` does
            # Otherwise Python reports the broken pipe again when it flushes standard output at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse_integer(minimum: int, text: str) -> int:
    """Return the integer. Raises ArgumentTypeError unless the text is a whole number of at least `minimum`."""
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum}")
    return number


def _parse_names(text: str) -> list[str]:
    """Return names separated by commas; quote a name that contains a comma. Raises ArgumentTypeError if there is none."""
    try:
        names = [name.strip() for name in next(csv.reader([text]), []) if name.strip()]
    except csv.Error:
        names = []
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} has no names; separate names by commas")
    return names
