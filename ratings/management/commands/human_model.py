"""python manage.py human_model RATINGS.csv --models A,B [--table TABLE] [--json], or: human_model --study STUDY ..."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from django.core.management.base import CommandError, CommandParser

from ratings.exchange.long_tables import ReadingOptions
from ratings.management.input_files import exit_with_2
from ratings.management.statistics_output import StatisticsCommand, parse_integer, parse_names
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.rating_columns import load_analysis_data
from ratings.results.analyses.sections_machines import STORED_CHECKER, find_machines
from ratings.stats import human_model, summary
from ratings.stats.pairwise import MIN_OVERLAP
from ratings.stats.ratings_table import Ratings
from ratings.studies import SealedError, StudyError, lifecycle

COMPARISON, AGREEMENT, CONDITIONAL, FRACTIONS = "comparison", "agreement", "conditional", "fractions"
TABLES = (COMPARISON, AGREEMENT, CONDITIONAL, FRACTIONS)
COMPARISON_COLUMNS = (
    "who", "kind", "agreement", "agreement_low", "agreement_high", "kappa", "kappa_low", "kappa_high", "difference",
    "difference_low", "difference_high", "items", "raters", "ratings", "reason",
)  # fmt: skip
MATRIX_COLUMNS = ("row", "col", "share", "base", "items")
FRACTION_COLUMNS = ("who", "share", "low", "high", "yes", "judged")


class Table(NamedTuple):
    """A table to print: its columns and rows."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


class Command(StatisticsCommand):
    help = (
        "Compare models with people: agreement and kappa of each model with the raters and of the raters with each other "
        "(Table 1 of the paper), or the matrices and shares of models and raters. Prints CSV, or JSON."
    )
    examples = (
        "human_model ratings.csv --models gpt,claude",
        "human_model ratings.csv --models gpt,claude --table conditional --json",
        "human_model --study my-study --table agreement > matrix.csv",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="RATINGS.csv", nargs="?", default="",
            help="a CSV file with item, rater, verdict (1 or 0), or - for standard input; no database is used",
        )  # fmt: skip
        parser.add_argument(
            "--models", type=parse_names, default=[], metavar="A,B", help="raters of the file that are models"
        )
        parser.add_argument("--study", default="", help="slug or code of an unblinded study, instead of a file")
        parser.add_argument(
            "--table", choices=TABLES, default=COMPARISON,
            help=(
                "comparison: agreement with people; agreement: share of equal verdicts of every two; conditional: share of the "
                "column's 1 where the row has 1; fractions: share of 1 (default: comparison)"
            ),
        )  # fmt: skip
        parser.add_argument(
            "--min-overlap", type=partial(parse_integer, 1), default=MIN_OVERLAP, metavar="N",
            help=f"items that a model and a rater, or two raters, must share (default: {MIN_OVERLAP})",
        )  # fmt: skip
        self.add_resampling_options(parser)
        self.add_format_options(parser, has_text=False)

    @exit_with_2(StudyError, SealedError)
    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["file"]) == bool(options["study"]):
            raise CommandError("give a file, or --study and no file", returncode=2)
        if options["study"]:
            if options["models"]:
                raise CommandError("--models names raters of a file; a study knows its models", returncode=2)
            people, models = _load_study(options["study"])
        else:
            people, models = self._load_file(options["file"], options["models"])
        if options["table"] == COMPARISON:
            settings = {name: options[name] for name in ("min_overlap", "seed", "resamples")}
            comparisons = human_model.compare_models(people, models, **settings)
            if options["json"]:
                rows = [row for one in comparisons for row in (one.agreement, one.kappa, one.difference)]
                self.print_lines(summary.format_json_lines(rows))
                return
            table = Table(COMPARISON_COLUMNS, map(_list_cells, comparisons))
        else:
            table = _build_table(options["table"], {**models, **human_model.collect_rater_verdicts(people)})
        if options["json"]:
            records = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            self.stdout.write(json.dumps(records, ensure_ascii=False))
        else:
            self.print_table(table.columns, table.rows)

    def _load_file(self, name: str, models: Sequence[str]) -> tuple[Ratings, dict[str, dict[str, int]]]:
        """Return the ratings of people, and the verdicts of the models by item. Raises CommandError."""
        if not models:
            raise CommandError("name the raters that are models with --models A,B", returncode=2)
        ratings = self.load_ratings(name, ReadingOptions()).table
        if not ratings.is_binary:
            raise CommandError(
                "models are compared with people on verdicts of 1 and 0; these are categories", returncode=1
            )
        if missing := [model for model in models if model not in ratings.raters]:
            raters = ", ".join(ratings.raters[:20])
            raise CommandError(f"no ratings by {', '.join(missing)}; the raters are: {raters}", returncode=1)
        is_model = np.isin(np.array(ratings.raters), models)[ratings.rater]
        people = ratings.select_ratings(~is_model)
        if not len(people):
            raise CommandError(
                "every rater of the file is a model, so there is nobody to compare them with", returncode=1
            )
        verdicts = human_model.collect_rater_verdicts(ratings.select_ratings(is_model))
        return people, {model: verdicts[model] for model in models}


def _load_study(name: str) -> tuple[Ratings, dict[str, dict[str, int]]]:
    """Return the ratings of people and the verdicts of the models of a study, as its results page has them."""
    study = lifecycle.get_study(name)
    data = load_analysis_data(study, Filters())
    machines = [machine for machine in find_machines(study, data) if machine.name != STORED_CHECKER]
    if not machines:
        raise StudyError(f"{study.name} has no verdicts of models or classifiers; see rate_with_model")
    return data.table, {machine.name: machine.verdicts for machine in machines}


def _list_cells(row: human_model.ModelComparison) -> list[Any]:
    estimates = (row.agreement, row.kappa, row.difference)
    numbers = [number for one in estimates for number in (one.value, one.low, one.high)]
    return [
        row.name,
        row.kind,
        *numbers,
        *(row.kappa.n[name] for name in ("items", "raters", "ratings")),
        row.kappa.reason,
    ]


def _build_table(name: str, judges: Mapping[str, Mapping[str, int]]) -> Table:
    if name == FRACTIONS:
        rates = human_model.estimate_fractions(judges)
        return Table(
            FRACTION_COLUMNS, [[who, one.value, one.low, one.high, one.k, one.n] for who, one in rates.items()]
        )
    build = human_model.build_conditional_matrix if name == CONDITIONAL else human_model.build_agreement_matrix
    return Table(MATRIX_COLUMNS, [[cell.row, cell.col, cell.value, cell.base, cell.n] for cell in build(judges)])
