"""Models beside people: how far each agrees with the raters and the raters with each other (paper Table 1), and with each other.

Everything on the same items: those that two people or more rated and all models judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.agreement.agreement import LEAST_FOR_INTERVAL, MIN_OVERLAP, average, choose_pairs, explain_few
from ratings.stats.estimates import CONSENSUS as CONSENSUS
from ratings.stats.estimates import MAJORITY as MAJORITY
from ratings.stats.estimates import Estimate, estimate, generator
from ratings.stats.intervals import CO_MINORITY, CORRECTED, THESE, of_these_raters
from ratings.stats.pair_resampling import Scoped, mean_of_defined, resampled_cells
from ratings.stats.pairing import Pairs, pairs_of
from ratings.stats.proportions import rate
from ratings.stats.resampling import Resampled, widening
from ratings.stats.table import Floats, Ratings, Row, build

PEOPLE, LEAVE_ONE_OUT = "raters with each other", "each rater with the others"
# A mean over raters of one model's kappas is steadier than a mean over pairs of raters: it holds with fewer rare verdicts.
CO_MINORITY_MODEL = 3.0
LEAST_FOR_DIFFERENCE = 50  # items; with 40 the interval of a difference of kappas held 78 to 90 % (bench/coverage.py)
_MODEL = "\uffff"  # before a model's name: no rater is called so, and models come behind the people

Verdicts = Mapping[str, int]  # item -> 1 or 0


class Standing(NamedTuple):
    """One row of Table 1. kind: people, ensemble, or what the model is said to be (machine, classifier).

    `difference`: the model's kappa with a rater minus that rater's mean kappa with the other raters on the same items,
    averaged over raters; undefined for people.
    """

    who: str
    kind: str
    agreement: Estimate
    kappa: Estimate
    difference: Estimate


class Ensemble(NamedTuple):
    """What models together say. `ties`: items without a majority, counted as 0."""

    verdicts: dict[str, int]
    ties: int


class _Measured(NamedTuple):
    """Means over raters or pairs, shape (n,): one number, or one a resample."""

    agreement: Floats
    kappa: Floats
    difference: Floats | None


class Cell(NamedTuple):
    """A cell of a matrix of models. value None where `base` is 0; n: items both judged; base: what the share is of."""

    row: str
    col: str
    value: float | None
    n: int
    base: int


class Fraction(NamedTuple):
    """The share of 1 among the items one judged, with the Wilson interval; None where none was judged."""

    who: str
    k: int
    n: int
    share: float | None
    low: float | None
    high: float | None


def common_items(table: Ratings, models: Mapping[str, Verdicts]) -> set[str]:
    """Items that two raters or more rated and every model judged."""
    raters_of = np.bincount(table.item, minlength=len(table.items))
    rated = {item for item, n in zip(table.items, raters_of, strict=True) if n >= 2}
    return rated.intersection(*models.values()) if models else rated


def standings(
    table: Ratings,
    models: Mapping[str, Verdicts],
    *,
    kinds: Mapping[str, str] | None = None,
    min_overlap: int = MIN_OVERLAP,
    seed: int = 0,
    resamples: int = 2000,
) -> list[Standing]:
    """Table 1: people (twice: mean over pairs, and leave one out), each model, and ensembles of two models or more.

    Intervals: items resampled within source, these raters. ValueError where verdicts are not 1 and 0.
    """
    if not table.binary:
        raise ValueError("models are compared with people on verdicts of 1 and 0")
    own = _of_items(table, common_items(table, models))
    given = {**models, **(_ensembles(models) if len(models) > 1 else {})}
    said = dict.fromkeys(given, "ensemble") | dict.fromkeys(models, "machine") | dict(kinds or {})
    joined = _Joined(own, given, min_overlap)
    named = {name: said[name] for name in given}
    return [_people(own, min_overlap, seed, resamples), *joined.rows(named, seed, resamples)]


def majority(models: Mapping[str, Verdicts]) -> Ensemble:
    """The strict majority of the models that judged an item; a tie is 0."""
    votes: dict[str, list[int]] = {}
    for verdicts in models.values():
        for item, verdict in verdicts.items():
            votes.setdefault(item, []).append(verdict)
    ties = sum(2 * sum(given) == len(given) for given in votes.values())
    return Ensemble({item: int(2 * sum(given) > len(given)) for item, given in sorted(votes.items())}, ties)


def consensus(models: Mapping[str, Verdicts]) -> dict[str, int]:
    """1 where all models say 1, among the items all of them judged."""
    judged = set.intersection(*(set(verdicts) for verdicts in models.values())) if models else set()
    return {item: min(verdicts[item] for verdicts in models.values()) for item in sorted(judged)}


def agreement_matrix(models: Mapping[str, Verdicts]) -> list[Cell]:
    """Share of items on which row and column say the same, of the items both judged."""
    return [_cell(row, col, models) for row in models for col in models]


def conditional_matrix(models: Mapping[str, Verdicts]) -> list[Cell]:
    """Share of 1 by the column's model, of the items both judged to which the row's says 1. Not symmetric."""
    return [_cell(row, col, models, given=True) for row in models for col in models]


def fractions(models: Mapping[str, Verdicts]) -> list[Fraction]:
    """How often each says 1."""
    found = {name: rate([verdict == 1 for verdict in verdicts.values()]) for name, verdicts in models.items()}
    return [Fraction(name, one.k, one.n, one.value, one.low, one.high) for name, one in found.items()]


def of_raters(table: Ratings) -> dict[str, dict[str, int]]:
    """The raters' own verdicts in the form of models': what makes them rows and columns of the matrices."""
    found: dict[str, dict[str, int]] = {table.raters[at]: {} for at in np.unique(table.rater)}
    for rater, item, verdict in zip(table.rater, table.item, table.verdict, strict=True):
        found[table.raters[rater]][table.items[item]] = int(verdict)
    return found


def _cell(row: str, col: str, models: Mapping[str, Verdicts], given: bool = False) -> Cell:
    one, two = models[row], models[col]
    both = [item for item in one if item in two]
    base = [item for item in both if one[item] == 1] if given else both
    same = sum(two[item] == 1 if given else two[item] == one[item] for item in base)
    return Cell(row, col, same / len(base) if base else None, len(both), len(base))


def _ensembles(models: Mapping[str, Verdicts]) -> dict[str, Verdicts]:
    return {MAJORITY: majority(models).verdicts, CONSENSUS: consensus(models)}


def _of_items(table: Ratings, items: set[str]) -> Ratings:
    kept = np.array([item in items for item in table.items], dtype=np.bool_)
    return table.where(kept[table.item])


def _people(own: Ratings, min_overlap: int, seed: int, resamples: int) -> Standing:
    found = {
        row.stat: row
        for row in average(own, min_overlap, seed=seed, resamples=resamples)
        if dict(row.args) == {"min_overlap": min_overlap}
    }
    kappa = found["avg_pairwise_kappa"]
    return Standing(PEOPLE, "people", found["avg_pairwise_agreement"], kappa, _no_difference(kappa))


def _no_difference(kappa: Estimate) -> Estimate:
    return estimate("model_difference", None, kappa.n, reason="people are what the models are compared with")


class _Joined:
    """People and models in one table, and the pairs used: person with person, person with model, with enough items, or, of
    people or a model without such a pair, all with an item in common."""

    def __init__(self, people: Ratings, models: Mapping[str, Verdicts], min_overlap: int) -> None:
        self.min_overlap = min_overlap
        rows = [row._replace(reference=None, pair="", factors={}) for row in people.rows()]
        source = {row.item: row.source for row in rows}
        rows += [
            Row(item, _MODEL + name, verdict, source=source[item])
            for name, verdicts in models.items()
            for item, verdict in verdicts.items()
            if item in source
        ]
        self.table = build(rows)
        is_model = np.array([name.startswith(_MODEL) for name in self.table.raters], dtype=np.bool_)
        every = pairs_of(self.table)
        every = every.where(~is_model[every.first])
        models_of = np.where(is_model[every.second], every.second, -1)
        chosen = np.zeros(len(every), dtype=np.bool_)
        for of in np.unique(models_of):
            chosen[models_of == of] = choose_pairs(every.n[models_of == of], min_overlap)
        self.used = every.where(chosen)
        self.model = np.where(is_model[self.used.second], self.used.second, -1)  # of each pair used; -1: two people
        self.others = self._incidence()

    def _incidence(self) -> csr_array:
        """Which pairs of people each person is in, shape (raters, pairs used)."""
        people = np.flatnonzero(self.model < 0)
        place = np.concatenate([self.used.first[people], self.used.second[people]])
        shape = (len(self.table.raters), len(self.used))
        return csr_array((np.ones(len(place)), (place, np.concatenate([people, people]))), shape=shape)

    def measured(self, agreement: Floats, kappa: Floats) -> dict[str, _Measured]:
        """For "" (leave one out) and each model, its means over raters. Shapes (pairs, n) to (n,), NaN where undefined."""
        with_others = _Measured(_average(self.others, agreement), _average(self.others, kappa), None)
        found = {"": _Measured(mean_of_defined(with_others.agreement), mean_of_defined(with_others.kappa), None)}
        for at in np.unique(self.model[self.model >= 0]):
            own = self.model == at
            difference = kappa[own] - with_others.kappa[self.used.first[own]]
            name = self.table.raters[at].removeprefix(_MODEL)
            found[name] = _Measured(
                mean_of_defined(agreement[own]), mean_of_defined(kappa[own]), mean_of_defined(difference)
            )
        return found

    def rows(self, names: Mapping[str, str], seed: int, resamples: int) -> Iterator[Standing]:
        """The leave-one-out row, then one for each of these models (name -> kind)."""
        now = self.measured(self.used.agreement[:, None], self.used.kappa[:, None])
        rng = generator(seed, "human_model")
        drawn: dict[str, list[_Measured]] = {name: [] for name in now}
        for cells in resampled_cells(Scoped(self.table, self.used), self.table.item_source, resamples, rng):
            for name, one in self.measured(self.used.agreements(cells), self.used.kappas(cells)).items():
                drawn[name].append(one)
        for name, kind in {"": "people", **names}.items():
            yield self._standing(name, kind, now.get(name), drawn.get(name, []))

    def _standing(self, name: str, kind: str, now: _Measured | None, drawn: Sequence[_Measured]) -> Standing:
        pairs = self._pairs(name)
        n, why = self._n(name, pairs), self._why_none(name, pairs)
        args = {"min_overlap": self.min_overlap, **({"model": name} if name else {})}
        few = self._few(pairs)
        short = few or _too_few(pairs, CO_MINORITY_MODEL if name else CO_MINORITY)
        stats = ("model_agreement", "model_kappa", "model_difference") if name else _LEAVE_ONE_OUT
        sources = len(np.unique(self.table.source))
        found = []
        for stat, field in zip(stats, _Measured._fields, strict=True):
            value = getattr(now, field) if now else None
            again = [getattr(one, field) for one in drawn]
            if not name and field == "difference":
                found.append(estimate(stat, None, n, args=args, reason=_THEMSELVES))
            else:
                refused = "" if field == "agreement" and not few and not _shares_too_little(pairs) else short
                if field == "difference" and (people := self._few(self._pairs(""))):
                    refused = refused or people
                elif field == "difference" and n["items"] < LEAST_FOR_DIFFERENCE:
                    refused = f"{n['items']} items; below {LEAST_FOR_DIFFERENCE} no interval of the difference holds"
                replicates = np.concatenate([np.zeros(0), *again])
                drawn_again = _Drawn(replicates, widening(n["items"], sources), field != "agreement", refused)
                found.append(_estimate(stat, args, n, why, value, drawn_again))
        return Standing(name or LEAVE_ONE_OUT, kind, *found)

    def _pairs(self, name: str) -> Pairs:
        if not name:
            return self.used.where(self.model < 0)
        if _MODEL + name not in self.table.raters:
            return self.used.where(np.zeros(len(self.used), dtype=np.bool_))
        return self.used.where(self.model == self.table.raters.index(_MODEL + name))

    def _n(self, name: str, pairs: Pairs) -> dict[str, int]:
        """Items and ratings of people that the row rests on, and what became of its pairs."""
        people = np.union1d(pairs.first, pairs.second) if not name else pairs.first
        own = self.table.where(np.isin(self.table.rater, people))
        if _MODEL + name in self.table.raters:
            judged = self.table.of_rater(_MODEL + name).item
            own = own.where(np.isin(own.item, judged))
        undefined = int(np.isnan(pairs.kappa).sum())
        return {
            "items": len(np.unique(own.item)),
            "raters": len(people),
            "ratings": len(own),
            "pairs_used": len(pairs) - undefined,
            "pairs_undefined": undefined,
        }

    def _why_none(self, name: str, pairs: Pairs) -> str:
        if len(pairs):
            return ""
        if not name:
            return "no pair of raters has one of these items in common"
        return "no item was judged by the model and rated by a person"

    def _few(self, pairs: Pairs) -> str:
        """Return why a mean over these pairs is a point estimate from few items, or ""."""
        return explain_few(pairs.n, self.min_overlap)


def _shares_too_little(pairs: Pairs) -> bool:
    return len(pairs) > 0 and bool(pairs.n.min() < LEAST_FOR_INTERVAL)


_LEAVE_ONE_OUT = ("leave_one_out_agreement", "leave_one_out_kappa", "model_difference")
_THEMSELVES = "people are what the models are compared with"


def _too_few(pairs: Pairs, floor: float) -> str:
    """Why an interval of these pairs' kappa would not cover; "" if it may be given. `floor` is of their co-minority count."""
    if not len(pairs):
        return ""
    if _shares_too_little(pairs):
        return f"a pair shares only {pairs.n.min():.0f} items; below {LEAST_FOR_INTERVAL} no interval of kappa holds"
    if (rare := float(np.mean(pairs.minority))) < floor:
        return (
            f"by chance a pair would both give the rarer verdict on {rare:.1f} items; "
            f"below {floor:.0f} no interval of kappa holds"
        )
    return ""


