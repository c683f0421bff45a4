"""The declaration of an analysis's tables: names, titles, columns and their meaning.

The JSON, CSV files, pages, figures, the archive and its codebook are made from it. A table is built by the function of a
module `sections_*` that is decorated with `builds`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Json = dict[str, Any]
Cells = Sequence[Any]


class Column(NamedTuple):
    """A column. `kind`: text, count, share (0 to 1), number or flag. Any cell may be null: undefined or unknown."""

    title: str
    meaning: str
    kind: str


class TableSpec(NamedTuple):
    """A table's title and its columns, defined in COLUMNS unless `overrides` redefines them."""

    title: str
    columns: tuple[str, ...]
    overrides: Mapping[str, Column] = {}

    def get_column(self, name: str) -> Column:
        return self.overrides.get(name) or COLUMNS[name]


_LOW, _HIGH = "lower end of the 95% interval", "upper end of the 95% interval"
_SOURCE = Column("Source", "cast or model that made the items, and the planted error", "text")

# The meaning of a column name in every table that does not override it. The codebook of the archive prints these texts.
COLUMNS: Mapping[str, Column] = {
    "source": _SOURCE,
    "error": Column("Error", "the planted error: none, obvious or subtle; or declared right, declared wrong, not known", "text"),
    "group": Column("Group", "part of the ratings that the row covers", "text"),
    "k": Column("Yes", "ratings with the verdict yes: plausible, or sufficient", "count"),
    "n": Column("Ratings", "ratings that count", "count"),
    "items": Column("Items", "items with a rating", "count"),
    "raters": Column("Raters", "raters with a rating", "count"),
    "ratings": Column("Ratings", "ratings that count", "count"),
    "rate": Column("Rate", "share of ratings with the verdict yes", "share"),
    "low": Column("Low", f"{_LOW}; new raters, new items", "share"),
    "high": Column("High", f"{_HIGH}; new raters, new items", "share"),
    "wilson_low": Column("Wilson low", f"{_LOW} by Wilson, ratings taken as independent", "share"),
    "wilson_high": Column("Wilson high", f"{_HIGH} by Wilson, ratings taken as independent", "share"),
    "item_weighted": Column("Item-weighted", "mean over items of their shares", "share"),
    "rater_weighted": Column("Rater-weighted", "mean over raters of their shares", "share"),
    "cannot_judge": Column("Could not judge", "ratings without a verdict because the rater could not judge; in no rate", "count"),
    "published_agreement": Column("Published agreement", "the paper's agreement for the same model, or for people", "share"),
    "published_kappa": Column("Published kappa", "the paper's kappa for the same model, or for people", "number"),
    "published": Column("Published", "the paper's value for the same model and question", "share"),
    "published_reason": Column("No published value because", "why the paper has no comparable value", "text"),
    "reason": Column("Reason", "why a number or its interval is missing, or a caveat", "text"),
    "verdict": Column("Verdict", "1 yes (plausible, sufficient), 0 no", "flag"),
    "confidence": Column("Confidence", "1 to 5", "count"),
    "share": Column("Share", "share of the source's ratings", "share"),
    "median": Column("Median", "median confidence", "number"),
    "mean": Column("Mean", "mean confidence", "number"),
    "lower": Column("Lower quartile", "a quarter of the confidences are at or below this value", "number"),
    "upper": Column("Upper quartile", "a quarter of the confidences are at or above this value", "number"),
    "threshold": Column("Threshold", "signed ratings at or below this value count as errors reported", "number"),
    "false_alarm_rate": Column("False alarms", "share of items without an error that were called errors", "share"),
    "hit_rate": Column("Hits", "share of items with an error that were called errors", "share"),
    "n_error": Column("Error ratings", "ratings of items with an error", "count"),
    "n_genuine": Column("Error-free ratings", "ratings of items without an error", "count"),
    "who": Column("Who", "a rater, a machine, or all raters together", "text"),
    "hits": Column("Hits", "items with an error, verdict no: ratings", "count"),
    "misses": Column("Misses", "items with an error, verdict yes: ratings", "count"),
    "false_alarms": Column("False alarms", "items without an error, verdict no: ratings", "count"),
    "correct_rejections": Column("Correct rejections", "items without an error, verdict yes: ratings", "count"),
    "sensitivity": Column("Sensitivity", "share of verdicts no among ratings of items with an error", "share"),
    "sensitivity_low": Column("Sensitivity low", _LOW, "share"),
    "sensitivity_high": Column("Sensitivity high", _HIGH, "share"),
    "specificity": Column("Specificity", "share of verdicts yes among ratings of items without an error", "share"),
    "d_prime": Column("d'", "sensitivity in standard deviations, log-linear correction; for all raters, the mean", "number"),
    "d_prime_low": Column("d' low", _LOW, "number"),
    "d_prime_high": Column("d' high", _HIGH, "number"),
    "criterion": Column("Criterion c", "above 0: reluctant to report errors; for all raters, the mean", "number"),
    "auc": Column("AUC", "area under the ROC curve of the signed rating: items with an error against items without", "number"),
    "auc_low": Column("AUC low", _LOW, "number"),
    "auc_high": Column("AUC high", _HIGH, "number"),
    "localised": Column("Located", "reported errors with a mark on the planted row", "count"),
    "localised_of": Column("of", "reported errors where rows could be marked and the location of the error is known", "count"),
    "rater": Column("Rater", "the rater's code in this study", "text"),
    "items_left": Column("Left", "items still to rate", "count"),
    "yes_share": Column("Yes", "share of yes among the rater's verdicts", "share"),
    "correct_share": Column("Correct", "share of verdicts that equal the reference, where it is known", "share"),
    "kappa_with_others": Column("Kappa", "mean Cohen's kappa with other raters who share enough items", "number"),
    "median_seconds": Column("Seconds", "median seconds per item", "number"),
    "practice_right": Column("Practice correct", "practice items answered correctly", "count"),
    "practice_of": Column("of", "practice items answered", "count"),
    "first_half_correct": Column("First half", "share correct in the first half of the rater's order", "share"),
    "second_half_correct": Column("Second half", "share correct in the second half of the rater's order", "share"),
    "retest_same": Column("Same on repeat", "items judged twice with the same verdict", "count"),
    "retest_of": Column("of", "items judged twice", "count"),
    "flags": Column("Flags", "what is unusual about this rater's answers; a reason to check, not a fault", "text"),
    "from_position": Column("From", "first position of this part of the raters' orders", "count"),
    "to_position": Column("To", "last position of this part", "count"),
    "coefficient": Column("Coefficient", "the coefficient's name", "text"),
    "value": Column("Value", "value of the coefficient", "number"),
    "low_new": Column("Low, new raters", f"{_LOW}; new raters, new items", "number"),
    "high_new": Column("High, new raters", f"{_HIGH}; new raters, new items", "number"),
    "prevalence": Column("Prevalence", "share of ratings with the verdict yes", "share"),
    "pairs_used": Column("Pairs used", "pairs of raters in the mean", "count"),
    "pairs_undefined": Column("Undefined", "pairs whose kappa is 0/0", "count"),
    "pairs_below_overlap": Column("Below overlap", "pairs with too few items in common", "count"),
    "item": Column("Item", "the item's code", "text"),
    "experiment": Column("Experiment", "the experiment the item is from", "text"),
    "action": Column("Action", "the laboratory action", "text"),
    "reference": Column("Reference", "1: no error was planted (or declared right); 0: planted (or declared wrong)", "flag"),
    "reference_name": Column("Reference", "how the reference is known: planted, declared or mixed (docs/statistics.md, Reference)", "text"),
    "truth": Column("Truth", "whether the outcome is right, if known", "flag"),
    "yes": Column("Yes", "ratings with the verdict yes", "count"),
    "judged": Column("Judged", "ratings with a verdict", "count"),
    "spread": Column("Disagreement", "0: all verdicts equal; 1: evenly split", "share"),
    "disputed": Column("Disputed", "most raters contradict the reference", "flag"),
    "correct": Column("Correct", "the verdict equals the reference", "flag"),
    "kind": Column("Kind", "all raters: people, simulated, or people and simulated; one rater: person, simulated or imported; machine, classifier, checker or ensemble", "text"),
    "agreement": Column("Agreement", "share of equal verdicts, mean over raters", "share"),
    "agreement_low": Column("Agreement low", _LOW, "share"),
    "agreement_high": Column("Agreement high", _HIGH, "share"),
    "kappa": Column("Kappa", "Cohen's kappa, mean over raters", "number"),
    "kappa_low": Column("Kappa low", _LOW, "number"),
    "kappa_high": Column("Kappa high", _HIGH, "number"),
    "difference": Column("Difference", "kappa minus the kappa of the raters with each other, on the same items", "number"),
    "difference_low": Column("Difference low", _LOW, "number"),
    "difference_high": Column("Difference high", _HIGH, "number"),
    "raters_used": Column("Raters used", "raters with enough items in common", "count"),
    "row": Column("Of", "name of the row", "text"),
    "col": Column("With", "name of the column", "text"),
    "base": Column("Base", "items in the denominator of the share", "count"),
    "caught": Column("Detected", "errors that were called errors", "count"),
    "recall": Column("Recall", "share of errors that were called errors", "share"),
    "error_kind": Column("Kind of error", "which error was planted", "text"),
    "error_size": Column("Size of error", "relative deviation of the planted number from the true one, without its sign", "text"),
    "what": Column("Of", "rate, kappa or AUC", "text"),
    "half_width": Column("Half-width", "expected half-width of the 95% interval", "number"),
    "now": Column("Current", "the study as it is now", "flag"),
    "said": Column("Description", "the row as a sentence", "text"),
}  # fmt: skip

