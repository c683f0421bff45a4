"""Estimate a latent truth and each rater's errors together, for items without a known reference (Dawid and Skene 1979, JRSS C 28, 20-28).

The model assumes that every item has one true class and that, given this class, raters err independently of each other,
each with their own probabilities. If raters share an error, the assumption fails and the error is estimated as the truth.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.ratings_table import Floats, Ints, Ratings

RESTARTS = 10
TOLERANCE = 1e-8  # converged if no probability changes by more between two rounds
MAX_ROUNDS = 5_000
SCOUT_ROUNDS = 60  # EM rounds that every start runs; only the best start is continued
MIN_RATERS = 3  # with two raters the model is not identified: infinitely many solutions have the same likelihood
LABEL = "an estimate of the Dawid-Skene model, not a count"
MIN_GAIN = 2.0  # difference in log likelihood; the data cannot distinguish optima closer than this
_SAME_OPTIMUM = 1e-3  # difference in log likelihood; starts closer than this ended at the same optimum
_FLOOR = 1e-300  # least value of a probability before its logarithm is taken


class DawidSkeneFit(NamedTuple):
    """The fitted parameters of the chosen start.

    prevalence: share of each class. errors[j, k, l]: probability that rater j answers class l to an item of class k; NaN if
    the rater rated none. truth[i, k]: probability that item i is of class k. `starts_alike` ended at this log likelihood.
    `best_other`: by how much another start's log likelihood is higher; `gain`: by how much this one exceeds the first's.
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
    starts_alike: int
    best_other: float
    gain: float
    answers: int

    @property
    def description(self) -> str:
        """Return the label that must be shown beside every number of the fit."""
        label = LABEL if self.converged else f"{LABEL}; not converged in {MAX_ROUNDS:,} rounds"
        if self.gain:
            gain = f"a log likelihood {self.gain:.2g} higher than from the shares of votes"
            label += f"; from a random start, with {gain}"
        if self.best_other:
            label += f"; another start ended at a different optimum with a log likelihood {self.best_other:.2g} higher"
        return f"{label}: interpret with care" if self.gain or self.best_other else label


class _PatternData(NamedTuple):
    """Answers by pattern of answers: `votes` (patterns, raters * classes), `weight` (items of each pattern)."""

    votes: sparse.csr_array
    weight: Floats
    raters: int
    classes: int


class _EmState(NamedTuple):
    log_likelihood: float
    truth: Floats  # probability of each class for each pattern
    change: float


def fit_table(table: Ratings, *, seed: int = 0, restarts: int = RESTARTS) -> DawidSkeneFit:
    """Return the fit to the verdicts of a table. Raises ValueError if there are fewer than three raters."""
    item_indices, item = np.unique(table.item, return_inverse=True)
    rater_indices, rater = np.unique(table.rater, return_inverse=True)
    names = tuple(table.items[index] for index in item_indices), tuple(table.raters[index] for index in rater_indices)
    return fit_model(*names, table.categories, item, rater, table.verdict, seed=seed, restarts=restarts)


def estimate_latent_truth(table: Ratings, *, seed: int = 0) -> list[Estimate]:
    """Return each class's prevalence and each rater's answers by true class, with the label of the fit as reason.

    If an item has a known reference, or there are fewer than three raters, the only estimate is undefined.
    """
    try:
        if np.any(table.reference >= 0):
            raise ValueError("items have a known reference; nothing needs estimating")
        model = fit_table(table, seed=seed)
    except ValueError as error:
        return [build_estimate("dawid_skene_prevalence", None, table.sample_sizes, reason=str(error))]
    n = {**table.sample_sizes, "starts": model.starts, "starts_alike": model.starts_alike}
    rows: list[tuple[str, dict[str, Any], float]] = [
        ("dawid_skene_prevalence", {"category": name}, share)
        for name, share in zip(model.classes, model.prevalence, strict=True)
    ]
    for j, k, index in np.ndindex(model.errors.shape):
        args = {"rater": model.raters[j], "truth": model.classes[k], "verdict": model.classes[index]}
        rows.append(("dawid_skene_errors", args, float(model.errors[j, k, index])))
    # The label is no interval's method, so the estimates are built without `build_estimate`.
    return [
        Estimate(stat, args, None, None, None, "", n, "the rater met no item of this class")
        if np.isnan(value)
        else Estimate(stat, args, float(value), None, None, "estimate", n, model.description)
        for stat, args, value in rows
    ]


