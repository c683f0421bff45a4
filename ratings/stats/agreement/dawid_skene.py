"""Where no truth is known: the latent truth and each rater's errors, estimated together (Dawid and Skene 1979, JRSS C 28, 20-28).

Every item has one true class; given it, raters err independently of each other, each with probabilities of their own. The
estimate is only as good as that assumption: where raters share an error, it takes the error for the truth.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from ratings.stats.estimates import Estimate, generator
from ratings.stats.table import Floats, Ints, Ratings

RESTARTS = 10
TOLERANCE = 1e-8  # largest change of a probability between two rounds
MOST_ROUNDS = 5_000
SCOUTING = 60  # rounds of every start; only the best goes on
FEWEST_RATERS = 3  # with two, infinitely many truths explain the ratings alike
LABEL = "an estimate of the Dawid-Skene model, not a count"
NEAR = 2.0  # of log likelihood: optima this close are told apart by no data
_SAME = 1e-3  # of log likelihood: one optimum
_FLOOR = 1e-300


class Fit(NamedTuple):
    """The most likely parameters found.

    prevalence: shape (classes,); errors[j, k, l]: rater j says class l of an item of class k, shape (raters, classes,
    classes), NaN where the rater met no item of the class; truth[i, k]: probability that item i is of class k. `alike`: how
    many of the starts ended at this log likelihood, `higher`: by how much the best of the others exceeds it, `gained`: by
    how much it exceeds the end of the first where a restart has won.
    """

    classes: tuple[Any, ...]
    items: tuple[str, ...]
    raters: tuple[str, ...]
    prevalence: Floats
    errors: Floats
    truth: Floats
    log_likelihood: float
    rounds: int
    converged: bool
    starts: int
    alike: int
    higher: float
    gained: float
    answers: int

    @property
    def said(self) -> str:
        """What must stand beside every number of it."""
        said = LABEL if self.converged else f"{LABEL}; not converged in {MOST_ROUNDS:,} rounds"
        if self.gained:
            said += (
                f"; from a random start, whose log likelihood is {self.gained:.2g} higher than from the shares of votes"
            )
        if self.higher:
            said += f"; another start ends elsewhere at a log likelihood {self.higher:.2g} higher"
        return f"{said}: read it with care" if self.gained or self.higher else said


class _Data(NamedTuple):
    """Items with the same answers by the same raters are one pattern, `weight` items strong.

    votes: shape (patterns, raters * classes), how often each rater gave each answer.
    """

    votes: sparse.csr_array
    weight: Floats
    raters: int
    classes: int


class _Point(NamedTuple):
    log_likelihood: float
    truth: Floats  # of patterns
    change: float


def of_table(table: Ratings, *, seed: int = 0, restarts: int = RESTARTS) -> Fit:
    """The fit to a table's verdicts. ValueError below three raters."""
    rated, item = np.unique(table.item, return_inverse=True)
    own, rater = np.unique(table.rater, return_inverse=True)
    names = tuple(table.items[at] for at in rated), tuple(table.raters[at] for at in own)
    codes = item.astype(np.int64), rater.astype(np.int64), table.verdict
    return fit(*names, table.categories, *codes, seed=seed, restarts=restarts)


def estimates(table: Ratings, *, seed: int = 0) -> list[Estimate]:
    """Prevalence of each class, and of each rater the probability of each answer to each true class; labelled estimates.

    Undefined, with the reason, where a reference is known (then nothing needs guessing) or there are fewer than three raters.
    """
    if np.any(table.reference >= 0):
        return [_none(table, "items have a known reference; nothing needs estimating")]
    try:
        found = of_table(table, seed=seed)
    except ValueError as error:
        return [_none(table, str(error))]
    n = {**table.n, "starts": found.starts, "starts_alike": found.alike}
    shares = [
        _one("dawid_skene_prevalence", {"category": name}, found.prevalence[at], n, found.said)
        for at, name in enumerate(found.classes)
    ]
    return shares + [
        _one(
            "dawid_skene_errors",
            {"rater": rater, "truth": true, "verdict": verdict},
            found.errors[j, k, at],
            n,
            found.said,
        )
        for j, rater in enumerate(found.raters)
        for k, true in enumerate(found.classes)
        for at, verdict in enumerate(found.classes)
    ]


def _none(table: Ratings, reason: str) -> Estimate:
    return Estimate("dawid_skene_prevalence", {}, None, None, None, "", table.n, reason)


def _one(stat: str, args: Mapping[str, Any], value: float, n: Mapping[str, int], said: str) -> Estimate:
    if np.isnan(value):
        return Estimate(stat, args, None, None, None, "", n, "the rater met no item of this class")
    return Estimate(stat, args, float(value), None, None, "estimate", n, said)


