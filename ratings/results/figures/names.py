"""What figures are called and how they are read. Light: pages read this without what draws."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ratings.results.figures import tables
from ratings.results.figures.tables import Document

POOLED = "all sources"  # in the place of a source: the row of all of them together

# What is said of a document; "" where there is nothing to say.
Extra = Callable[[Document], str]


class Named(NamedTuple):
    """`kinds`: whose documents have the figure ("study", "benchmark"). `table`: the one it shows. `note`: how to read it.

    `extras`: more about reading it, where the document has what they speak of.
    """

    name: str
    title: str
    table: str
    kinds: frozenset[str]
    note: str
    extras: tuple[Extra, ...] = ()

    def title_of(self, document: Document) -> str:
        """What the figure of this document is called."""
        return _PACE if self.name == "drift" and not _has_correct(document) else self.title

    def note_of(self, document: Document) -> str:
        """How to read the figure of this document."""
        return " ".join([self.note, *filter(None, (extra(document) for extra in self.extras))])


def _where(there: Callable[[Document], bool], said: str) -> Extra:
    return lambda document: said if there(document) else ""


def _has_errors(document: Document) -> bool:
    return any(tables.text(line, "error") in tables.PLANTED for line in tables.rows(document, "rates"))


def _has_published_passes(document: Document) -> bool:
    return any(tables.number(line, "published") is not None for line in tables.rows(document, "pass_at_k"))


def _has_published(document: Document) -> bool:
    return any(tables.number(line, "published") is not None for line in tables.rows(document, "rates"))


def _has_wrong(document: Document) -> bool:
    return any(tables.number(line, "correct") == 0 for line in tables.rows(document, "matrix"))


def _cut(document: Document) -> str:
    """Which of the items and raters the matrix has, where it has not all of them."""
    return " ".join(tables.notes(document, "matrix"))


def _has_machines(document: Document) -> bool:
    return any(tables.text(line, "kind") in tables.MACHINES for line in tables.rows(document, "misses"))


def _has_correct(document: Document) -> bool:
    return any(tables.number(line, "correct_share") is not None for line in tables.rows(document, "drift"))


def _has_published_in(table: str, column: str) -> Callable[[Document], bool]:
    return lambda document: any(tables.number(line, column) is not None for line in tables.rows(document, table))


def _notes_of(table: str) -> Extra:
    return lambda document: " ".join(tables.notes(document, table))


def _published_range(name: str) -> Extra:
    """What the paper prints of a matrix, as the table's notes have it."""
    return lambda document: " ".join(note for note in tables.notes(document, name) if note.startswith("Published"))


_PACE = "Pace from first to last item"  # where no truth is known
_ERRORS = _where(_has_errors, "Orange: errors were planted.")
_STUDY, _BENCHMARK = frozenset({"study"}), frozenset({"benchmark"})
_BOTH = _STUDY | _BENCHMARK
_GROUPED = "Shares of ratings; whiskers: 95% intervals for new raters and new items."

