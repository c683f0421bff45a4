"""A rater's own result, compared with the reference labels. Shown after unblinding, if the study allows it.

Raters know their own answers and may see an item again in another study. So no number may reveal whether one answer
was right: none is based on fewer than MIN_ANSWERS answers, none shows that all or none were right, and omitted
numbers cannot be derived from the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ratings.models import Rater, Rating
from ratings.protocol import study_protocol
from ratings.protocol.reference import reference_to_label
from ratings.studies import StudyError

LABELS = {
    "transition_plausibility": {
        "obvious": "obvious errors detected",
        "subtle": "subtle errors detected",
        "wrong": "other errors detected",
        "right": "outcomes without a planted error, rated plausible",
    },
    "evidence_sufficiency": {
        "obvious": "records with an obvious gap, rated not sufficient",
        "subtle": "records with a subtle gap, rated not sufficient",
        "wrong": "insufficient records, rated not sufficient",
        "right": "sufficient records, rated sufficient",
    },
}


MIN_ANSWERS = 5  # a share of fewer answers is not shown


class Share(NamedTuple):
    """A number of right answers out of all, with a label."""

    name: str
    right: int
    of: int


class OwnResult(NamedTuple):
    """A rater's own result, in shares of right answers: of all answers, by kind of item and by confidence."""

    total: Share | None
    left_out: bool  # whether any share is omitted
    kinds: tuple[Share, ...]
    confidence: tuple[Share, ...]
    same_again: Share | None  # repeated items with the same answer
    unknown: int  # answers to items without a reference label
    not_judged: int  # answers without a verdict


class _Answer(NamedTuple):
    verdict: bool
    confidence: int
    reference: int
    perturbation: str

    @property
    def is_right(self) -> bool:
        return self.verdict == self.reference

    @property
    def kind(self) -> str:
        """A key of LABELS: the perturbation of a planted error, else "right" or "wrong" by the reference label."""
        planted = not self.reference and self.perturbation in ("obvious", "subtle")
        return self.perturbation if planted else ("right" if self.reference else "wrong")


def is_available(rater: Rater) -> bool:
    """Return whether the study is unblinded and its document lets this rater, who was not dropped, see the result."""
    study = rater.study
    return study.is_unblinded and not rater.dropped and study_protocol.load_protocol(study.protocol).feedback


def own_result(rater: Rater) -> OwnResult:
    """Return the result of one rater, from the ratings that count. Raises StudyError if it may not be shown."""
    if not is_available(rater):
        raise StudyError(f"{rater.study.name} does not show results to raters at present")
    live = Rating.objects.filter(assignment__rater=rater, assignment__released_at__isnull=True)
    ratings = list(live.select_related("assignment__item__source"))
    # The same answers as in the study's results: repeats and surplus ratings are counted nowhere.
    counted = [r for r in ratings if r.assignment.occasion == 1 and not r.assignment.surplus]
    judged = [r for r in counted if not r.cannot_judge]
    known = [answer for rating in judged if (answer := _to_answer(rating))]
    total = _build_share("right in all", known)
    by_kind = [
        _build_share(name, [a for a in known if a.kind == kind]) for kind, name in LABELS[rater.study.kind].items()
    ]
    by_confidence = [_build_share(str(n), [a for a in known if a.confidence == n]) for n in range(1, 6)]
    kinds, confidence = _choose_safe(by_kind), _choose_safe(by_confidence)
    n_shares = sum(share.of > 0 for share in (*by_kind, *by_confidence))
    return OwnResult(
        total if _is_safe(total) else None,
        len(kinds) + len(confidence) < n_shares,
        kinds,
        confidence,
        _share_repeated_alike(ratings),
        unknown=len(judged) - len(known),
        not_judged=len(counted) - len(judged),
    )


def _to_answer(rating: Rating) -> _Answer | None:
    source = rating.assignment.item.source
    label = reference_to_label(source.reference)
    if label is None or rating.verdict is None or rating.confidence is None:
        return None
    return _Answer(rating.verdict, rating.confidence, label, source.perturbation)


def _choose_safe(shares: Sequence[Share]) -> tuple[Share, ...]:
    """Return the shares that may be shown: none reveals a single answer, nor does the sum of the omitted ones."""
    shares = [share for share in shares if share.of]
    # The smallest safe share is dropped first, because it costs the rater the least information.
    safe = sorted(filter(_is_safe, shares), key=lambda share: share.of)
    while safe:
        omitted = [share for share in shares if share not in safe]
        # Total minus displayed shares is the sum of the omitted ones, so that sum must be safe as well.
        omitted_sum = Share("", sum(share.right for share in omitted), sum(share.of for share in omitted))
        if not omitted or _is_safe(omitted_sum):
            break
        safe.pop(0)
    return tuple(share for share in shares if share in safe)


def _is_safe(share: Share) -> bool:
    # All right or none right would reveal each single answer.
    return share.of >= MIN_ANSWERS and 0 < share.right < share.of


def _build_share(name: str, answers: Sequence[_Answer]) -> Share:
    return Share(name, sum(answer.is_right for answer in answers), len(answers))


def _share_repeated_alike(ratings: Sequence[Rating]) -> Share | None:
    """Return how many of the items judged twice got the same verdict; None if no item was judged twice."""
    verdicts: dict[int, list[bool]] = {}
    for rating in ratings:
        if rating.verdict is not None and not rating.assignment.surplus:
            verdicts.setdefault(rating.assignment.item_id, []).append(rating.verdict)
    # Only pairs: an item judged once says nothing about consistency.
    pairs = [given for given in verdicts.values() if len(given) == 2]
    return Share("repeated", sum(first == second for first, second in pairs), len(pairs)) if pairs else None