def fit(
    items: tuple[str, ...],
    raters: tuple[str, ...],
    classes: tuple[Any, ...],
    item: Ints,
    rater: Ints,
    verdict: Ints,
    *,
    seed: int = 0,
    restarts: int = RESTARTS,
) -> Fit:
    """EM from the shares of votes, as in the paper, and from `restarts` random truths. ValueError below three raters.

    item, rater, verdict: indices into the names, one entry an answer; replicates of one rater on one item all count. The end
    of the first start counts unless a restart ends at a log likelihood higher by NEAR: random starts find optima at the
    border that are hardly more likely and whose classes mean less.
    """
    if len(raters) < FEWEST_RATERS:
        raise ValueError(f"a latent truth needs {FEWEST_RATERS} raters or more; there are {len(raters)}")
    data, pattern = _patterns(item, rater, verdict, (len(items), len(raters), len(classes)))
    rng = generator(seed, "dawid_skene")
    starts = [_vote_shares(data)]
    starts += [rng.dirichlet(np.ones(len(classes)), size=len(data.weight)) for _ in range(restarts)]
    scouts = [_climb(data, truth, SCOUTING) for truth in starts]
    ends = [point.log_likelihood for point, _ in scouts]
    best = 0 if max(ends) < ends[0] + NEAR else int(np.argmax(ends))
    point, rounds = _climb(data, scouts[best][0].truth, MOST_ROUNDS)
    higher = max(ends) - point.log_likelihood
    truth = _named(data, point.truth)
    prevalence, errors = _parameters(data, truth)
    return Fit(
        classes=classes,
        items=items,
        raters=raters,
        prevalence=prevalence,
        errors=errors,
        truth=truth[pattern],
        log_likelihood=point.log_likelihood,
        rounds=scouts[best][1] + rounds,
        converged=point.change < TOLERANCE,
        starts=len(starts),
        alike=sum(abs(end - point.log_likelihood) < _SAME for end in ends),
        higher=higher if higher > _SAME else 0.0,
        gained=point.log_likelihood - ends[0] if best else 0.0,
        answers=len(item),
    )


def _patterns(item: Ints, rater: Ints, verdict: Ints, sizes: tuple[int, int, int]) -> tuple[_Data, Ints]:
    """The data, and the pattern of each item."""
    items, raters, classes = sizes
    votes = sparse.csr_array((np.ones(len(item)), (item, rater * classes + verdict)), shape=(items, raters * classes))
    votes.sum_duplicates()
    votes.sort_indices()
    seen: dict[bytes, int] = {}
    first: list[int] = []
    pattern = np.zeros(items, dtype=np.int64)
    for at in range(items):
        own = slice(votes.indptr[at], votes.indptr[at + 1])
        key = votes.indices[own].tobytes() + b"/" + votes.data[own].tobytes()
        pattern[at] = seen.setdefault(key, len(seen))
        if pattern[at] == len(first):
            first.append(at)
    weight = np.bincount(pattern, minlength=len(first)).astype(np.float64)
    return _Data(sparse.csr_array(votes[first]), weight, raters, classes), pattern


def _vote_shares(data: _Data) -> Floats:
    votes = data.votes.toarray() if data.votes.shape[0] * data.votes.shape[1] < 10**7 else None
    if votes is not None:
        sums = votes.reshape(-1, data.raters, data.classes).sum(axis=1)
    else:
        which = sparse.csr_array(np.tile(np.eye(data.classes), (data.raters, 1)))
        sums = (data.votes @ which).toarray()
    shares: Floats = sums / sums.sum(axis=1, keepdims=True)
    return shares


def _climb(data: _Data, truth: Floats, most: int) -> tuple[_Point, int]:
    """Rounds of EM until no probability changes by the tolerance, or so many."""
    point = _Point(-np.inf, truth, np.inf)
    for number in range(1, most + 1):
        point = _round(data, point.truth)
        if point.change < TOLERANCE:
            return point, number
    return point, most


def _round(data: _Data, truth: Floats) -> _Point:
    """One M step (equations 2.3 and 2.4 of the paper) and one E step (2.5)."""
    prevalence, errors = _parameters(data, truth)
    logs = np.log(np.maximum(np.nan_to_num(errors), _FLOOR)).transpose(0, 2, 1).reshape(-1, data.classes)
    joint = np.asarray(data.votes @ logs) + np.log(np.maximum(prevalence, _FLOOR))
    most = joint.max(axis=1, keepdims=True)
    unnormed = np.exp(joint - most)
    sums = unnormed.sum(axis=1, keepdims=True)
    new: Floats = unnormed / sums
    likelihood = float(data.weight @ (most + np.log(sums))[:, 0])
    return _Point(likelihood, new, float(np.abs(new - truth).max()))


def _parameters(data: _Data, truth: Floats) -> tuple[Floats, Floats]:
    weighted = truth * data.weight[:, None]
    prevalence: Floats = weighted.sum(axis=0) / data.weight.sum()
    counts = np.asarray(data.votes.T @ weighted).reshape(data.raters, data.classes, data.classes).transpose(0, 2, 1)
    sums = counts.sum(axis=2, keepdims=True)
    errors: Floats = np.divide(counts, sums, out=np.full_like(counts, np.nan), where=sums > 0)
    return prevalence, errors


def _named(data: _Data, truth: Floats) -> Floats:
    """The latent classes in the order in which raters name them: a random start does not know which is which."""
    said = np.asarray(data.votes.T @ (truth * data.weight[:, None])).reshape(data.raters, data.classes, data.classes)
    _, order = linear_sum_assignment(said.sum(axis=0), maximize=True)
    named: Floats = truth[:, order]
    return named