class _Drawn(NamedTuple):
    """What an interval is made of: of_these_raters has the words. `refused`: why there is none whatever the rest says."""

    replicates: Floats
    widening: float
    corrected: bool
    refused: str


def _estimate(
    stat: str,
    args: Mapping[str, object],
    n: Mapping[str, int],
    why: str,
    value: Floats | None,
    drawn: _Drawn,
) -> Estimate:
    if value is None or np.isnan(value[0]):
        undefined = "0/0 in every pair: both gave one and the same answer throughout"
        if stat == "model_difference":
            undefined = "there is no kappa of a rater both with the model and with another rater"
        return estimate(stat, None, n, args=args, reason=why or undefined)
    within = (-2, 2) if stat == "model_difference" else (-1, 1)
    these = of_these_raters(
        float(value[0]), drawn.replicates, corrected=drawn.corrected, widening=drawn.widening, within=within
    )
    if drawn.refused:
        these = Resampled(None, reason=drawn.refused)
    more = {"undefined_resamples": these.undefined} if these.undefined else {}
    method = CORRECTED if drawn.corrected else THESE
    return estimate(
        stat, value[0], {**n, **more}, args=args, interval=these.interval, method=method, reason=these.reason
    )


def _average(which: csr_array, values: Floats) -> Floats:
    """For each row of `which` the mean of its defined values, shapes (pairs, n) to (rows, n)."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (which @ np.where(defined, values, 0)) / (which @ defined.astype(np.float64))
    return found
