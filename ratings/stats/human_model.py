"""Compare models with people: agreement of each model with the raters and of the raters with each other (Table 1 of the paper).

All rows of Table 1 use the same items: those that at least two people rated and all models judged. Matrices compare the
models with one another.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats import pairwise, resampling
from ratings.stats.estimates import CONSENSUS as CONSENSUS
from ratings.stats.estimates import MAJORITY as MAJORITY
from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.proportions import Rate, estimate_rate
from ratings.stats.rater_pairs import (
    RaterPairs,
    ScopedPairs,
    compute_defined_mean,
    iter_resampled_cells,
    tabulate_pairs,
)
from ratings.stats.ratings_table import Floats, RatingRecord, Ratings, build_ratings_table

PEOPLE, LEAVE_ONE_OUT = "raters with each other", "each rater with the others"
# Least co-minority count for an interval of a model's kappa. It is lower than CO_MINORITY, because the mean of a model's
# kappas with each rater varies less than a mean over pairs of raters.
CO_MINORITY_MODEL = 3.0
# With 40 items, the coverage of the interval of a difference of kappas was 78 to 90 % (bench/coverage.py).
MIN_ITEMS_FOR_DIFFERENCE = 50
# Prefix of a model's name in the joined table: no rater's name has it, and it sorts models after people.
_MODEL_PREFIX = "\uffff"
_NO_DIFFERENCE = "people are what the models are compared with"

Verdicts = Mapping[str, int]  # the verdict, 1 or 0, by item


class ModelComparison(NamedTuple):
    """One row of Table 1. `kind`: people, ensemble, or the declared kind of the model (such as machine or classifier).

    `difference`: the model's kappa with a rater minus that rater's mean kappa with the other raters, averaged over raters.
    It is undefined for people.
    """

    name: str
    kind: str
    agreement: Estimate
    kappa: Estimate
    difference: Estimate


class Ensemble(NamedTuple):
    """The joint verdicts of several models. `ties`: number of items without a majority; their joint verdict is 0."""

    verdicts: dict[str, int]
    ties: int


class _Means(NamedTuple):
    """Means over raters or pairs of raters, shape (n,), with one value for the data (n = 1) or one per resample."""

    agreement: Floats
    kappa: Floats
    difference: Floats | None


class MatrixCell(NamedTuple):
    """A cell of a matrix of models: share `value` of `base` items (None: of 0); `n` items judged by both."""

    row: str
    col: str
    value: float | None
    n: int
    base: int


def find_common_items(table: Ratings, models: Mapping[str, Verdicts]) -> set[str]:
    """Return the items that at least two raters rated and every model judged."""
    ratings_per_item = np.bincount(table.item, minlength=len(table.items))
    rated = {item for item, n in zip(table.items, ratings_per_item, strict=True) if n >= 2}
    return rated.intersection(*models.values()) if models else rated


def compare_models(
    table: Ratings,
    models: Mapping[str, Verdicts],
    *,
    kinds: Mapping[str, str] | None = None,
    min_overlap: int = pairwise.MIN_OVERLAP,
    seed: int = 0,
    resamples: int = 2000,
) -> list[ModelComparison]:
    """Return the rows of Table 1: people, each model and, if there are two or more models, their ensembles.

    People have two rows: the mean over pairs of raters, and the mean over raters of the agreement with the other raters.
    Intervals are for these raters and new items, from items resampled within sources. Raises ValueError if the table is
    not binary.
    """
    if not table.is_binary:
        raise ValueError("models are compared with people on verdicts of 1 and 0")
    common_items = find_common_items(table, models)
    people = table.select_ratings(np.array([item in common_items for item in table.items], dtype=np.bool_)[table.item])
    all_models = dict(models)
    if len(models) > 1:
        all_models |= {MAJORITY: compute_majority(models).verdicts, CONSENSUS: compute_consensus(models)}
    kind_of = dict.fromkeys(all_models, "ensemble") | dict.fromkeys(models, "machine") | dict(kinds or {})
    joined = _JoinedTable(people, all_models, min_overlap)
    comparisons = joined.iter_comparisons({name: kind_of[name] for name in all_models}, seed, resamples)
    return [_compare_people(people, min_overlap, seed, resamples), *comparisons]


def compute_majority(models: Mapping[str, Verdicts]) -> Ensemble:
    """Return for each item the verdict of the strict majority of the models that judged it; a tie is 0."""
    votes: dict[str, list[int]] = {}
    for verdicts in models.values():
        for item, verdict in verdicts.items():
            votes.setdefault(item, []).append(verdict)
    majority = {item: int(2 * sum(of_item) > len(of_item)) for item, of_item in sorted(votes.items())}
    return Ensemble(majority, sum(2 * sum(of_item) == len(of_item) for of_item in votes.values()))


def compute_consensus(models: Mapping[str, Verdicts]) -> dict[str, int]:
    """Return for each item that all models judged 1 if all their verdicts are 1, else 0."""
    judged = set.intersection(*(set(verdicts) for verdicts in models.values())) if models else set()
    return {item: min(verdicts[item] for verdicts in models.values()) for item in sorted(judged)}


def build_agreement_matrix(models: Mapping[str, Verdicts]) -> list[MatrixCell]:
    """Return for every two models the share of the items that both judged on which their verdicts are equal."""
    return [_compute_cell(row, col, models) for row in models for col in models]


def build_conditional_matrix(models: Mapping[str, Verdicts]) -> list[MatrixCell]:
    """Return for every two models the share of the column's verdicts that are 1 where the row's is 1."""
    return [_compute_cell(row, col, models, is_conditional=True) for row in models for col in models]


def estimate_fractions(models: Mapping[str, Verdicts]) -> dict[str, Rate]:
    """Return the share of each model's verdicts that are 1."""
    return {name: estimate_rate([verdict == 1 for verdict in verdicts.values()]) for name, verdicts in models.items()}