def fit_model(
    items: tuple[str, ...],
    raters: tuple[str, ...],
    classes: tuple[Any, ...],
    item: Ints,
    rater: Ints,
    verdict: Ints,
    *,
    seed: int = 0,
    restarts: int = RESTARTS,
) -> DawidSkeneFit:
    """Return the fit by expectation-maximisation (EM), from the shares of votes, as in the paper, and random truths.

    `item`, `rater` and `verdict` are indices, one entry per answer; every repeated answer counts. Raises ValueError
    below three raters.
    """
    if len(raters) < MIN_RATERS:
        raise ValueError(f"a latent truth needs at least {MIN_RATERS} raters; there are {len(raters)}")
    data, pattern = _group_patterns(item, rater, verdict, (len(items), len(raters), len(classes)))
    rng = build_generator(seed, "dawid_skene")
    sums = (data.votes @ sparse.csr_array(np.tile(np.eye(len(classes)), (len(raters), 1)))).toarray()
    starts = [sums / sums.sum(axis=1, keepdims=True)]  # the shares of votes
    starts += [rng.dirichlet(np.ones(len(classes)), size=len(data.weight)) for _ in range(restarts)]
    # A few rounds suffice to rank the starts; only the best start is run to convergence.
    scout_runs = [_run_em(data, truth, SCOUT_ROUNDS) for truth in starts]
    log_likelihoods = [final.log_likelihood for final, _ in scout_runs]
    # The start from the shares of votes is preferred: random starts can end at the border of the parameter space, at optima
    # that are hardly more likely and whose classes are harder to interpret.
    best = 0 if max(log_likelihoods) < log_likelihoods[0] + MIN_GAIN else int(np.argmax(log_likelihoods))
    final, rounds = _run_em(data, scout_runs[best][0].truth, MAX_ROUNDS)
    higher = max(log_likelihoods) - final.log_likelihood
    truth = _order_classes(data, final.truth)
    prevalence, errors = _estimate_parameters(data, truth)
    return DawidSkeneFit(
        classes=classes,
        items=items,
        raters=raters,
        prevalence=prevalence,
        errors=errors,
        truth=truth[pattern],
        log_likelihood=final.log_likelihood,
        rounds=scout_runs[best][1] + rounds,
        converged=final.change < TOLERANCE,
        starts=len(starts),
        starts_alike=sum(abs(end - final.log_likelihood) < _SAME_OPTIMUM for end in log_likelihoods),
        best_other=higher if higher > _SAME_OPTIMUM else 0.0,
        gain=final.log_likelihood - log_likelihoods[0] if best else 0.0,
        answers=len(item),
    )


def _group_patterns(item: Ints, rater: Ints, verdict: Ints, sizes: tuple[int, int, int]) -> tuple[_PatternData, Ints]:
    """Return the answers grouped by pattern, and the index of each item's pattern."""
    items, raters, classes = sizes
    votes = sparse.csr_array((np.ones(len(item)), (item, rater * classes + verdict)), shape=(items, raters * classes))
    votes.sum_duplicates()
    votes.sort_indices()
    # Many items have identical answers, and the cost of a round grows with the number of patterns, not of items.
    pattern_numbers: dict[bytes, int] = {}
    first_items: list[int] = []
    pattern = np.zeros(items, dtype=np.int64)
    for index in range(items):
        row = slice(votes.indptr[index], votes.indptr[index + 1])
        key = votes.indices[row].tobytes() + b"/" + votes.data[row].tobytes()
        pattern[index] = pattern_numbers.setdefault(key, len(pattern_numbers))
        if pattern[index] == len(first_items):
            first_items.append(index)
    weight = np.bincount(pattern, minlength=len(first_items)).astype(np.float64)
    return _PatternData(sparse.csr_array(votes[first_items]), weight, raters, classes), pattern


def _run_em(data: _PatternData, truth: Floats, max_rounds: int) -> tuple[_EmState, int]:
    """Run EM until no probability changes by TOLERANCE, or for `max_rounds`; return the state and the rounds."""
    state = _EmState(-np.inf, truth, np.inf)
    for rounds in range(1, max_rounds + 1):
        state = _run_em_round(data, state.truth)
        if state.change < TOLERANCE:
            return state, rounds
    return state, max_rounds


def _run_em_round(data: _PatternData, truth: Floats) -> _EmState:
    """Run one M step (equations 2.3 and 2.4 of the paper) and one E step (2.5)."""
    prevalence, errors = _estimate_parameters(data, truth)
    # A probability of 0 would make every item with that answer impossible, and its logarithm infinite.
    logs = np.log(np.maximum(np.nan_to_num(errors), _FLOOR)).transpose(0, 2, 1).reshape(-1, data.classes)
    log_joint = np.asarray(data.votes @ logs) + np.log(np.maximum(prevalence, _FLOOR))
    # Log-sum-exp, because the product of many raters' probabilities would underflow.
    row_max = log_joint.max(axis=1, keepdims=True)
    unnormed = np.exp(log_joint - row_max)
    sums = unnormed.sum(axis=1, keepdims=True)
    new: Floats = unnormed / sums
    likelihood = float(data.weight @ (row_max + np.log(sums))[:, 0])
    return _EmState(likelihood, new, float(np.abs(new - truth).max()))


def _estimate_parameters(data: _PatternData, truth: Floats) -> tuple[Floats, Floats]:
    weighted = truth * data.weight[:, None]
    prevalence: Floats = weighted.sum(axis=0) / data.weight.sum()
    counts = np.asarray(data.votes.T @ weighted).reshape(data.raters, data.classes, data.classes).transpose(0, 2, 1)
    sums = counts.sum(axis=2, keepdims=True)
    errors: Floats = np.divide(counts, sums, out=np.full_like(counts, np.nan), where=sums > 0)
    return prevalence, errors


def _order_classes(data: _PatternData, truth: Floats) -> Floats:
    """Return the truth with its classes permuted so that they agree best with the raters' answers."""
    # The likelihood is the same for every permutation of the classes, so a random start can end with any order of them.
    answers = np.asarray(data.votes.T @ (truth * data.weight[:, None])).reshape(data.raters, data.classes, data.classes)
    _, order = linear_sum_assignment(answers.sum(axis=0), maximize=True)
    ordered: Floats = truth[:, order]
    return ordered
