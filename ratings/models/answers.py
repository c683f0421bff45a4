"""Assignments, current ratings and every version of them."""

import uuid
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

from ratings.models.items import Item
from ratings.models.people import Rater
from ratings.protocol import study_protocol

LAYOUTS = [(layout, layout) for layout in study_protocol.LAYOUTS]
MARKS = [(marks, marks.replace("_", " ")) for marks in study_protocol.MARKS]
FIRST, SECOND = 1, 2  # occasions: the second one is the repeat for test-retest agreement

_ANSWERED = Q(cannot_judge=False, verdict__isnull=False, confidence__gte=1, confidence__lte=5)
_NOT_JUDGED = Q(cannot_judge=True, verdict__isnull=True, confidence__isnull=True)
# To be answered: released assignments stay in the table for late answers, but are no longer offered.
WAITING = Q(answered_at__isnull=True, released_at__isnull=True)


class Assignment(models.Model):
    """One item that a rater rates, at a position of the rater's own order. Raters' URLs contain only its `code`.

    `slot` is the number (1 to k) of this rating among the k ratings that the study plans per item. It is empty on the
    second occasion, for imported ratings, and for released and surplus assignments.
    """

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    item = models.ForeignKey(Item, on_delete=models.PROTECT, related_name="assignments")
    rater = models.ForeignKey(Rater, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    occasion = models.PositiveSmallIntegerField(default=FIRST)
    session = models.PositiveSmallIntegerField(default=1, help_text="crossover studies: 1 or 2; 1 in all others")
    position = models.PositiveIntegerField()
    pair = models.UUIDField()
    # Two live assignments of an item cannot share a slot: the database guarantees at most k ratings that count.
    slot = models.PositiveSmallIntegerField(null=True, blank=True)
    layout = models.CharField(max_length=8, choices=LAYOUTS, default="aligned")
    with_context = models.BooleanField(default=False)
    marks = models.CharField(max_length=16, choices=MARKS, default="off")
    opened_at = models.DateTimeField(null=True, blank=True, help_text="when it was first shown")
    reserved_until = models.DateTimeField(
        null=True, blank=True, help_text="pool studies: when others may claim the slot"
    )
    released_at = models.DateTimeField(
        null=True, blank=True, help_text="when it was released: withdrawn, expired or reassigned"
    )
    surplus = models.BooleanField(
        default=False, help_text="rated after its slot was reassigned: stored, but not counted"
    )
    answered_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="when its rating was submitted; empty: there is none"
    )

    class Meta:
        ordering = ["rater", "position"]
        indexes = [
            # A covering index for the counts of a study: the rows of one rater are spread over the whole table.
            models.Index(fields=["rater", "item", "occasion", "released_at", "surplus"], name="assignment_counts"),
            # For the next and the last item of a rater, without reading their other items.
            models.Index(fields=["rater", "position"], condition=WAITING, name="assignment_waiting"),
            models.Index(
                fields=["rater", "answered_at", "position"],
                condition=Q(answered_at__isnull=False),
                name="assignment_answered",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["item", "rater", "occasion"], name="assignment_once_per_rater"),
            models.UniqueConstraint(
                fields=["rater", "pair", "occasion", "session"], name="assignment_one_version_per_session"
            ),
            models.UniqueConstraint(fields=["rater", "position"], name="assignment_one_per_position"),
            models.UniqueConstraint(
                fields=["item", "slot"],
                condition=Q(occasion=FIRST, released_at__isnull=True, slot__isnull=False),
                name="assignment_one_per_slot",
            ),
            models.CheckConstraint(condition=Q(occasion__in=[FIRST, SECOND]), name="assignment_occasion_1_or_2"),
            models.CheckConstraint(condition=Q(session__in=[1, 2]), name="assignment_session_1_or_2"),
            models.CheckConstraint(
                condition=Q(slot__isnull=True) | Q(released_at__isnull=True, surplus=False),
                name="assignment_released_holds_no_slot",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater.label}, position {self.position}"


class Rating(models.Model):
    """A rater's current answer. Every version of it, including this one, is a RatingEvent."""

    HANDS = [("", "not known"), ("keys", "keys"), ("pointer", "pointer"), ("both", "both")]

    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="rating")
    verdict = models.BooleanField(null=True, blank=True, help_text="plausible, or sufficient; empty: cannot judge")
    confidence = models.PositiveSmallIntegerField(null=True, blank=True)
    cannot_judge = models.BooleanField(default=False)
    marks: "models.JSONField[Any, Any]" = models.JSONField(default=list, help_text="keys of the rows that look wrong")
    note = models.TextField(blank=True)
    submission_id = models.UUIDField(unique=True)
    revision = models.PositiveSmallIntegerField(default=1)
    opened_at = models.DateTimeField()
    submitted_at = models.DateTimeField(help_text="the first version")
    revised_at = models.DateTimeField(null=True, blank=True, help_text="the last correction")
    seconds = models.FloatField(
        help_text="from the item's first showing to its first submission, by the server's clock"
    )
    active_seconds = models.FloatField(null=True, blank=True, help_text="tab visible and rater active, by the browser")
    first_verdict_seconds = models.FloatField(null=True, blank=True, help_text="active seconds to the first choice")
    changes = models.PositiveSmallIntegerField(default=0, help_text="changed verdicts before submission")
    hand = models.CharField(max_length=8, blank=True, choices=HANDS)
    viewport = models.CharField(max_length=12, blank=True, help_text="width x height in CSS pixels")
    layout_shown = models.CharField(max_length=8, blank=True, choices=LAYOUTS, help_text="plain if lineage is unknown")
    guide_version = models.PositiveSmallIntegerField(default=1)
    interface_version = models.CharField(max_length=12, blank=True)
    # Without the check of a PositiveSmallIntegerField, for which the upgrade would read the whole table.
    calculations = models.SmallIntegerField(
        null=True, blank=True, help_text="made with the calculator of the page; empty: not opened"
    )
    imported = models.BooleanField(default=False, help_text="collected elsewhere")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=_ANSWERED | _NOT_JUDGED, name="rating_is_whole"),
            models.CheckConstraint(condition=Q(seconds__gte=0), name="rating_seconds_not_negative"),
        ]

    def __str__(self) -> str:
        return "cannot judge" if self.cannot_judge else f"{self.verdict}, confidence {self.confidence}"


