"""Practice: hand-written items whose answers are explained after the rater's own. Nothing of it counts.

The items are data, `fixtures/practice/<kind>.json`: steps and records in our own words, blinded by the same functions
as real items. A study asks for at most three; a rater with fewer than two thirds right gets a fourth.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ratings.blinding import allow_list
from ratings.blinding.lanes import Payload
from ratings.models import EVIDENCE, TRANSITION, PracticeAnswer, Rater
from ratings.protocol import protocols

FILES = {TRANSITION: "transition.json", EVIDENCE: "evidence.json"}
MOST = 3


@dataclass(frozen=True)
class PracticeItem:
    """One item with its answer.

    `lesson` is the answer in one line, `explanation` the paragraphs that teach what to look for, `target` the mark keys of the error;
    `spare` marks the additional item after too many wrong answers.
    """

    key: str
    spare: bool
    answer: bool
    lesson: str
    explanation: tuple[str, ...]
    payload: Payload
    context: Payload
    target: tuple[str, ...]


class Result(NamedTuple):
    right: int
    of: int


def wanted(seat: Rater) -> int:
    """Return how many practice items the study asks for, without the spare one."""
    requested = seat.study.protocol.get("practice", protocols.StudyProtocol.practice)
    return min(int(requested), MOST)  # a stored document can ask for more than there are files for today


def pending(seat: Rater) -> bool:
    """Return whether the rater still has practice to do."""
    return seat.practised_at is None and wanted(seat) > 0


def result(seat: Rater) -> Result:
    """Return how many of the items answered so far were right."""
    answers_right = list(seat.practice_answers.values_list("right", flat=True))
    return Result(sum(answers_right), len(answers_right))


def asked(seat: Rater, given: Mapping[str, PracticeAnswer] | None = None) -> list[PracticeItem]:
    """Return the rater's items in order: those the study asks for, and the spare one if needed."""
    given = answers(seat) if given is None else given
    all_items = items(seat.study.kind)
    # The last ones: the order of the file decides what a shorter practice leaves out.
    regular = [item for item in all_items if not item.spare][-wanted(seat) :] if wanted(seat) else []
    return regular + [item for item in all_items if item.spare] if _failed(regular, given) else regular


def answers(seat: Rater) -> dict[str, PracticeAnswer]:
    return {answer.key: answer for answer in seat.practice_answers.all()}


def answer(seat: Rater, item: PracticeItem, verdict: bool, confidence: int) -> PracticeAnswer:
    """Store the first answer to this item and return it; later answers return the first."""
    right = verdict == item.answer
    values = {"verdict": verdict, "confidence": confidence, "right": right}
    # The first answer counts: the explanation has been shown after it.
    return PracticeAnswer.objects.get_or_create(rater=seat, key=item.key, defaults=values)[0]


def passed(seat: Rater) -> bool:
    """Return whether two thirds of all answers were right."""
    right, of = result(seat)
    # Integers instead of a comparison with 2/3, which floating point cannot represent.
    return 3 * right >= 2 * of


@transaction.atomic
def begin(seat: Rater) -> None:
    """Record that guide and practice are done, so items can be rated. A second call changes nothing."""
    now = timezone.now()
    for field in ("practised_at", "started_at"):
        # Conditional, so a reload keeps the first time.
        if Rater.objects.filter(pk=seat.pk, **{f"{field}__isnull": True}).update(**{field: now}):
            setattr(seat, field, now)


# The file does not change while the process runs.
@cache
def items(kind: str) -> tuple[PracticeItem, ...]:
    """Return all practice items for studies of this kind, in the order of the file."""
    # Read as UTF-8 explicitly: the locale of a server may be another.
    entries = json.loads((settings.FIXTURES_DIR / "practice" / FILES[kind]).read_text("utf-8"))
    return tuple(_item(kind, entry) for entry in entries)


def _failed(first: Sequence[PracticeItem], given: Mapping[str, PracticeAnswer]) -> bool:
    """Return whether all of these were answered, and fewer than two thirds of them rightly."""
    if not first or any(item.key not in given for item in first):
        return False
    return 3 * sum(given[item.key].right for item in first) < 2 * len(first)


def _item(kind: str, entry: Mapping[str, Any]) -> PracticeItem:
    payload, context, target = _transition(entry) if kind == TRANSITION else _evidence(entry)
    return PracticeItem(
        key=entry["key"],
        spare=entry.get("spare", False),
        answer=entry["answer"],
        lesson=entry["lesson"],
        explanation=tuple(entry["explanation"]),
        payload=payload,
        context=context,
        target=target,
    )


def _transition(entry: Mapping[str, Any]) -> tuple[Payload, Payload, tuple[str, ...]]:
    step = entry["step"]
    # The planted error is located by the same function as in real items, so practice teaches the same keys.
    target = allow_list.targets(step, step["outcome"], entry["wrong"]) if entry["wrong"] else []
    return allow_list.blind_transition(step), allow_list.blind_context(entry["goal"], entry["before"]), tuple(target)


def _evidence(entry: Mapping[str, Any]) -> tuple[Payload, Payload, tuple[str, ...]]:
    return allow_list.blind_evidence(entry["goal"], entry["steps"]), {}, tuple(entry["wrong"])