def collect_rater_verdicts(table: Ratings) -> dict[str, dict[str, int]]:
    """Return each rater's verdicts by item in the form of models' verdicts, for the matrices."""
    verdicts: dict[str, dict[str, int]] = {table.raters[index]: {} for index in np.unique(table.rater)}
    for rater, item, verdict in zip(table.rater, table.item, table.verdict, strict=True):
        verdicts[table.raters[rater]][table.items[item]] = int(verdict)
    return verdicts


def _compute_cell(row: str, col: str, models: Mapping[str, Verdicts], is_conditional: bool = False) -> MatrixCell:
    row_verdicts, column_verdicts = models[row], models[col]
    common_items = [item for item in row_verdicts if item in column_verdicts]
    base = [item for item in common_items if row_verdicts[item] == 1] if is_conditional else common_items
    # In the conditional base, equal to the row's verdict means that both are 1.
    matches = sum(column_verdicts[item] == row_verdicts[item] for item in base)
    return MatrixCell(row, col, matches / len(base) if base else None, len(common_items), len(base))


def _compare_people(ratings: Ratings, min_overlap: int, seed: int, resamples: int) -> ModelComparison:
    rows = pairwise.estimate_pair_means(ratings, min_overlap, seed=seed, resamples=resamples)
    of_all = {row.stat: row for row in rows if dict(row.args) == {"min_overlap": min_overlap}}
    kappa = of_all["avg_pairwise_kappa"]
    difference = build_estimate("model_difference", None, kappa.n, reason=_NO_DIFFERENCE)
    return ModelComparison(PEOPLE, "people", of_all["avg_pairwise_agreement"], kappa, difference)


