"""Every figure: its texts, its table, and where its drawing is. Pages import this module, so it does not import the plotting libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ratings.results.figures import tables
from ratings.results.figures.tables import Document, get_rows, has_number

if TYPE_CHECKING:
    from ratings.results.figures.theme import Drawing, Spec

MIN_DENSITY_RATINGS = 30  # with fewer, the shape of a density depends more on the kernel than on the ratings

# A function that returns a note about a document, or "".
ExtraNote = Callable[[Document], str]


class FileLabel(NamedTuple):
    """What the file of a figure states about itself in its metadata. `filter_text` is "" if no filter is active."""

    title: str
    subject: str
    filter_text: str

    @property
    def full_title(self) -> str:
        """Return the title with the filters."""
        return f"{self.title}. {self.filter_text}" if self.filter_text else self.title


class Figure(NamedTuple):
    """A figure of an analysis, drawn only from the tables of its document.

    `table`: name of the table that the figure shows. `kinds`: "study" and "benchmark", the kinds of document that can have the
    figure. `drawn_by`: module and name of its `theme.Drawing`. `note`: how to read the figure. `extras`: functions that return a
    further note if it applies to a document.
    """

    name: str
    title: str
    table: str
    kinds: frozenset[str]
    drawn_by: str
    note: str
    extras: tuple[ExtraNote, ...] = ()

    def get_title(self, document: Document) -> str:
        """Return the figure's title for this document."""
        # If no reference is known, only the pace is drawn, so the title must not mention correct answers.
        if self.name == "drift" and not _has_correct(document):
            return "Pace by position"
        if self.name == "violins" and not _has_density(document):
            return "Confidence of single ratings"
        return self.title

    def list_notes(self, document: Document) -> list[str]:
        """Return the notes on how to read this document's figure."""
        return list(filter(None, [self.note, *(extra(document) for extra in self.extras)]))

    def get_note(self, document: Document) -> str:
        """Return the notes as one text."""
        return " ".join(self.list_notes(document))

    def build_file_label(self, document: Document) -> FileLabel:
        """Return the label of a file with this figure. Documents of benchmarks have no filters."""
        filter_text = document.get("filters", {}).get("said", "")
        return FileLabel(self.get_title(document), document.get("subject", {}).get("name", ""), filter_text)

    @property
    def drawing(self) -> Drawing:
        """The functions that draw and describe the figure. Imports the plotting libraries."""
        module, _, name = self.drawn_by.partition(".")
        drawing: Drawing | None = getattr(import_module(f"{__package__}.{module}"), name, None)
        if drawing is None:
            raise ImportError(f"the figure {self.name!r} is declared, but {module}.py has no drawing {name}")
        return drawing

    def has_data(self, document: Document) -> bool:
        """Return whether there is anything to draw: rows and, where required, known numbers."""
        return bool(get_rows(document, self.table)) and self.drawing.has_values(document)

    def describe(self, document: Document) -> str:
        """Return the figure in one sentence, with its numbers."""
        return self.drawing.describe(document)

    def build_spec(self, document: Document, size: str) -> Spec:
        """Return the Vega-Lite specification. Raises KeyError for an unknown size."""
        # The filters come first: a long note is cut.
        note = " ".join(filter(None, (self.build_file_label(document).filter_text, self.get_note(document))))
        return self.drawing.build_spec(document, size, self.get_title(document), note)


def _note_if(applies: Callable[[Document], bool], note: str) -> ExtraNote:
    return lambda document: note if applies(document) else ""


def _note_published(column: str, table: str, note: str) -> ExtraNote:
    return _note_if(lambda document: has_number(document, table, column), f"Diamond: {note}")


def _note_range(table: str) -> ExtraNote:
    """Return the function that finds the published range of a matrix in the table's notes."""
    # The table has other notes as well; only the published range explains this figure.
    return lambda document: " ".join(note for note in tables.get_notes(document, table) if note.startswith("Published"))


