"""python manage.py agreement RATINGS.csv [--json] [--truth-column truth] [--source-column source] ..."""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.exchange.tables import long_csv
from ratings.management.upload import opened, plain
from ratings.results.rows import source_name
from ratings.stats import panel
from ratings.stats.agreement.agreement import MIN_OVERLAP
from ratings.stats.localisation import localisation
from ratings.stats.nouns import counted

MOST_PROBLEMS = 50


class Command(BaseCommand):
    help = (
        "The statistics panel of ratings from any tool: a long CSV with the columns item, rater, verdict and, if you like, "
        "confidence, truth, source, pair, localised. No database is touched. Every row is read, or nothing is computed."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="RATINGS.csv", help="a CSV file, or - for standard input")
        parser.add_argument("--truth-column", default="", metavar="NAME", help="column of the truth (default: truth)")
        parser.add_argument(
            "--source-column", default="", metavar="NAME", help="column of the source (default: source)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON list of all results")
        parser.add_argument("--seed", type=_natural, default=0, help="of every random step (default: 0)")
        parser.add_argument(
            "--resamples", type=_natural, default=2000, help="0: no interval that needs them (default: 2000)"
        )
        parser.add_argument(
            "--min-overlap", type=_positive, default=MIN_OVERLAP, metavar="N",
            help=f"items two raters must share for the averages, printed also for 1 (default: {MIN_OVERLAP})",
        )  # fmt: skip
        parser.add_argument(
            "--categories",
            type=_names,
            default=[],
            metavar="0,1",
            help="verdicts that may occur; if the first is below 0: --categories=-1,0,1",
        )
        parser.add_argument("--raters", type=_names, default=[], metavar="A,B", help="only these raters")

    def handle(self, *args: Any, **options: Any) -> None:
        columns = options["truth_column"], options["source_column"]
        found = self._read(options["file"], long_csv.Reading(*columns, options["categories"], options["raters"]))
        chosen = {name: options[name] for name in ("seed", "resamples", "min_overlap")}
        rows = panel.panel(found.table, found.repeats, **chosen)
        if found.marked is not None:
            rows += [row._replace(reference=found.table.reference_name) for row in localisation(found.marked)]
        about = panel.about(found.table, found.left_out, found.notes)
        if options["json"]:
            for line in (*_told(found), *found.notes):
                self.stderr.write(plain(line))
            self._write(panel.json_lines(rows))
        else:
            made = f"95% intervals; {options['resamples']:,} resamples, seed {options['seed']}."
            self._write(f"{line}\n" for line in panel.text_lines(rows, [*about, made]))

    def _read(self, name: str, reading: long_csv.Reading) -> long_csv.LongTable:
        try:
            with opened(name) as stream:
                return long_csv.read(stream, reading, source_name)
        except long_csv.UnreadableError as error:
            for problem in error.problems[:MOST_PROBLEMS]:
                self.stderr.write(plain(str(problem)))
            if (more := len(error.problems) - MOST_PROBLEMS) > 0:
                self.stderr.write(f"and {more:,} more")
            said = f"{counted(len(error.problems), 'problem')}; nothing was computed"
            raise CommandError(said, returncode=1) from error

    def _write(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                self.stdout.write(line, ending="")
            self.stdout.flush()
        except BrokenPipeError:  # whoever read has seen enough, as with `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(found: long_csv.LongTable) -> list[str]:
    return [f"left out: {counted(n, 'rating')}: {reason}" for reason, n in found.left_out.items()]


def _natural(text: str) -> int:
    return _whole(text, 0)


def _positive(text: str) -> int:
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    """ArgumentTypeError for anything but a whole number from `least`."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least}")
    return number


def _names(text: str) -> list[str]:
    """Names between commas; one with a comma in quotes. ArgumentTypeError where there is none."""
    try:
        names = [name.strip() for name in next(csv.reader([text]), []) if name.strip()]
    except csv.Error:
        names = []
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; it must be names between commas")
    return names