_ALL = (
    Named(
        "rates",
        "Rates by source",
        "rates",
        _STUDY,
        "Bars: share of ratings; whiskers: 95% intervals for new raters and new items.",
        (_ERRORS, _where(_has_published, "Diamond: the paper's value for the declared model.")),
    ),
    Named(
        "confidence",
        "Confidence by verdict",
        "confidence",
        _STUDY,
        "Numbers: percent of the source's ratings, by confidence (1 to 5) and verdict.",
    ),
    Named(
        "violins",
        "Confidence as densities",
        "spread",
        _STUDY,
        "Gaussian kernel density of confidence, bandwidth 0.4, reflected at 1 and 5, each half of the "
        "same area; none below five ratings. Dot: median; line: the middle half of the ratings.",
    ),
    Named(
        "roc",
        "Outcomes with an error against those without (ROC)",
        "roc",
        _STUDY,
        "A point for each level of the signed rating; the error is the signal. Dashed: chance. Curves "
        "are of all ratings together; beside each the mean of raters' own AUCs and its 95% interval.",
    ),
    Named(
        "localisation",
        "Right for the right reason",
        "localisation",
        _STUDY,
        "Of the planted errors that were called, the share with a mark on the planted row; whiskers: 95% intervals for new "
        "raters and new items. Single raters are in the table.",
    ),
    Named(
        "agreement",
        "Agreement between raters",
        "agreement",
        _STUDY,
        "Thick whiskers: 95% intervals for these raters and new items; thin ones with caps: for new "
        "raters and new items.",
    ),
    Named(
        "misses",
        "What is caught and what is missed",
        "misses",
        _STUDY,
        "Shares of ratings that call an error; whiskers: 95% intervals. Single raters are in the table.",
        (_where(_has_machines, "Machines: shares of items."),),
    ),
    Named(
        "contrasts",
        "Contrasts",
        "contrasts",
        _STUDY,
        "Differences with 95% intervals. Orange with a star: Holm's p, adjusted for all contrasts of the family and quantity, is "
        "below .05; blue: it is not, also where the interval, which is of one contrast alone, leaves out 0. Differences of d' are "
        "on another scale and in the table alone.",
    ),
    Named("rates_by_experiment", "Rates by experiment", "rates_by_experiment", _STUDY, _GROUPED, (_ERRORS,)),
    Named("rates_by_action", "Rates by action", "rates_by_action", _STUDY, _GROUPED, (_ERRORS,)),
    Named("rates_by_error_kind", "Rates by kind of error", "rates_by_error_kind", _STUDY, _GROUPED, (_ERRORS,)),
    Named(
        "drift",
        "Correct answers from first to last item",
        "drift",
        _STUDY,
        "Ratings by their place in the order that each rater got.",
        (_where(_has_correct, "Whiskers: 95% intervals."),),
    ),
    Named(
        "matrix",
        "Raters and items",
        "matrix",
        _STUDY,
        "A cell for each rating: colour is the verdict, strength the confidence (its digit where there is room).",
        (_where(_has_wrong, "A bar below: wrong."), _cut),
    ),
    Named(
        "human_model",
        "Raters and machines",
        "human_model",
        _STUDY,
        "Each against the raters, on the same items; whiskers: 95% intervals. Difference: kappa less the "
        "raters' own with each other.",
        (
            _where(
                _has_published_in("human_model", "published_kappa"),
                "Diamond: the paper's value for people or that model.",
            ),
            _notes_of("human_model"),
        ),
    ),
    Named(
        "agreement_matrix",
        "Agreement with each other",
        "agreement_matrix",
        _BOTH,
        "Percent of the items that both judged with the same verdict.",
        (_published_range("agreement_matrix"),),
    ),
    Named(
        "conditional_matrix",
        "If one says yes, how often the other does",
        "conditional_matrix",
        _BOTH,
        "Of the items that the row says yes to, the percentage that the column says yes to.",
        (_published_range("conditional_matrix"),),
    ),
    Named(
        "fractions",
        "How often each says yes",
        "fractions",
        _BOTH,
        "Bars: share of items, or ratings, that say yes; whiskers: 95% intervals.",
        (_where(_has_published_in("fractions", "published"), "Diamond: the paper's value for the same classifiers."),),
    ),
    Named(
        "pass_at_k",
        "Experiments solved in k attempts",
        "pass_at_k",
        _BENCHMARK,
        "Share of experiments that at least one of k attempts solves, unbiased estimate; whiskers: 95% intervals.",
        (_where(_has_published_passes, "Diamond: the paper's value for the agent's declared model."),),
    ),
    Named(
        "failures",
        "What ended the episodes",
        "failures",
        _BENCHMARK,
        "All episodes of an agent, by what ended them; a failure belongs to the part that caused it.",
    ),
    Named(
        "cost",
        "Cost",
        "cost",
        _BENCHMARK,
        "US dollars of all calls of an agent's episodes; per success: divided by those that reached their goal.",
    ),
    Named(
        "precision",
        "What more ratings would give",
        "precision",
        _STUDY,
        "Half of the 95% interval's width to be expected, from how much items and raters differed so "
        "far; blue: as it is now.",
    ),
)  # in the order in which they are drawn

NAMES: Mapping[str, Named] = {named.name: named for named in _ALL}
