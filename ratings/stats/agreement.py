"""How far raters agree: Cohen's kappa of two, and its mean over all pairs with enough items in common."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import cohen_kappa_score

MIN_OVERLAP = 20


class Kappa(NamedTuple):
    """Cohen's kappa of one pair on the items both answered. `value` None where both gave one and the same answer only."""

    value: float | None
    observed: float | None
    n: int
    reason: str = ""


class PairwiseKappa(NamedTuple):
    """Unweighted mean of kappa over pairs with at least `min_overlap` items in common (Light 1971).

    `observed` is the mean observed agreement of those pairs, the ones with undefined kappa included.
    """

    value: float | None
    observed: float | None
    n_items: int
    n_raters: int
    n_ratings: int
    pairs_used: int
    pairs_undefined: int
    pairs_below_overlap: int
    min_overlap: int
    reason: str = ""


class Answer(NamedTuple):
    """One rater's verdict on one item."""

    item: str
    rater: str
    verdict: bool


def cohen(pairs: Sequence[tuple[bool, bool]]) -> Kappa:
    """Cohen's kappa, (po - pe) / (1 - pe), of two raters' verdicts on the same items."""
    n = len(pairs)
    if n == 0:
        return Kappa(None, None, 0, "no item was rated by both")
    table = Counter(pairs)
    observed = (table[True, True] + table[False, False]) / n
    if n in (table[True, True], table[False, False]):
        return Kappa(None, observed, n, "0/0: both gave one and the same answer throughout")
    return Kappa(_kappa(*(table[pair] for pair in _CELLS)), observed, n)


_CELLS = ((False, False), (False, True), (True, False), (True, True))


@lru_cache(maxsize=100_000)
def _kappa(*counts: int) -> float:
    """Kappa of the two-by-two table with these cells. Kept: two hundred raters are 19,900 pairs on each look at a page."""
    first, second = [int(a) for a, _ in _CELLS], [int(b) for _, b in _CELLS]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndefinedMetricWarning)
        return float(cohen_kappa_score(first, second, labels=[0, 1], sample_weight=list(counts)))


def pairwise(answers: Iterable[Answer], min_overlap: int = MIN_OVERLAP) -> PairwiseKappa:
    """Mean kappa over all pairs of raters. ValueError if a rater answered an item twice."""
    by_rater = _by_rater(answers)
    kappas = [_of_two(by_rater[a], by_rater[b]) for a, b in combinations(sorted(by_rater), 2)]
    enough = [kappa for kappa in kappas if kappa.n >= min_overlap]
    values = [kappa.value for kappa in enough if kappa.value is not None]
    return PairwiseKappa(
        value=_mean(values),
        observed=_mean([kappa.observed for kappa in enough if kappa.observed is not None]),
        n_items=len({item for verdicts in by_rater.values() for item in verdicts}),
        n_raters=len(by_rater),
        n_ratings=sum(map(len, by_rater.values())),
        pairs_used=len(values),
        pairs_undefined=len(enough) - len(values),
        pairs_below_overlap=len(kappas) - len(enough),
        min_overlap=min_overlap,
        reason="" if values else _why_none(kappas, enough, min_overlap),
    )


class ModelAgreement(NamedTuple):
    """A model against people: means over raters of agreement and kappa with the model, on the items each rated."""

    value: float | None
    observed: float | None
    n_items: int
    n_raters: int
    n_ratings: int
    raters_used: int
    raters_undefined: int
    raters_below_overlap: int
    min_overlap: int
    reason: str = ""


def with_model(answers: Iterable[Answer], model: Mapping[str, bool], min_overlap: int = MIN_OVERLAP) -> ModelAgreement:
    """Mean kappa and agreement of raters with a model's verdicts (item -> verdict); items it did not judge are left out."""
    by_rater = _by_rater(answer for answer in answers if answer.item in model)
    kappas = [_of_two(verdicts, model) for verdicts in by_rater.values()]
    enough = [kappa for kappa in kappas if kappa.n >= min_overlap]
    values = [kappa.value for kappa in enough if kappa.value is not None]
    return ModelAgreement(
        value=_mean(values),
        observed=_mean([kappa.observed for kappa in enough if kappa.observed is not None]),
        n_items=len({item for verdicts in by_rater.values() for item in verdicts}),
        n_raters=len(by_rater),
        n_ratings=sum(map(len, by_rater.values())),
        raters_used=len(values),
        raters_undefined=len(enough) - len(values),
        raters_below_overlap=len(kappas) - len(enough),
        min_overlap=min_overlap,
        reason="" if values else _why_no_model(kappas, enough, min_overlap),
    )


def _by_rater(answers: Iterable[Answer]) -> dict[str, dict[str, bool]]:
    by_rater: dict[str, dict[str, bool]] = defaultdict(dict)
    count: Counter[tuple[str, str]] = Counter()
    for answer in answers:
        by_rater[answer.rater][answer.item] = answer.verdict
        count[answer.rater, answer.item] += 1
    if twice := [key for key, n in count.items() if n > 1]:
        raise ValueError(f"rater {twice[0][0]} answered item {twice[0][1]} more than once")
    return by_rater


def _of_two(first: Mapping[str, bool], second: Mapping[str, bool]) -> Kappa:
    return cohen([(first[item], second[item]) for item in first if item in second])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _why_none(kappas: Sequence[Kappa], enough: Sequence[Kappa], min_overlap: int) -> str:
    if not kappas:
        return "there are fewer than two raters with ratings"
    if not enough:
        most = max(kappa.n for kappa in kappas)
        return f"no pair of raters has {min_overlap} items in common; the most is {most}"
    return "0/0 in every pair: both raters gave one and the same answer throughout"


def _why_no_model(kappas: Sequence[Kappa], enough: Sequence[Kappa], min_overlap: int) -> str:
    if not kappas:
        return "no item was judged by the model and rated by a person"
    if not enough:
        most = max(kappa.n for kappa in kappas)
        return f"no rater has {min_overlap} items in common with the model; the most is {most}"
    return "0/0 for every rater: rater and model gave one and the same answer throughout"