def _note_of_table(table: str) -> ExtraNote:
    return lambda document: " ".join(tables.get_notes(document, table))


def _has_text(table: str, column: str, texts: tuple[str, ...]) -> Callable[[Document], bool]:
    return lambda document: any(line.text(column) in texts for line in get_rows(document, table))


def _has_density(document: Document) -> bool:
    return any(line.count("n") >= MIN_DENSITY_RATINGS for line in get_rows(document, "spread"))


def _has_dots(document: Document) -> bool:
    return any(0 < line.count("n") < MIN_DENSITY_RATINGS for line in get_rows(document, "spread"))


def _has_correct(document: Document) -> bool:
    return has_number(document, "drift", "correct_share")


_STUDY, _BENCHMARK = frozenset({"study"}), frozenset({"benchmark"})
_BOTH = _STUDY | _BENCHMARK
_GROUPED = "Shares of ratings; whiskers: 95% intervals for new raters and new items."
_ERRORS = _note_if(_has_text("rates", "error", tables.PLANTED), "Orange: errors were planted.")

_ALL = (
    Figure(
        *("rates", "Rates by source", "rates", _STUDY, "estimates.RATES"),
        "Bars: share of ratings; whiskers: 95% intervals for new raters and new items.",
        (_ERRORS, _note_published("published", "rates", "the paper's value for the declared model.")),
    ),
    Figure(
        *("confidence", "Confidence by verdict", "confidence", _STUDY, "confidence.HISTOGRAMS"),
        "Numbers: percentage of the source's ratings, by confidence (1 to 5) and verdict.",
    ),
    Figure(
        *("violins", "Confidence as densities", "spread", _STUDY, "confidence.VIOLINS"),
        "White dot: median; line: the middle half of the ratings.",
        (
            _note_if(
                _has_density,
                "Gaussian kernel density of confidence, bandwidth 0.4, reflected at 1 and 5, each half of the same area.",
            ),
            _note_if(
                _has_dots, f"Verdicts with fewer than {MIN_DENSITY_RATINGS} ratings: a coloured dot for each rating."
            ),
        ),
    ),
    Figure(
        *("roc", "Detection of errors (ROC)", "roc", _STUDY, "curves.ROC"),
        "One point per level of the signed rating; the error is the signal. Dashed: chance. Curves "
        "pool all ratings; beside each, the mean of the raters' own AUCs and its 95% interval.",
    ),
    Figure(
        *("localisation", "Planted errors located", "localisation", _STUDY, "estimates.LOCALISATION"),
        "Of the planted errors rated not plausible, the share with a mark on the planted row; whiskers: 95% intervals for new "
        "raters and new items. Single raters are in the table.",
    ),
    Figure(
        *("agreement", "Agreement between raters", "agreement", _STUDY, "estimates.AGREEMENT"),
        "Thick whiskers: 95% intervals for these raters and new items; thin ones with caps: for new raters and new items.",
    ),
    Figure(
        *("misses", "Detected and missed errors", "misses", _STUDY, "estimates.MISSES"),
        "Shares of ratings as an error; whiskers: 95% intervals. Single raters are in the table.",
        (_note_if(_has_text("misses", "kind", tables.MACHINES), "Models: shares of items."),),
    ),
    Figure(
        *("detection_by_size", "Detection by size of error", "detection_by_size", _STUDY, "sizes.DETECTION_BY_SIZE"),
        "Share of ratings that report an error, by the relative deviation of the planted number from the true one; whiskers: 95% intervals. "
        "Not joined by a line: errors below the detection limit, errors without a size, and false alarms on items without an error. "
        "Individual raters are in the table.",
        (_note_if(_has_text("detection_by_size", "kind", tables.MACHINES), "Models: shares of items."),),
    ),
    Figure(
        *("contrasts", "Contrasts", "contrasts", _STUDY, "estimates.CONTRASTS"),
        "Differences with 95% intervals. Orange with a star: Holm's p, adjusted for all contrasts of the family and quantity, is "
        "below .05; blue: it is not, even if the interval, which is for a single contrast, excludes 0. Differences of d' are "
        "on another scale and only in the table.",
    ),
    Figure(
        *("rates_by_experiment", "Rates by experiment", "rates_by_experiment", _STUDY, "estimates.RATES_BY_EXPERIMENT"),
        _GROUPED,
        (_ERRORS,),
    ),
    Figure(
        *("rates_by_action", "Rates by action", "rates_by_action", _STUDY, "estimates.RATES_BY_ACTION"),
        _GROUPED,
        (_ERRORS,),
    ),
    Figure(
        *("rates_by_error_kind", "Rates by kind of error", "rates_by_error_kind", _STUDY),
        *("estimates.RATES_BY_ERROR_KIND", _GROUPED, (_ERRORS,)),
    ),
    Figure(
        *("drift", "Correct answers by position", "drift", _STUDY, "curves.DRIFT"),
        "Ratings by position in each rater's own order.",
        (_note_if(_has_correct, "Whiskers: 95% intervals."),),
    ),
    Figure(
        *("matrix", "Ratings by rater and item", "matrix", _STUDY, "grids.MATRIX"),
        "One cell per rating: colour is the verdict, strength the confidence (with its digit if it fits).",
        # The notes of the table are on the items and raters that it contains, if it is a sample.
        (
            _note_if(
                lambda document: any(line.number("correct") == 0 for line in get_rows(document, "matrix")),
                "A bar below: wrong.",
            ),
            _note_of_table("matrix"),
        ),
    ),
    Figure(
        *("human_model", "Raters and models", "human_model", _STUDY, "estimates.HUMAN_MODEL"),
        "Each compared with the raters, on the same items; whiskers: 95% intervals. Difference: kappa minus the "
        "raters' own kappa.",
        (
            _note_published("published_kappa", "human_model", "the paper's value for people or that model."),
            _note_of_table("human_model"),
        ),
    ),
    Figure(
        *("agreement_matrix", "Pairwise agreement", "agreement_matrix", _BOTH, "grids.AGREEMENT_MATRIX"),
        "Percentage of shared items with the same verdict.",
        (_note_range("agreement_matrix"),),
    ),
    Figure(
        *("conditional_matrix", "Conditional agreement", "conditional_matrix", _BOTH, "grids.CONDITIONAL_MATRIX"),
        "Of the items with a yes from the row, the percentage with a yes from the column.",
        (_note_range("conditional_matrix"),),
    ),
    Figure(
        *("fractions", "Share of yes verdicts", "fractions", _BOTH, "estimates.FRACTIONS"),
        "Bars: share of items, or ratings, with a yes; whiskers: 95% intervals.",
        (_note_published("published", "fractions", "the paper's value for the same classifiers."),),
    ),
    Figure(
        *("pass_at_k", "Experiments solved within k trials", "pass_at_k", _BENCHMARK, "benchmarks.PASS_AT_K"),
        "Share of experiments solved by at least one of k trials, unbiased estimate; whiskers: 95% intervals.",
        (_note_published("published", "pass_at_k", "the paper's value for the agent's declared model."),),
    ),
    Figure(
        *("failures", "How episodes ended", "failures", _BENCHMARK, "benchmarks.FAILURES"),
        "All episodes of an agent by their end; a failure is assigned to the part that caused it.",
    ),
    Figure(
        *("cost", "Cost", "cost", _BENCHMARK, "benchmarks.COST"),
        "US dollars of all calls of an agent's episodes; per success: divided by those that reached their goal.",
    ),
    Figure(
        *("precision", "Expected precision with more data", "precision", _STUDY, "estimates.PRECISION"),
        "Half the expected width of the 95% interval, from the variation of items and raters so far; blue: current.",
    ),
)  # in drawing order

FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _ALL}
