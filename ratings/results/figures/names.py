"""Titles and notes of figures. Pages import this module, so it does not import the plotting libraries."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ratings.results.figures import tables
from ratings.results.figures.tables import Document

POOLED = "all sources"  # what tables have in place of a source in rows for all sources together

# A function that returns a note about a document, or "".
ExtraNote = Callable[[Document], str]


class FigureInfo(NamedTuple):
    """The texts of a figure, and where it occurs.

    `table`: name of the table that the figure shows. `kinds`: "study" and "benchmark", the kinds of document that can have the
    figure. `note`: how to read the figure. `extras`: functions that return a further note if it applies to a document.
    """

    name: str
    title: str
    table: str
    kinds: frozenset[str]
    note: str
    extras: tuple[ExtraNote, ...] = ()

    def get_title(self, document: Document) -> str:
        """Return the figure's title for this document."""
        # If no reference is known, only the pace is drawn, so the title must not mention correct answers.
        return _PACE if self.name == "drift" and not _has_correct(document) else self.title

    def get_note(self, document: Document) -> str:
        """Return the notes on how to read this document's figure."""
        return " ".join([self.note, *filter(None, (extra(document) for extra in self.extras))])


def _note_if(applies: Callable[[Document], bool], note: str) -> ExtraNote:
    return lambda document: note if applies(document) else ""


def _has_errors(document: Document) -> bool:
    return any(tables.get_text(line, "error") in tables.PLANTED for line in tables.get_rows(document, "rates"))


def _has_published_passes(document: Document) -> bool:
    return any(tables.get_number(line, "published") is not None for line in tables.get_rows(document, "pass_at_k"))


def _has_published(document: Document) -> bool:
    return any(tables.get_number(line, "published") is not None for line in tables.get_rows(document, "rates"))


def _has_wrong(document: Document) -> bool:
    return any(tables.get_number(line, "correct") == 0 for line in tables.get_rows(document, "matrix"))


def _sample_note(document: Document) -> str:
    """Return a note on the items and raters that the matrix contains; "" if it contains all."""
    return " ".join(tables.get_notes(document, "matrix"))


def _has_machines(document: Document) -> bool:
    return any(tables.get_text(line, "kind") in tables.MACHINES for line in tables.get_rows(document, "misses"))


def _has_correct(document: Document) -> bool:
    return any(tables.get_number(line, "correct_share") is not None for line in tables.get_rows(document, "drift"))


def _has_published_in(table: str, column: str) -> Callable[[Document], bool]:
    return lambda document: any(
        tables.get_number(line, column) is not None for line in tables.get_rows(document, table)
    )


def _table_notes(table: str) -> ExtraNote:
    return lambda document: " ".join(tables.get_notes(document, table))


def _published_note(name: str) -> ExtraNote:
    """Return the function that finds the published range of a matrix in the table's notes."""
    # The table has other notes as well; only the published range explains this figure.
    return lambda document: " ".join(note for note in tables.get_notes(document, name) if note.startswith("Published"))


_PACE = "Pace by position"  # title if no reference is known
_ERRORS = _note_if(_has_errors, "Orange: errors were planted.")
_STUDY, _BENCHMARK = frozenset({"study"}), frozenset({"benchmark"})
_BOTH = _STUDY | _BENCHMARK
_GROUPED = "Shares of ratings; whiskers: 95% intervals for new raters and new items."

