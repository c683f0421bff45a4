"""Practice: hand-written items whose answers are explained after the rater's own. Practice answers are never counted.

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
from ratings.blinding.material_rows import Payload
from ratings.models import EVIDENCE, TRANSITION, PracticeAnswer, Rater
from ratings.protocol import study_protocol

FILES = {TRANSITION: "transition.json", EVIDENCE: "evidence.json"}
MAX_ITEMS = 3


@dataclass(frozen=True)
class PracticeItem:
    """One item with its answer.

    `lesson` is the answer in one line, `explanation` the paragraphs that teach what to look for, `target` the mark
    keys of the error; `spare` marks the additional item after too many wrong answers.
    """

    key: str
    spare: bool
    answer: bool
    lesson: str
    explanation: tuple[str, ...]
    payload: Payload
    context: Payload
    target: tuple[str, ...]


class PracticeResult(NamedTuple):
    right: int
    of: int


def count_requested(rater: Rater) -> int:
    """Return how many practice items the study asks for, without the spare one."""
    requested = rater.study.protocol.get("practice", study_protocol.StudyProtocol.practice)
    return min(int(requested), MAX_ITEMS)  # a stored document can ask for more than there are files for today


def is_pending(rater: Rater) -> bool:
    """Return whether the rater still has practice to do."""
    return rater.practised_at is None and count_requested(rater) > 0


def get_result(rater: Rater) -> PracticeResult:
    """Return how many practice answers the rater has given, and how many of them were right."""
    answers_right = list(rater.practice_answers.values_list("right", flat=True))
    return PracticeResult(sum(answers_right), len(answers_right))


def list_items(rater: Rater, given_answers: Mapping[str, PracticeAnswer] | None = None) -> list[PracticeItem]:
    """Return the rater's items in order: those the study asks for, and the spare one if needed."""
    given_answers = answers_by_key(rater) if given_answers is None else given_answers
    all_items = load_items(rater.study.kind)
    # The last ones: the order of the file decides what a shorter practice leaves out.
    regular = (
        [item for item in all_items if not item.spare][-count_requested(rater) :] if count_requested(rater) else []
    )
    return (
        regular + [item for item in all_items if item.spare] if _needs_spare_item(regular, given_answers) else regular
    )


def answers_by_key(rater: Rater) -> dict[str, PracticeAnswer]:
    return {answer.key: answer for answer in rater.practice_answers.all()}


def store_answer(rater: Rater, item: PracticeItem, verdict: bool, confidence: int) -> PracticeAnswer:
    """Store the first answer to this item and return it; later answers return the first."""
    right = verdict == item.answer
    values = {"verdict": verdict, "confidence": confidence, "right": right}
    # The first answer counts: the explanation has been shown after it.
    return PracticeAnswer.objects.get_or_create(rater=rater, key=item.key, defaults=values)[0]


def has_passed(rater: Rater) -> bool:
    """Return whether at least two thirds of all answers were right."""
    right, of = get_result(rater)
    # Integers instead of a comparison with 2/3, which floating point cannot represent.
    return 3 * right >= 2 * of


@transaction.atomic
def finish_practice(rater: Rater) -> None:
    """Record that guide and practice are done, so items can be rated. A second call changes nothing."""
    now = timezone.now()
    for field in ("practised_at", "started_at"):
        # Conditional, so a reload keeps the first time.
        if Rater.objects.filter(pk=rater.pk, **{f"{field}__isnull": True}).update(**{field: now}):
            setattr(rater, field, now)


# The file does not change while the process runs.
@cache
def load_items(kind: str) -> tuple[PracticeItem, ...]:
    """Return all practice items for studies of this kind, in the order of the file."""
    # UTF-8 is stated, because a server's locale may imply another encoding.
    entries = json.loads((settings.FIXTURES_DIR / "practice" / FILES[kind]).read_text("utf-8"))
    return tuple(_parse_item(kind, entry) for entry in entries)


def _needs_spare_item(regular: Sequence[PracticeItem], given_answers: Mapping[str, PracticeAnswer]) -> bool:
    """Return whether all of these items were answered, and fewer than two thirds of them correctly."""
    if not regular or any(item.key not in given_answers for item in regular):
        return False
    return 3 * sum(given_answers[item.key].right for item in regular) < 2 * len(regular)


def _parse_item(kind: str, entry: Mapping[str, Any]) -> PracticeItem:
    payload, context, target = _blind_transition_entry(entry) if kind == TRANSITION else _blind_evidence_entry(entry)
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


def _blind_transition_entry(entry: Mapping[str, Any]) -> tuple[Payload, Payload, tuple[str, ...]]:
    step = entry["step"]
    # The planted error is located by the same function as in real items, so practice teaches the same keys.
    target = allow_list.find_error_keys(step, step["outcome"], entry["wrong"]) if entry["wrong"] else []
    return allow_list.blind_transition(step), allow_list.blind_context(entry["goal"], entry["before"]), tuple(target)


def _blind_evidence_entry(entry: Mapping[str, Any]) -> tuple[Payload, Payload, tuple[str, ...]]:
    return allow_list.blind_evidence(entry["goal"], entry["steps"]), {}, tuple(entry["wrong"])
