"""What to change in a design so that a result that would be empty is not. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from ratings.stats.estimates import FEW_ITEMS

DETECTION = (
    "auc_confidence_correct", "type2_auc", "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "sensitivity", "specificity",
    "dprime", "criterion_c",
)  # fmt: skip
AGREEMENT = (
    "avg_pairwise_agreement", "avg_pairwise_kappa", "avg_pairwise_kappa_weighted", "kappa_max", "fleiss_kappa",
    "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "brennan_prediger", "percent_agreement", "cohen_kappa",
)  # fmt: skip
FEWEST_RATERS = 3  # for an interval over new raters
FEWEST_SHARED = 20  # items two raters share, for their kappa to be in the mean


class Facts(NamedTuple):
    """What a plan has. `unperturbed` and `planted` are items of known reference, `unstated` imported ones of none, `located`
    those whose error has a known place; `shared` the fewest and most items that two raters have in common."""

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


def advise(stat: str, scope: Mapping[str, str], missing: str, reason: str, facts: Facts) -> str:
    """Return what to change, in a sentence without its full stop."""
    if stat.startswith("retest"):
        if facts.design == "crossover":
            return "measure it in a study of another design: in a crossover nothing is shown twice"
        if not facts.repeats:
            return 'show a share of the items a second time ("Shown again"; a tenth is enough)'
        return "show more items a second time, or ask for more items"
    if "no rating is incorrect" in reason:
        return f"ask for more items{_of(scope)}: at planning values a rater may give no wrong answer"
    if stat in DETECTION and (change := _classes(stat, facts)):
        return change
    if missing == "interval" and "new raters" in scope.values() and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters"
    if stat == "contrast":
        return _contrast(reason, facts)
    if stat in AGREEMENT:
        return _agreement(scope, reason, facts)
    if stat == "localisation":
        return _localisation(facts)
    if stat.startswith("dawid_skene"):
        return f"ask for at least {FEWEST_RATERS} raters and {FEWEST_RATERS} ratings per item"
    if missing == "interval" and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters, or for more items{_of(scope)}"
    return f"ask for more items{_of(scope)} or more ratings per item"


def _localisation(facts: Facts) -> str:
    """Return what marks need before they can show that an error was called for the right reason."""
    if not facts.planted:
        return _classes("sensitivity", facts)
    if not facts.marks:
        return "let raters mark the rows that are wrong"
    if not facts.located:
        return "state the place of the errors: when twins are vetted, or of imported items in the column `field`"
    return "ask for more items with a planted error whose place is known"


def _contrast(reason: str, facts: Facts) -> str:
    """Return what a difference between two sets of ratings needs."""
    if "fewer than three raters" in reason:
        return f"ask for at least {FEWEST_RATERS} raters of either side, or let the same raters rate both"
    if facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters who rate both sides"
    if "both unperturbed and planted" in reason:
        if change := _classes("contrast", facts):
            return change
        return "include unperturbed and planted items on both sides"
    return "ask for more items of either side, or for more raters who rate both"


def _classes(stat: str, facts: Facts) -> str:
    """Return what a number that compares two classes needs first; "" where both are there."""
    wants_right = stat != "sensitivity" and not facts.unperturbed
    wants_wrong = stat != "specificity" and not facts.planted
    if not wants_right and not wants_wrong:
        return ""
    if facts.kind == "evidence":
        return _records(wants_right, facts)
    if facts.unstated:
        return "state the perturbation of the imported items (column `perturbation`) or their truth (column `truth`)"
    return "include unperturbed items" if wants_right else "include items with planted errors"


def _records(wants_right: bool, facts: Facts) -> str:
    """Return what records of evidence need, whose reference is a declared truth or nothing."""
    if facts.unstated:
        return "state whether the evidence of the imported records is sufficient (column `truth`)"
    if not facts.unperturbed and not facts.planted:
        return "nothing: records of evidence carry no planted errors; import items whose reference is known"
    return f"import records that are declared {'sufficient' if wants_right else 'insufficient'}, too"


def _agreement(scope: Mapping[str, str], reason: str, facts: Facts) -> str:
    if facts.per_item < 2:
        return "ask for at least 2 ratings per item"
    if "rarer verdict" in reason or "one and the same" in reason:
        return f"ask for more items{_of(scope)}: at this share of errors the rarer verdict is given too seldom"
    overlap = int(scope.get("min_overlap", "1"))
    if facts.shared[1] == 0 or "no item was rated by both" in reason:
        return "ask for more ratings per item or fewer raters, so that raters share items"
    if "in common" in reason or FEW_ITEMS in reason or facts.shared[1] < overlap:
        enough = f"so that two raters share {FEWEST_SHARED}"
        if facts.per_item >= facts.raters:
            return f"ask for more items{_of(scope)}, {enough}"
        return f"ask for more ratings per item, fewer raters or more items{_of(scope)}, {enough}"
    return f"ask for more items{_of(scope)} or more ratings per item"


def _of(scope: Mapping[str, str]) -> str:
    return " of each source" if "source" in scope else ""
