"""Practice: hand-written items whose answers are explained after the rater's own. Practice answers are never counted.

The items are data, `fixtures/practice/<kind>.json`: steps and records in our own words, blinded by the same functions
as real items. A study asks for at most three; a rater with fewer than two thirds right gets a fourth.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.blinding import allow_list
from ratings.blinding.material_rows import Payload
from ratings.models import EVIDENCE, TRANSITION, Assignment, PracticeAnswer, Rater, Study
from ratings.protocol import study_protocol
from ratings.raters import email_messages
from ratings.raters.email_messages import Message
from ratings.rating import next_item
from ratings.studies import designs

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

    @property
    def is_passed(self) -> bool:
        """Whether at least two thirds were right."""
        # Integers instead of a comparison with 2/3, which floating point cannot represent.
        return 3 * self.right >= 2 * self.of


def count_requested(rater: Rater) -> int:
    """Return how many practice items the study asks for, without the spare one."""
    requested = rater.study.protocol.get("practice", study_protocol.StudyProtocol.model_fields["practice"].default)
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
    n = count_requested(rater)
    regular = [item for item in all_items if not item.spare][-n:] if n else []
    rights = [given_answers[item.key].right for item in regular if item.key in given_answers]
    needs_spare = len(rights) == len(regular) and not PracticeResult(sum(rights), len(rights)).is_passed
    return [*regular, *(item for item in all_items if item.spare)] if needs_spare else regular


def answers_by_key(rater: Rater) -> dict[str, PracticeAnswer]:
    return {answer.key: answer for answer in rater.practice_answers.all()}


def store_answer(rater: Rater, item: PracticeItem, verdict: bool, confidence: int) -> PracticeAnswer:
    """Store the first answer to this item and return it; later answers return the first."""
    values = {"verdict": verdict, "confidence": confidence, "right": verdict == item.answer}
    # The first answer counts: the explanation has been shown after it.
    return PracticeAnswer.objects.get_or_create(rater=rater, key=item.key, defaults=values)[0]


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


def _parse_item(kind: str, entry: Mapping[str, Any]) -> PracticeItem:
    context: Payload = {}
    if kind == TRANSITION:
        step, target = entry["step"], entry["wrong"]
        payload, context = allow_list.blind_transition(step), allow_list.blind_context(entry["goal"], entry["before"])
        # The planted error is located by the same function as in real items, so practice teaches the same keys.
        target = allow_list.find_error_keys(step, step["outcome"], target) if target else []
    else:
        payload, target = allow_list.blind_evidence(entry["goal"], entry["steps"]), entry["wrong"]
    texts = entry["answer"], entry["lesson"], tuple(entry["explanation"])
    return PracticeItem(entry["key"], entry.get("spare", False), *texts, payload, context, tuple(target))


def can_reach(rater: Rater) -> bool:
    """Return whether an e-mail can be sent: this site sends mail and the rater has an address."""
    user = rater.user
    return bool(settings.EMAIL_HOST and settings.SITE_URL and user and user.email and user.is_active)


def recall_raters() -> int:
    """E-mail every rater whose washout has ended and who has not begun session 2, once. Return how many were sent.

    Workers run this once an hour. If the mail server rejects a message, the next run tries again.
    """
    now, sent = timezone.now(), 0
    for rater in _find_between_sessions():
        opens = designs.compute_session_2_start(rater)
        # The hourly run covers all studies, so raters who cannot be reached are skipped before anything is stored.
        if opens is None or now < opens or not can_reach(rater):
            continue
        # Two workers at once send one e-mail: only the first UPDATE sets the time.
        if not Rater.objects.filter(pk=rater.pk, recalled_at__isnull=True).update(recalled_at=now):
            continue
        is_sent = _send_link(rater, email_messages.write_second_session, next_item.unrated_assignments(rater).count())
        if not is_sent:
            # Cleared again, so that the next hourly run repeats the attempt.
            Rater.objects.filter(pk=rater.pk).update(recalled_at=None)
        sent += is_sent
    return sent


def announce_new_items() -> int:
    """E-mail every rater who had rated everything and was then given more items. Return how many were sent.

    Workers run this once an hour, for open studies. Each addition of items causes one e-mail. If the mail server
    rejects a message, the next run tries again. Raters who have already come back get none.
    """
    sent = 0
    raters = Rater.objects.filter(
        study__status="open", new_items_at__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True
    )
    for rater in raters.select_related("study", "user").order_by("pk"):
        since = rater.new_items_at
        # A rater who has returned since needs no e-mail, but the note is cleared.
        has_come = rater.last_seen_at is not None and since is not None and rater.last_seen_at > since
        if not has_come and not can_reach(rater):
            continue
        # Two workers at once send one e-mail: only the first UPDATE clears the time.
        if not Rater.objects.filter(pk=rater.pk, new_items_at=since).update(new_items_at=None):
            continue
        left = next_item.unrated_assignments(rater).count()
        if has_come or (not left and not designs.is_pool_study(rater.study)):
            continue
        is_sent = _send_link(rater, email_messages.write_new_items, left)
        if not is_sent:
            # Only if nobody has stored a newer note in the meantime.
            Rater.objects.filter(pk=rater.pk, new_items_at__isnull=True).update(new_items_at=since)
        sent += is_sent
    return sent


def _send_link(rater: Rater, write: Callable[[str, Study, str, int], Message], n_left: int) -> bool:
    """E-mail the rater a new link with this number of items left. Return whether it was sent."""
    assert rater.user
    token = signing_in.create_link(rater.user, "rater", email_messages.REMINDER_LIFETIME)
    url = email_messages.build_link(token, email_messages.make_url_builder())
    return not next(email_messages.send_messages([write(rater.user.email, rater.study, url, n_left)]))


def _find_between_sessions() -> list[Rater]:
    """Return raters of open crossover studies who were neither shown an item of session 2 nor sent the e-mail."""
    raters = Rater.objects.filter(
        study__status="open", study__protocol__design="crossover", user__isnull=False, simulated=False, imported_as="",
        withdrawn_at__isnull=True, finished_at__isnull=True, recalled_at__isnull=True,
    )  # fmt: skip
    shown_in_session_2 = Assignment.objects.filter(rater=OuterRef("pk"), session=2, opened_at__isnull=False)
    raters = raters.filter(~Exists(shown_in_session_2))
    return list(raters.select_related("study", "user").order_by("pk"))
