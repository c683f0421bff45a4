"""python manage.py agreement RATINGS.csv [--csv | --json] [--truth-column truth] [--source-column source] ..."""

from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from ratings.exchange import long_tables
from ratings.management.input_files import escape_for_terminal
from ratings.management.statistics_output import StatisticsCommand, parse_integer, parse_names
from ratings.stats import summary
from ratings.stats.detection import estimate_localisation
from ratings.stats.pairwise import MIN_OVERLAP
from wetbench_site.text import format_count


class Command(StatisticsCommand):
    help = (
        "Compute agreement statistics of ratings from any tool: a long CSV with the columns item, rater, verdict and optionally "
        "confidence, truth, source, pair, localised. No database is used. Nothing is computed if a row is invalid."
    )
    examples = (
        "agreement ratings.csv",
        "agreement ratings.csv --min-overlap 10 --show-unstable",
        "agreement ratings.csv --categories 0,1,2,3 --csv > results.csv",
        "agreement - --json < ratings.csv",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="RATINGS.csv", help="a CSV file, or - for standard input")
        parser.add_argument("--truth-column", default="", metavar="NAME", help="column of the truth (default: truth)")
        parser.add_argument(
            "--source-column", default="", metavar="NAME", help="column of the source (default: source)"
        )
        self.add_format_options(parser)
        self.add_resampling_options(parser)
        parser.add_argument(
            "--min-overlap", type=partial(parse_integer, 1), default=MIN_OVERLAP, metavar="N",
            help=f"items that two raters must share to count in averages; also printed for 1 (default: {MIN_OVERLAP})",
        )  # fmt: skip
        parser.add_argument(
            "--show-unstable",
            action="store_true",
            help="also print intervals that are withheld because the sample is too small for them, marked as unstable",
        )
        parser.add_argument(
            "--categories",
            type=parse_names,
            default=[],
            metavar="0,1",
            help="permitted verdicts; write --categories=-1,0,1 if the first is negative",
        )
        parser.add_argument("--raters", type=parse_names, default=[], metavar="A,B", help="only these raters")

    def handle(self, *args: Any, **options: Any) -> None:
        columns = options["truth_column"], options["source_column"]
        ratings = self.load_ratings(
            options["file"], long_tables.ReadingOptions(*columns, options["categories"], options["raters"])
        )
        settings = {name: options[name] for name in ("seed", "resamples", "min_overlap", "show_unstable")}
        rows = summary.compute_summary(ratings.table, ratings.repeats, **settings)
        if ratings.marked is not None:
            rows += [
                row._replace(reference=ratings.table.reference_name) for row in estimate_localisation(ratings.marked)
            ]
        if options["json"] or options["csv"]:
            left_out = [f"left out: {format_count(n, 'rating')}: {reason}" for reason, n in ratings.left_out.items()]
            # Standard output has the results only, so notes go to standard error.
            for line in (*left_out, *ratings.notes):
                self.stderr.write(escape_for_terminal(line))
            if withheld := sum(entry.intervals for entry in summary.list_withheld(rows)):
                self.stderr.write(f"withheld: {format_count(withheld, 'interval')}. {summary.ADVICE}")
        if options["json"]:
            self.print_lines(summary.format_json_lines(rows))
        elif options["csv"]:
            self.print_table(summary.CSV_COLUMNS, summary.iter_csv_rows(rows))
        else:
            notes = summary.describe_ratings(ratings.table, ratings.left_out, ratings.notes)
            method_note = f"95% intervals; {options['resamples']:,} resamples, seed {options['seed']}."
            lines = summary.format_text_lines(rows, [*notes, method_note])
            self.print_lines(f"{line}\n" for line in lines)