class RatingEvent(models.Model):
    """One version of an answer. Rows are only added; the current Rating equals the last one."""

    KINDS = [("answer", "answer"), ("correction", "correction"), ("imported", "imported")]

    # The index of `rating_event_once_per_revision` also serves lookups by assignment; a second one would slow down writes.
    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="rating_events", db_index=False)
    kind = models.CharField(max_length=12, choices=KINDS)
    revision = models.PositiveSmallIntegerField()
    verdict = models.BooleanField(null=True, blank=True)
    confidence = models.PositiveSmallIntegerField(null=True, blank=True)
    cannot_judge = models.BooleanField(default=False)
    marks: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    note = models.TextField(blank=True)
    submission_id = models.UUIDField(unique=True)
    active_seconds = models.FloatField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["assignment", "revision"]
        constraints = [
            models.UniqueConstraint(fields=["assignment", "revision"], name="rating_event_once_per_revision"),
            models.CheckConstraint(condition=_ANSWERED | _NOT_JUDGED, name="rating_event_is_whole"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.revision}"


class InitialRating(models.Model):
    """The answer given in the confirm layout before the balance sheet was shown. It never changes."""

    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="initial_rating")
    verdict = models.BooleanField()
    confidence = models.PositiveSmallIntegerField()
    marks: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    submission_id = models.UUIDField(unique=True)
    active_seconds = models.FloatField(null=True, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(confidence__gte=1, confidence__lte=5), name="initial_rating_1_to_5")
        ]

    def __str__(self) -> str:
        return f"first {self.verdict}, confidence {self.confidence}"


class UnsavedAnswer(models.Model):
    """What a rater has selected and not saved. It is not a rating and is never counted."""

    assignment = models.OneToOneField(Assignment, on_delete=models.CASCADE, related_name="unsaved_answer")
    verdict = models.BooleanField(null=True, blank=True)
    confidence = models.PositiveSmallIntegerField(null=True, blank=True)
    marks: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    note = models.TextField(blank=True)
    updated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"unsaved answer of {self.assignment_id}"


class PracticeAnswer(models.Model):
    """A rater's first answer to a practice item. Analysts see it; results do not count it."""

    rater = models.ForeignKey(Rater, on_delete=models.CASCADE, related_name="practice_answers")
    key = models.CharField(max_length=60, help_text="of the practice item in fixtures/practice/")
    verdict = models.BooleanField()
    confidence = models.PositiveSmallIntegerField()
    right = models.BooleanField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["rater", "pk"]
        constraints = [models.UniqueConstraint(fields=["rater", "key"], name="practice_answer_once")]

    def __str__(self) -> str:
        return f"{self.key}: {'right' if self.right else 'wrong'}"
