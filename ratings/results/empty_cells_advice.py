"""Suggest changes of a design that would provide a missing result. The functions have no side effects."""

from collections.abc import Mapping
from typing import NamedTuple

from ratings.stats.estimates import FEW_ITEMS

# Names of statistics in the results of ratings.stats.
DETECTION = (
    "auc_confidence_correct", "type2_auc", "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "sensitivity", "specificity",
    "dprime", "criterion_c",
)  # fmt: skip
AGREEMENT = (
    "avg_pairwise_agreement", "avg_pairwise_kappa", "avg_pairwise_kappa_weighted", "kappa_max", "fleiss_kappa",
    "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "brennan_prediger", "percent_agreement", "cohen_kappa",
)  # fmt: skip
FEWEST_RATERS = 3  # least number of raters for an interval for new raters
FEWEST_SHARED = 20  # least number of shared items with which a pair's kappa enters the mean (document.MIN_OVERLAP)


class PlanFacts(NamedTuple):
    """The sizes and settings of a plan.

    Numbers of items: `unperturbed` (known to be without an error), `planted` (known to have an error), `unstated` (imported
    without a reference), and `located` (with an error at a known location). `shared`: the smallest and the largest number of
    items that two raters share.
    """

    kind: str  # "transition" or "evidence"
    design: str
    items: int
    unperturbed: int
    planted: int
    unstated: int
    located: int
    raters: int
    per_item: int
    shared: tuple[int, int]
    repeats: float
    marks: bool


def suggest_change(stat: str, scope: Mapping[str, str], missing: str, reason: str, facts: PlanFacts) -> str:
    """Return the change that would provide a missing result, as a sentence without a full stop.

    `missing`: "number" or "interval". `reason`: why it is missing.
    """
    if stat.startswith("retest"):
        if facts.design == "crossover":
            return "use a study of another design: a crossover study repeats no item"
        if not facts.repeats:
            return 'repeat some items ("Repeat items (%)"; 10% is enough)'
        return "repeat more items, or ask for more items"
    # This is checked before missing classes of items, because no answer may be wrong although both classes are present.
    if "no rating is incorrect" in reason:
        return f"ask for more items{_format_scope(scope)}: at the planning values a rater may give no wrong answer"
    # If a class of items is missing altogether, this explains a missing result better than the number of items does.
    if stat in DETECTION and (suggestion := _suggest_classes(stat, facts)):
        return suggestion
    if missing == "interval" and "new raters" in scope.values() and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters"
    if stat == "contrast":
        return _suggest_for_contrast(reason, facts)
    if stat in AGREEMENT:
        return _suggest_for_agreement(scope, reason, facts)
    if stat == "localisation":
        return _suggest_for_localisation(facts)
    if stat.startswith("dawid_skene"):
        return f"ask for at least {FEWEST_RATERS} raters and {FEWEST_RATERS} ratings per item"
    if missing == "interval" and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters, or for more items{_format_scope(scope)}"
    return f"ask for more items{_format_scope(scope)} or more ratings per item"


def _suggest_for_localisation(facts: PlanFacts) -> str:
    """Return the change that would provide a missing result on localisation."""
    if not facts.planted:
        return _suggest_classes("sensitivity", facts)
    if not facts.marks:
        return "let raters mark the rows that are wrong"
    if not facts.located:
        return "state the location of the errors: when vetting twins, or in the column `field` of imported items"
    return "ask for more items with a planted error at a known location"


def _suggest_for_contrast(reason: str, facts: PlanFacts) -> str:
    """Return the change that would provide a missing difference between two sets of ratings."""
    if "fewer than three raters" in reason:
        return f"ask for at least {FEWEST_RATERS} raters on each side, or let the same raters rate both"
    if facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters who rate both sides"
    if "both unperturbed and planted" in reason:
        if suggestion := _suggest_classes("contrast", facts):
            return suggestion
        return "include unperturbed and planted items on both sides"
    return "ask for more items on each side, or for more raters who rate both"


def _suggest_classes(stat: str, facts: PlanFacts) -> str:
    """Return how to add the class of items that this statistic lacks; "" if the plan has all classes that it needs."""
    lacks_unperturbed = stat != "sensitivity" and not facts.unperturbed
    lacks_planted = stat != "specificity" and not facts.planted
    if not lacks_unperturbed and not lacks_planted:
        return ""
    if facts.kind == "evidence":
        return _suggest_records(lacks_unperturbed, facts)
    if facts.unstated:
        return "state the perturbation of the imported items (column `perturbation`) or their truth (column `truth`)"
    return "include unperturbed items" if lacks_unperturbed else "include items with planted errors"


def _suggest_records(lacks_sufficient: bool, facts: PlanFacts) -> str:
    """Return how to add the class that evidence records lack.

    Only a declared truth can be the reference of a record.
    """
    if facts.unstated:
        return "state whether the evidence of the imported records is sufficient (column `truth`)"
    if not facts.unperturbed and not facts.planted:
        return "no change helps: evidence records have no planted errors; import items whose reference is known"
    return f"also import records that are declared {'sufficient' if lacks_sufficient else 'insufficient'}"


def _suggest_for_agreement(scope: Mapping[str, str], reason: str, facts: PlanFacts) -> str:
    if facts.per_item < 2:
        return "ask for at least 2 ratings per item"
    if "rarer verdict" in reason or "one and the same" in reason:
        return f"ask for more items{_format_scope(scope)}: at this share of errors the rarer verdict is too rare"
    min_overlap = int(scope.get("min_overlap", "1"))
    # If raters share no items at all, the suggestion differs from that for too few shared items.
    if facts.shared[1] == 0 or "no item was rated by both" in reason:
        return "ask for more ratings per item or fewer raters, so that raters share items"
    if "in common" in reason or FEW_ITEMS in reason or facts.shared[1] < min_overlap:
        enough = f"so that two raters share {FEWEST_SHARED}"
        # If every rater already rates every item, more ratings per item are impossible, and only more items help.
        if facts.per_item >= facts.raters:
            return f"ask for more items{_format_scope(scope)}, {enough}"
        return f"ask for more ratings per item, fewer raters or more items{_format_scope(scope)}, {enough}"
    return f"ask for more items{_format_scope(scope)} or more ratings per item"


def _format_scope(scope: Mapping[str, str]) -> str:
    return " of each source" if "source" in scope else ""
