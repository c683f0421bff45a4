"""Estimate a latent truth and each rater's errors together, for items without a known reference (Dawid and Skene 1979, JRSS C 28, 20-28).

Every item has one true class; given it, raters err independently of each other, each with probabilities of their own. The
estimate is only as good as that assumption: an error that raters share is estimated as the truth.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from ratings.stats.estimates import Estimate, build_generator
from ratings.stats.ratings_table import Floats, Ints, Ratings

RESTARTS = 10
TOLERANCE = 1e-8  # converged if no probability changes by more between two rounds
MAX_ROUNDS = 5_000
SCOUT_ROUNDS = 60  # EM rounds of every start; only the best start is continued
MIN_RATERS = 3  # with two the model is not identified: infinitely many truths have the same likelihood
LABEL = "an estimate of the Dawid-Skene model, not a count"
MIN_GAIN = 2.0  # log likelihood; optima this close cannot be distinguished by the data
_SAME_OPTIMUM = 1e-3  # log likelihood; starts this close ended at the same optimum
_FLOOR = 1e-300  # of probabilities before their logarithm


class DawidSkeneFit(NamedTuple):
    """The most likely parameters found.

    prevalence: shape (classes,); errors[j, k, l]: probability that rater j answers class l to an item of class k, shape (raters,
    classes, classes), NaN where the rater met no item of the class; truth[i, k]: probability that item i is of class k.
    `starts_alike`: how many of the starts ended at this log likelihood; `best_other`: by how much the best of the others exceeds it;
    `gain`: by how much it exceeds the end of the first start, if a restart was chosen.
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
        """The label that must be shown beside every number of the fit."""
        label = LABEL if self.converged else f"{LABEL}; not converged in {MAX_ROUNDS:,} rounds"
        if self.gain:
            label += (
                f"; from a random start, with a log likelihood {self.gain:.2g} higher than from the shares of votes"
            )
        if self.best_other:
            label += f"; another start ended at a different optimum with a log likelihood {self.best_other:.2g} higher"
        return f"{label}: interpret with care" if self.gain or self.best_other else label


class _PatternData(NamedTuple):
    """Items with the same answers by the same raters form one pattern; `weight` is its number of items.

    votes: shape (patterns, raters * classes), how often each rater gave each answer.
    """

    votes: sparse.csr_array
    weight: Floats
    raters: int
    classes: int


class _EmState(NamedTuple):
    log_likelihood: float
    truth: Floats  # of patterns
    change: float


def fit_table(table: Ratings, *, seed: int = 0, restarts: int = RESTARTS) -> DawidSkeneFit:
    """Return the fit to a table's verdicts. Raises ValueError below three raters."""
    item_indices, item = np.unique(table.item, return_inverse=True)
    rater_indices, rater = np.unique(table.rater, return_inverse=True)
    names = tuple(table.items[index] for index in item_indices), tuple(table.raters[index] for index in rater_indices)
    codes = item.astype(np.int64), rater.astype(np.int64), table.verdict
    return fit_model(*names, table.categories, *codes, seed=seed, restarts=restarts)


def estimate_latent_truth(table: Ratings, *, seed: int = 0) -> list[Estimate]:
    """Return the prevalence of each class, and each rater's probability of each answer to each true class, as labelled estimates.

    Undefined, with the reason, where a reference is known or there are fewer than three raters.
    """
    # A known reference needs no estimate.
    if np.any(table.reference >= 0):
        return [_build_undefined(table, "items have a known reference; nothing needs estimating")]
    try:
        model = fit_table(table, seed=seed)
    except ValueError as error:
        return [_build_undefined(table, str(error))]
    n = {**table.sample_sizes, "starts": model.starts, "starts_alike": model.starts_alike}
    shares = [
        _label_estimate("dawid_skene_prevalence", {"category": name}, model.prevalence[index], n, model.description)
        for index, name in enumerate(model.classes)
    ]
    return shares + [
        _label_estimate(
            "dawid_skene_errors",
            {"rater": rater, "truth": true, "verdict": verdict},
            model.errors[j, k, index],
            n,
            model.description,
        )
        for j, rater in enumerate(model.raters)
        for k, true in enumerate(model.classes)
        for index, verdict in enumerate(model.classes)
    ]


def _build_undefined(table: Ratings, reason: str) -> Estimate:
    return Estimate("dawid_skene_prevalence", {}, None, None, None, "", table.sample_sizes, reason)


def _label_estimate(stat: str, args: Mapping[str, Any], value: float, n: Mapping[str, int], label: str) -> Estimate:
    if np.isnan(value):
        return Estimate(stat, args, None, None, None, "", n, "the rater met no item of this class")
    return Estimate(stat, args, float(value), None, None, "estimate", n, label)


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
    """Return the result of EM, started from the shares of votes as in the paper and from `restarts` random truths.

    item, rater, verdict: indices into the names, one entry per answer; replicates of one rater on one item all count.
    Raises ValueError below three raters.
    """
    if len(raters) < MIN_RATERS:
        raise ValueError(f"a latent truth needs at least {MIN_RATERS} raters; there are {len(raters)}")
    data, pattern = _group_patterns(item, rater, verdict, (len(items), len(raters), len(classes)))
    rng = build_generator(seed, "dawid_skene")
    starts = [_compute_vote_shares(data)]
    starts += [rng.dirichlet(np.ones(len(classes)), size=len(data.weight)) for _ in range(restarts)]
    # A few rounds rank the starts; only the best is run to convergence.
    scout_runs = [_run_em(data, truth, SCOUT_ROUNDS) for truth in starts]
    log_likelihoods = [final.log_likelihood for final, _ in scout_runs]
    # The start from the votes is preferred: random starts find optima at the border of the parameter space that
    # are hardly more likely and whose classes mean less.
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
    """Return the data, and the pattern of each item."""
    items, raters, classes = sizes
    votes = sparse.csr_array((np.ones(len(item)), (item, rater * classes + verdict)), shape=(items, raters * classes))
    votes.sum_duplicates()
    votes.sort_indices()
    # Many items have the same few answers, and the cost of a round grows with the patterns, not with the items.
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


def _compute_vote_shares(data: _PatternData) -> Floats:
    # Below 80 MB a dense array is simpler; beyond, the sums are a sparse product.
    votes = data.votes.toarray() if data.votes.shape[0] * data.votes.shape[1] < 10**7 else None
    if votes is not None:
        sums = votes.reshape(-1, data.raters, data.classes).sum(axis=1)
    else:
        class_sums = sparse.csr_array(np.tile(np.eye(data.classes), (data.raters, 1)))
        sums = (data.votes @ class_sums).toarray()
    shares: Floats = sums / sums.sum(axis=1, keepdims=True)
    return shares


def _run_em(data: _PatternData, truth: Floats, max_rounds: int) -> tuple[_EmState, int]:
    """Return the state after EM, and its rounds: until no probability changes by the tolerance, or after `most` rounds."""
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
    # Log-sum-exp: likelihoods of many raters underflow.
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
    """Return the latent classes in the order in which raters use their names."""
    # The likelihood is the same for every permutation of classes, so a random start can find them in any order.
    answers = np.asarray(data.votes.T @ (truth * data.weight[:, None])).reshape(data.raters, data.classes, data.classes)
    _, order = linear_sum_assignment(answers.sum(axis=0), maximize=True)
    ordered: Floats = truth[:, order]
    return ordered
