"""A rater's review of their own items after unblinding: what was done to each item, why it is wrong, and how others answered.

A rater who opens the review can read the sources of these items. So it is open only if the study's document offers it and the
account rates none of these contents in another study that can still take answers. The time is stored, and
`ratings.studies.readable_elsewhere` assigns these items to the account nowhere from then on. Other raters appear only as
counts, and only if there are at least MIN_OTHERS of them; their notes never do.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from ratings.models import EVIDENCE, ItemSource, Rater, Rating
from ratings.protocol import reference, study_protocol
from ratings.studies import StudyError, readable_elsewhere, reassign

MIN_OTHERS = 3  # fewer answers could be attributed to a person

WRONG = Q(verdict=False, assignment__item__source__reference__in=reference.WITHOUT_ERROR) | Q(
    verdict=True, assignment__item__source__reference__in=reference.WITH_ERROR
)
MISSED = Q(verdict=True, assignment__item__source__reference=reference.PLANTED)
LOW = Q(confidence__lte=2)


class OtherAnswers(NamedTuple):
    """How many other raters gave which answer to an item."""

    yes: int = 0
    no: int = 0
    not_judged: int = 0
    simulated: int = 0  # how many of these raters are simulated

    @property
    def total(self) -> int:
        return self.yes + self.no + self.not_judged

    @property
    def is_shown(self) -> bool:
        return self.total >= MIN_OTHERS


def is_offered(rater: Rater) -> bool:
    """Return whether the study is unblinded and its document lets this rater, who was neither dropped nor withdrawn, review items."""
    study = rater.study
    if not study.is_unblinded or rater.dropped or rater.withdrawn_at or rater.user_id is None:
        return False
    return study_protocol.load_protocol(study.protocol).review


def find_refusal(rater: Rater) -> str:
    """Return why the review is not open yet, or "": the account still rates some of these contents in another study."""
    # Closed studies count as well, because they can be reopened.
    others = Rater.objects.filter(user=rater.user_id, withdrawn_at=None, finished_at=None).exclude(study=rater.study_id)
    unfinished = others.filter(study__status__in=("open", "paused", "closed")).select_related("study")
    names = [other.study.name for other in unfinished if readable_elsewhere.shares_contents(rater.study, other.study)]
    if not names:
        return ""
    return f"You are also a rater of {' and '.join(names)}. The review opens once you have finished there, or once that study is unblinded."


@transaction.atomic
def open_review(rater: Rater) -> None:
    """Record that this rater reviews their items. Raises StudyError if the review is not offered or not open yet."""
    if not is_offered(rater):
        raise StudyError(f"{rater.study.name} offers no review of items.")
    if refusal := find_refusal(rater):
        raise StudyError(refusal)
    Rater.objects.filter(pk=rater.pk, reviewed_at=None).update(reviewed_at=timezone.now())
    assert rater.user is not None
    # A study could have assigned such an item to somebody who had finished in it.
    reassign.release_items_of_account(rater.user)


def select_answers(rater: Rater) -> QuerySet[Rating]:
    """Return the rater's answers with the sources of their items. Raises StudyError unless the review was opened."""
    if not is_offered(rater) or rater.reviewed_at is None:
        raise StudyError(f"The review of {rater.study.name} has not been opened.")
    answers = Rating.objects.filter(assignment__rater=rater, assignment__occasion=1)
    return answers.select_related("assignment__item__source")


def count_other_answers(rater: Rater, items: Collection[int]) -> dict[int, OtherAnswers]:
    """Return the counts of other raters' answers by item, of the ratings that count. One query."""
    others = Rating.objects.filter(
        assignment__item__in=items, assignment__occasion=1, assignment__released_at=None, assignment__surplus=False,
        assignment__rater__dropped=False,
    ).exclude(assignment__rater=rater)  # fmt: skip
    rows = others.order_by().values_list("assignment__item_id", "verdict", "assignment__rater__simulated")
    counts = dict.fromkeys(items, OtherAnswers())
    for item, verdict, simulated, number in rows.annotate(number=Count("pk")):
        name = {True: "yes", False: "no", None: "not_judged"}[verdict]
        counts[item] = _add(counts[item], name, number, simulated)
    return counts


def _add(counts: OtherAnswers, name: str, number: int, simulated: bool) -> OtherAnswers:
    values = counts._asdict()
    values[name] += number
    values["simulated"] += number if simulated else 0
    return OtherAnswers(**values)


def describe_reference(source: ItemSource) -> str:
    """Return what was done to the item, or what its import declares about it."""
    if source.reference == reference.PLANTED:
        return f"{source.perturbation.capitalize()} error planted"
    if source.reference == reference.UNPERTURBED:
        return "No error planted"
    if source.item.study.kind == EVIDENCE:
        return {reference.DECLARED_RIGHT: "Sufficient", reference.DECLARED_WRONG: "Not sufficient"}.get(
            source.reference, "Not known"
        )
    return source.reference.capitalize() or "Not known"


def list_reasons(source: ItemSource) -> list[str]:
    """Return why the item is wrong, in words: the explanation of its planted error, then what the checker finds wrong with it."""
    explanation = source.twin.explanation if source.twin else ""
    checked = source.twin or source.transition
    return [*filter(None, [explanation]), *list_findings(checked.findings if checked else None)]


def list_findings(report: dict[str, Iterable[dict[str, str]]] | None) -> list[str]:
    """Return the texts of the checker's errors, such as "23 µL and 2 µL add up to 25 µL; the tube holds 25 mL"."""
    return [finding["text"] for finding in (report or {}).get("findings", ()) if finding["severity"] == "error"]
