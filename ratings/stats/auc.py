"""How well confidence tells right verdicts from wrong ones."""

from collections.abc import Sequence
from typing import NamedTuple

from sklearn.metrics import roc_auc_score


class Auc(NamedTuple):
    """P(a correct rating has more confidence than an incorrect one), ties counting one half. None if a class is empty."""

    value: float | None
    n_correct: int
    n_incorrect: int
    reason: str = ""


def auc_confidence_correct(ratings: Sequence[tuple[int, bool]]) -> Auc:
    """The type-2 AUROC of (confidence, correct) over all ratings together. Never flipped when below one half."""
    correct = sum(right for _, right in ratings)
    incorrect = len(ratings) - correct
    if not correct or not incorrect:
        missing = "correct" if not correct else "incorrect"
        reason = f"no rating is {missing}" if ratings else "no rating has a known truth"
        return Auc(None, correct, incorrect, reason)
    value = roc_auc_score([int(right) for _, right in ratings], [confidence for confidence, _ in ratings])
    return Auc(float(value), correct, incorrect)