class _JoinedTable:
    """The ratings of people and models in one table, and the pairs compared: two people, or a person and a model."""

    def __init__(self, people: Ratings, models: Mapping[str, Verdicts], min_overlap: int) -> None:
        self.min_overlap = min_overlap
        # All ratings of an item must have the same reference, pair and factors, and models' verdicts have none.
        rows = [row._replace(reference=None, pair="", factors={}) for row in people.to_records()]
        source = {row.item: row.source for row in rows}
        rows += [
            RatingRecord(item, _MODEL_PREFIX + name, verdict, source=source[item])
            for name, verdicts in models.items()
            for item, verdict in verdicts.items()
            if item in source
        ]
        self.table = build_ratings_table(rows)
        is_model = np.array([name.startswith(_MODEL_PREFIX) for name in self.table.raters], dtype=np.bool_)
        all_pairs = tabulate_pairs(self.table)
        # Models sort after people, so a pair whose first member is a model consists of two models. These pairs are removed.
        all_pairs = all_pairs.select_pairs(~is_model[all_pairs.first])
        pair_model = np.where(is_model[all_pairs.second], all_pairs.second, -1)
        is_used = np.zeros(len(all_pairs), dtype=np.bool_)
        # If people, or a model, have no pair with enough shared items, all their pairs with a shared item are used.
        for index in np.unique(pair_model):
            is_used[pair_model == index] = pairwise.choose_pairs(
                all_pairs.shared_items[pair_model == index], min_overlap
            )
        self.used, self.model = all_pairs.select_pairs(is_used), pair_model[is_used]  # by used pair; -1: two people
        # A matrix with a 1 where a person is in a pair of people, shape (raters, used pairs).
        pair = np.flatnonzero(self.model < 0)
        person = np.concatenate([self.used.first[pair], self.used.second[pair]])
        shape = (len(self.table.raters), len(self.used))
        self.others = csr_array((np.ones(len(person)), (person, np.concatenate([pair, pair]))), shape=shape)

    def compute_means(self, agreement: Floats, kappa: Floats) -> dict[str, _Means]:
        """Return means over raters, (n,), by model name ("": each rater with the others), of values (used pairs, n)."""
        with_others = _Means(_average_rows(self.others, agreement), _average_rows(self.others, kappa), None)
        means = {"": _Means(compute_defined_mean(with_others.agreement), compute_defined_mean(with_others.kappa), None)}
        for model_index in np.unique(self.model[self.model >= 0]):
            of_model = self.model == model_index
            difference = kappa[of_model] - with_others.kappa[self.used.first[of_model]]
            columns = map(compute_defined_mean, (agreement[of_model], kappa[of_model], difference))
            means[self.table.raters[model_index].removeprefix(_MODEL_PREFIX)] = _Means(*columns)
        return means

    def iter_comparisons(self, names: Mapping[str, str], seed: int, resamples: int) -> Iterator[ModelComparison]:
        """Yield the row of each rater with the others, then a row for each model. `names`: kinds by name."""
        observed = self.compute_means(self.used.percent_agreement[:, None], self.used.cohen_kappa[:, None])
        rng = build_generator(seed, "human_model")
        resampled: dict[str, list[_Means]] = {name: [] for name in observed}
        for cells in iter_resampled_cells(ScopedPairs(self.table, self.used), self.table.item_source, resamples, rng):
            block = self.compute_means(self.used.compute_agreement(cells), self.used.compute_kappa(cells))
            for name, means in block.items():
                resampled[name].append(means)
        for name, kind in {"": "people", **names}.items():
            yield self._build_comparison(name, kind, observed.get(name), resampled.get(name, []))

    def _build_comparison(
        self, name: str, kind: str, observed: _Means | None, resampled: Sequence[_Means]
    ) -> ModelComparison:
        pairs = self._select_pairs(name)
        n, args = self._count_sample(name, pairs), {"min_overlap": self.min_overlap} | ({"model": name} if name else {})
        few_items, few_of_people = (
            pairwise.explain_few_items(of_scope.shared_items, self.min_overlap)
            for of_scope in (pairs, self._select_pairs(""))
        )
        too_few = few_items or _explain_unreliable_kappa(pairs, CO_MINORITY_MODEL if name else resampling.CO_MINORITY)
        # The interval of a mean agreement stays reliable where one verdict is rare.
        withheld = dict.fromkeys(_Means._fields, too_few)
        if not few_items and not _has_small_overlap(pairs):
            withheld["agreement"] = ""
        if few_of_people:
            withheld["difference"] = too_few or few_of_people
        elif n["items"] < MIN_ITEMS_FOR_DIFFERENCE:
            few = f"{n['items']} items; below {MIN_ITEMS_FOR_DIFFERENCE} no interval of the difference is reliable"
            withheld["difference"] = few
        widening = resampling.compute_widening(n["items"], len(np.unique(self.table.source)))
        estimates = []
        for field in _Means._fields:
            stat = f"{'model' if name or field == 'difference' else 'leave_one_out'}_{field}"
            if not name and field == "difference":
                estimates.append(build_estimate(stat, None, n, args, reason=_NO_DIFFERENCE))
                continue
            value = getattr(observed, field) if observed else None
            if value is None or np.isnan(value[0]):
                reason = self._explain_undefined(name, field, pairs)
                estimates.append(build_estimate(stat, None, n, args, reason=reason))
                continue
            replicates = np.concatenate([np.zeros(0), *(getattr(means, field) for means in resampled)])
            corrects_bias = field != "agreement"
            # A difference of two kappas, each between -1 and 1, is between -2 and 2.
            limit = 2 if field == "difference" else 1
            interval = resampling.compute_these_raters_interval(
                float(value[0]), replicates, bias_corrected=corrects_bias, widening=widening, within=(-limit, limit)
            )
            if withheld[field]:
                interval = resampling.ResampledInterval(None, reason=withheld[field])
            counts = {**n, "undefined_resamples": interval.undefined} if interval.undefined else n
            method = resampling.ITEM_BOOTSTRAP_CORRECTED if corrects_bias else resampling.ITEM_BOOTSTRAP
            estimates.append(build_estimate(stat, value[0], counts, args, interval.interval, method, interval.reason))
        return ModelComparison(name or LEAVE_ONE_OUT, kind, *estimates)

    def _select_pairs(self, name: str) -> RaterPairs:
        if not name:
            return self.used.select_pairs(self.model < 0)
        if _MODEL_PREFIX + name not in self.table.raters:
            return self.used.select_pairs(np.zeros(len(self.used), dtype=np.bool_))
        return self.used.select_pairs(self.model == self.table.raters.index(_MODEL_PREFIX + name))

    def _count_sample(self, name: str, pairs: RaterPairs) -> dict[str, int]:
        """Return a row's sample sizes: people's items and ratings, raters, pairs with a defined and undefined kappa."""
        people = np.union1d(pairs.first, pairs.second) if not name else pairs.first
        ratings = self.table.select_ratings(np.isin(self.table.rater, people))
        if _MODEL_PREFIX + name in self.table.raters:
            model_items = self.table.select_rater(_MODEL_PREFIX + name).item
            ratings = ratings.select_ratings(np.isin(ratings.item, model_items))
        undefined = int(np.isnan(pairs.cohen_kappa).sum())
        n = {"items": len(np.unique(ratings.item)), "raters": len(people), "ratings": len(ratings)}
        return {**n, "pairs_used": len(pairs) - undefined, "pairs_undefined": undefined}

    @staticmethod
    def _explain_undefined(name: str, field: str, pairs: RaterPairs) -> str:
        if not len(pairs):
            missing = "no item was judged by the model and rated by a person"
            return missing if name else "no pair of raters has one of these items in common"
        if field == "difference":
            return "there is no kappa of a rater both with the model and with another rater"
        return "0/0 in every pair: both gave one and the same answer throughout"


def _has_small_overlap(pairs: RaterPairs) -> bool:
    return len(pairs) > 0 and bool(pairs.shared_items.min() < pairwise.MIN_ITEMS_FOR_INTERVAL)


def _explain_unreliable_kappa(pairs: RaterPairs, floor: float) -> str:
    """Return why no interval of these pairs' mean kappa is reliable, given the least co-minority count; "" if one is."""
    if not len(pairs):
        return ""
    if _has_small_overlap(pairs):
        return f"a pair shares only {pairs.shared_items.min():.0f} items; below {pairwise.MIN_ITEMS_FOR_INTERVAL} no interval of kappa is reliable"
    if (co_minority := float(np.mean(pairs.co_minority))) < floor:
        return (
            f"by chance a pair would both give the rarer verdict on {co_minority:.1f} items; "
            f"below {floor:.0f} no interval of kappa is reliable"
        )
    return ""


def _average_rows(which: csr_array, values: Floats) -> Floats:
    """Return for each row of the 0/1 matrix the mean of the defined values (pairs, n) it selects, shape (rows, n)."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Floats = (which @ np.where(defined, values, 0)) / (which @ defined.astype(np.float64))
    return means