_GROUPED = (
    "group", "source", "k", "n", "items", "raters", "rate", "low", "high", "wilson_low", "wilson_high", "reason",
)  # fmt: skip
# The agreement table has both intervals; its `low` and `high` are those for the study's own raters.
_THESE = {
    "low": Column("Low", f"{_LOW}; these raters, new items", "number"),
    "high": Column("High", f"{_HIGH}; these raters, new items", "number"),
}
_CELLS = {
    "value": Column("Share", "share of the items both judged", "share"),
    "n": Column("Items", "items both judged", "count"),
}

TABLE_SPECS: Mapping[str, TableSpec] = {
    "rates": TableSpec("Rates by source", (
        "source", "error", "k", "n", "items", "raters", "rate", "low", "high", "wilson_low", "wilson_high",
        "item_weighted", "rater_weighted", "cannot_judge", "published", "published_reason", "reason",
    )),
    "rates_by_experiment": TableSpec("Rates by experiment", _GROUPED, {"group": COLUMNS["experiment"]}),
    "rates_by_action": TableSpec("Rates by action", _GROUPED, {"group": COLUMNS["action"]}),
    "rates_by_error_kind": TableSpec("Rates by kind of error", _GROUPED, {"group": COLUMNS["error_kind"]}),
    "rates_by_rater": TableSpec("Rates by rater", _GROUPED, {
        "group": COLUMNS["rater"],
        "low": Column("Low", f"{_LOW}; this rater, new items", "share"),
        "high": Column("High", f"{_HIGH}; this rater, new items", "share"),
    }),
    "rates_by_arm": TableSpec("Rates by display arm", _GROUPED, {
        "group": Column("Arm", "how items were displayed", "text"),
    }),
    "confidence": TableSpec("Confidence by source and verdict", ("source", "verdict", "confidence", "n", "share")),
    "spread": TableSpec("Confidence summary", ("source", "verdict", "n", "median", "mean", "lower", "upper")),
    "roc": TableSpec("ROC points", ("source", "threshold", "false_alarm_rate", "hit_rate", "n_error", "n_genuine", "reference_name")),
    "detection": TableSpec("Detection of errors", (
        "who", "source", "hits", "misses", "false_alarms", "correct_rejections", "sensitivity", "sensitivity_low",
        "sensitivity_high", "specificity", "d_prime", "d_prime_low", "d_prime_high", "criterion", "auc", "auc_low", "auc_high", "localised",
        "localised_of", "reason", "reference_name",
    )),
    "localisation": TableSpec("Localisation of reported errors", (
        "who", "source", "k", "n", "rate", "low", "high", "items", "raters", "untold", "reason", "reference_name",
    ), {
        "who": Column("Who", "a rater, or all raters together", "text"),
        "k": Column("Located", "reported errors with a mark on the planted row", "count"),
        "n": Column("of", "reported errors where rows could be marked and the location of the error is known", "count"),
        "rate": Column("Share", "share of reported errors with a mark on the planted row", "share"),
        "untold": Column("Not known", "reported errors without marks, or with an unknown location; in no share", "count"),
    }),
    "raters": TableSpec("Raters", (
        "rater", "who", "ratings", "items_left", "yes_share", "correct_share", "kappa_with_others", "shared_items",
        "median_seconds", "practice_right", "practice_of", "first_half_correct", "second_half_correct", "retest_same", "retest_of",
        "flags",
    ), {
        "who": Column("Who", "person, simulated or imported", "text"),
        "shared_items": Column("Items shared", "most items that the rater shares with one other rater, for the kappa", "count"),
    }),
    "drift": TableSpec("Correct answers by position", (
        "from_position", "to_position", "n", "correct_share", "low", "high", "median_seconds",
    )),
    "agreement": TableSpec("Agreement", (
        "coefficient", "source", "value", "low", "high", "low_new", "high_new", "prevalence", "items", "raters",
        "ratings", "pairs_used", "pairs_undefined", "pairs_below_overlap", "reason",
    ), _THESE),
    "contested": TableSpec("Items by disagreement", (
        "item", "source", "experiment", "action", "reference", "truth", "yes", "judged", "spread", "disputed",
    )),
    "matrix": TableSpec("Ratings by rater and item", ("rater", "item", "source", "verdict", "confidence", "correct")),
    "human_model": TableSpec("Raters and machines", (
        "who", "kind", "agreement", "agreement_low", "agreement_high", "kappa", "kappa_low", "kappa_high", "difference",
        "difference_low", "difference_high", "items", "raters_used", "ratings", "reason",
        "published_agreement", "published_kappa", "published_reason",
    )),
    "agreement_matrix": TableSpec("Agreement of machines with each other", ("row", "col", "value", "n", "base"), _CELLS),
    "conditional_matrix": TableSpec("Conditional agreement", ("row", "col", "value", "n", "base"), {
        "value": Column("Share", "share of items with a yes of the column, among items with a yes of the row", "share"),
        "n": Column("Items", "items both judged", "count"),
        "base": Column("Base", "items judged by both with a yes of the row", "count"),
    }),
    "fractions": TableSpec("Share of yes verdicts", (
        "who", "kind", "share", "k", "n", "low", "high", "published", "published_reason",
    ), {
        "share": Column("Share", "share of yes among the items judged", "share"),
        "n": Column("Judged", "items, or ratings, with a verdict", "count"),
    }),
    "misses": TableSpec("Detected and missed errors", (
        "who", "kind", "error", "error_kind", "caught", "n", "recall", "low", "high", "reference_name",
    ), {
        "error": Column("Error", "the error: planted, or other if only a truth is declared; none: items without an error, where a reported error is a false alarm", "text"),
        "caught": Column("Reported", "ratings, or items, called an error", "count"),
        "n": Column("of", "ratings, or items, judged", "count"),
        "recall": Column("Share", "share of errors detected; for items without an error, the share of false alarms", "share"),
    }),
    "detection_by_size": TableSpec("Detection by size of error", (
        "who", "kind", "error_size", "smallest", "largest", "caught", "n", "recall", "low", "high", "reference_name",
    ), {
        "smallest": Column("From", "smallest size in the range, as a share of the true value; empty: no error, or one that does not change a number", "number"),
        "largest": Column("Below", "sizes in the range are smaller than this share; empty: no limit, no error, or one that does not change a number", "number"),
        "caught": Column("Reported", "ratings, or items, called an error", "count"),
        "n": Column("of", "ratings, or items, judged", "count"),
        "recall": Column("Share", "share of errors detected; for items without an error, the share of false alarms", "share"),
    }),
    "contrasts": TableSpec("Contrasts", (
        "family", "first", "second", "quantity", "first_value", "second_value", "difference", "low", "high", "p", "p_holm",
        "items", "raters", "ratings", "shared_items", "shared_raters", "target", "reason", "reference_name",
    ), {
        "family": Column("Between", "what is compared", "text"),
        "first": Column("First", "one side", "text"),
        "second": Column("Second", "the other side", "text"),
        "quantity": Column(
            "Quantity", "rate: share of yes; correct: share of verdicts equal to the reference; sensitivity, specificity, AUC and d' as elsewhere",
            "text",
        ),
        "first_value": Column("First value", "the quantity for the first side", "number"),
        "second_value": Column("Second value", "the quantity for the second side", "number"),
        "difference": Column("Difference", "the first value minus the second", "number"),
        "low": Column("Low", _LOW, "number"),
        "high": Column("High", _HIGH, "number"),
        "p": Column("p", "two-sided p-value of no difference; below .05 if the interval excludes 0", "number"),
        "p_holm": Column("Holm's p", "adjusted for the contrasts of the same family and quantity", "number"),
        "items": Column("Items", "items; versions of the same item count once", "count"),
        "raters": Column("Raters", "raters on either side", "count"),
        "shared_items": Column("Shared items", "items with a rating on both sides, or a version on each", "count"),
        "shared_raters": Column("Shared raters", "raters with ratings on both sides", "count"),
        "target": Column("For", "what the interval generalises to besides new items: new raters, this rater, ...", "text"),
    }),
    "precision": TableSpec("Expected precision with more data", (
        "what", "source", "raters", "items", "half_width", "now", "said",
    )),
}  # fmt: skip