_ALL = (
    FigureInfo(
        "rates",
        "Rates by source",
        "rates",
        _STUDY,
        "Bars: share of ratings; whiskers: 95% intervals for new raters and new items.",
        (_ERRORS, _note_if(_has_published, "Diamond: the paper's value for the declared model.")),
    ),
    FigureInfo(
        "confidence",
        "Confidence by verdict",
        "confidence",
        _STUDY,
        "Numbers: percentage of the source's ratings, by confidence (1 to 5) and verdict.",
    ),
    FigureInfo(
        "violins",
        "Confidence as densities",
        "spread",
        _STUDY,
        "Gaussian kernel density of confidence, bandwidth 0.4, reflected at 1 and 5, each half of the "
        "same area; none below five ratings. Dot: median; line: the middle half of the ratings.",
    ),
    FigureInfo(
        "roc",
        "ROC curves: outcomes with an error against those without",
        "roc",
        _STUDY,
        "One point per level of the signed rating; the error is the signal. Dashed: chance. Curves "
        "pool all ratings; beside each, the mean of the raters' own AUCs and its 95% interval.",
    ),
    FigureInfo(
        "localisation",
        "Planted errors located",
        "localisation",
        _STUDY,
        "Of the planted errors rated not plausible, the share with a mark on the planted row; whiskers: 95% intervals for new "
        "raters and new items. Single raters are in the table.",
    ),
    FigureInfo(
        "agreement",
        "Agreement between raters",
        "agreement",
        _STUDY,
        "Thick whiskers: 95% intervals for these raters and new items; thin ones with caps: for new "
        "raters and new items.",
    ),
    FigureInfo(
        "misses",
        "Detected and missed errors",
        "misses",
        _STUDY,
        "Shares of ratings as an error; whiskers: 95% intervals. Single raters are in the table.",
        (_note_if(_has_machines, "Models: shares of items."),),
    ),
    FigureInfo(
        "contrasts",
        "Contrasts",
        "contrasts",
        _STUDY,
        "Differences with 95% intervals. Orange with a star: Holm's p, adjusted for all contrasts of the family and quantity, is "
        "below .05; blue: it is not, even if the interval, which is for a single contrast, excludes 0. Differences of d' are "
        "on another scale and only in the table.",
    ),
    FigureInfo("rates_by_experiment", "Rates by experiment", "rates_by_experiment", _STUDY, _GROUPED, (_ERRORS,)),
    FigureInfo("rates_by_action", "Rates by action", "rates_by_action", _STUDY, _GROUPED, (_ERRORS,)),
    FigureInfo("rates_by_error_kind", "Rates by kind of error", "rates_by_error_kind", _STUDY, _GROUPED, (_ERRORS,)),
    FigureInfo(
        "drift",
        "Correct answers by position",
        "drift",
        _STUDY,
        "Ratings by position in each rater's own order.",
        (_note_if(_has_correct, "Whiskers: 95% intervals."),),
    ),
    FigureInfo(
        "matrix",
        "Ratings by rater and item",
        "matrix",
        _STUDY,
        "One cell per rating: colour is the verdict, strength the confidence (with its digit if it fits).",
        (_note_if(_has_wrong, "A bar below: wrong."), _sample_note),
    ),
    FigureInfo(
        "human_model",
        "Raters and models",
        "human_model",
        _STUDY,
        "Each compared with the raters, on the same items; whiskers: 95% intervals. Difference: kappa minus the "
        "raters' own kappa.",
        (
            _note_if(
                _has_published_in("human_model", "published_kappa"),
                "Diamond: the paper's value for people or that model.",
            ),
            _table_notes("human_model"),
        ),
    ),
    FigureInfo(
        "agreement_matrix",
        "Pairwise agreement",
        "agreement_matrix",
        _BOTH,
        "Percentage of shared items with the same verdict.",
        (_published_note("agreement_matrix"),),
    ),
    FigureInfo(
        "conditional_matrix",
        "Conditional agreement",
        "conditional_matrix",
        _BOTH,
        "Of the items with a yes from the row, the percentage with a yes from the column.",
        (_published_note("conditional_matrix"),),
    ),
    FigureInfo(
        "fractions",
        "Share of yes verdicts",
        "fractions",
        _BOTH,
        "Bars: share of items, or ratings, with a yes; whiskers: 95% intervals.",
        (
            _note_if(
                _has_published_in("fractions", "published"), "Diamond: the paper's value for the same classifiers."
            ),
        ),
    ),
    FigureInfo(
        "pass_at_k",
        "Experiments solved within k trials",
        "pass_at_k",
        _BENCHMARK,
        "Share of experiments solved by at least one of k trials, unbiased estimate; whiskers: 95% intervals.",
        (_note_if(_has_published_passes, "Diamond: the paper's value for the agent's declared model."),),
    ),
    FigureInfo(
        "failures",
        "How episodes ended",
        "failures",
        _BENCHMARK,
        "All episodes of an agent by their end; a failure is assigned to the part that caused it.",
    ),
    FigureInfo(
        "cost",
        "Cost",
        "cost",
        _BENCHMARK,
        "US dollars of all calls of an agent's episodes; per success: divided by those that reached their goal.",
    ),
    FigureInfo(
        "precision",
        "Expected precision with more data",
        "precision",
        _STUDY,
        "Half the expected width of the 95% interval, from the variation of items and raters so far; blue: current.",
    ),
)  # in drawing order

NAMES: Mapping[str, FigureInfo] = {named.name: named for named in _ALL}