Builder = TypeVar("Builder", bound=Callable[..., Mapping[str, Json]])
_builders: dict[str, str] = {}  # table -> the function that builds it


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Declare that a function builds these tables. Raises TypeError if one is undeclared or declared twice."""

    def register(function: Builder) -> Builder:
        for name in names:
            if name not in TABLE_SPECS:
                raise TypeError(f"{function.__qualname__} builds the table {name}, which TABLE_SPECS does not declare")
            if _builders.setdefault(name, function.__qualname__) != function.__qualname__:
                raise TypeError(f"{function.__qualname__} and {_builders[name]} both build the table {name}")
        return function

    return register


def check_builders() -> None:
    """Raise TypeError if no function builds a table of TABLE_SPECS. All builders must have been imported."""
    if missing := [name for name in TABLE_SPECS if name not in _builders]:
        raise TypeError(f"no function in sections_*.py builds the tables {', '.join(missing)} of TABLE_SPECS")


def build_table(name: str, rows: Iterable[Cells], summary: str = "", notes: Sequence[str] = ()) -> Json:
    """Return the named table in the form of the document. Raises ValueError for a row that does not fit the columns."""
    return build_custom_table(TABLE_SPECS[name], rows, summary, notes)


def build_custom_table(form: TableSpec, rows: Iterable[Cells], summary: str = "", notes: Sequence[str] = ()) -> Json:
    """Return a table in the form of a document. Raises ValueError for a row that does not fit the columns."""
    cells = [list(row) for row in rows]
    if any(len(row) != len(form.columns) for row in cells):
        raise ValueError(f"a row of {form.title} does not have the columns {', '.join(form.columns)}")
    columns = [{"name": name, **form.get_column(name)._asdict()} for name in form.columns]
    # Every table includes its columns, so that a stored document can be read without this release of the code.
    return {"title": form.title, "summary": summary, "columns": columns, "rows": cells, "notes": list(notes)}


def list_records(table_json: Mapping[str, Any]) -> list[Json]:
    """Return the rows of a table of the document, each as a dictionary by column name."""
    names = [column["name"] for column in table_json["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table_json["rows"]]


def _check_columns() -> None:
    # At import, so that a column without a meaning is found at start and not when its table is built.
    for name, spec in TABLE_SPECS.items():
        if unknown := [column for column in spec.columns if column not in {**COLUMNS, **spec.overrides}]:
            raise TypeError(f"the table {name} has columns without a meaning in COLUMNS: {', '.join(unknown)}")


_check_columns()
