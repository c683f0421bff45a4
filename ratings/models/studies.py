"""Studies, their log, their instructions and their blinding audits."""

import hashlib
import secrets
import uuid
from typing import Any, ClassVar, Self

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone

from ratings.models import study_events

TRANSITION, EVIDENCE = "transition_plausibility", "evidence_sufficiency"


def new_salt() -> str:
    return secrets.token_hex(16)


class StudyManager(models.Manager["Study"]):
    """All studies, without the rows that hold an opening while it is prepared (see `Study.preparation_of`)."""

    def get_queryset(self) -> "models.QuerySet[Study]":
        return super().get_queryset().filter(preparation_of=None)


class Study(models.Model):
    """A question put to raters about a frozen set of blinded items."""

    # Status -> statuses that may follow. docs/states.md is generated from it.
    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "draft": ("open",),
        "open": ("paused", "closed"),
        "paused": ("open", "closed"),
        "closed": ("open", "unblinded"),
        "unblinded": (),
    }
    STATUSES = [(name, name) for name in MOVES]
    KINDS = [(TRANSITION, "transition plausibility"), (EVIDENCE, "evidence sufficiency")]

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=30, choices=KINDS)
    question = models.CharField(max_length=300)
    protocol = models.JSONField(help_text="the study document, read by ratings.protocol; frozen at opening")
    seed = models.BigIntegerField()
    salt = models.CharField(
        max_length=32,
        default=new_salt,
        editable=False,
        help_text="used with the seed; not shown to anybody before unblinding",
    )
    ratings_per_item = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=12, choices=STATUSES, default="draft")
    guide = models.TextField(blank=True, help_text="study-specific instructions, shown with the default guide")
    guide_version = models.PositiveSmallIntegerField(default=1)
    deadline = models.DateField(
        null=True, blank=True, help_text="shown to raters; the study does not close automatically"
    )
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    opened_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    unblinded_at = models.DateTimeField(null=True, blank=True)
    preparation_of = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="not a study, but what ratings.studies.preparations stores for this draft until its opening is published",
    )

    objects: ClassVar[StudyManager] = StudyManager()
    with_preparations: ClassVar["models.Manager[Study]"] = models.Manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        verbose_name_plural = "studies"
        constraints = [
            models.CheckConstraint(
                name="study_preparation_is_draft", condition=models.Q(preparation_of=None) | models.Q(status="draft")
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return self.status == "open"

    @property
    def is_draft(self) -> bool:
        return self.status == "draft"

    @property
    def is_unblinded(self) -> bool:
        return self.status == "unblinded"

    @property
    def random_seed(self) -> int:
        """Return the seed from which item orders, slots and arms are drawn."""
        # The salt is included because the seed is in the document and in every copy of the study: with the seed alone
        # anybody could compute the assignments. 7 bytes fit into a signed 64-bit integer.
        return int.from_bytes(hashlib.sha256(f"{self.seed}/{self.salt}".encode()).digest()[:7])

    @property
    def answer_labels(self) -> tuple[str, str]:
        """Return the labels of the verdicts yes and no."""
        return ("Plausible", "Not plausible") if self.kind == TRANSITION else ("Sufficient", "Not sufficient")

    def can_change_to(self, status: str) -> bool:
        return status in self.MOVES[self.status]


class StudyEvent(models.Model):
    """One event in a study's log. Rows are only added. `study_events` declares the fields of `data` for each kind."""

    KINDS = [
        (kind, kind)
        for kind in (
            "created", "edited", "duplicated", "opened", "paused", "resumed", "closed", "reopened", "unblinded",
            "guide", "invited", "reminded", "joined", "withdrawn", "erased", "simulated", "replanned", "items added",
            "items imported", "ratings imported", "quarantine", "audited", "looked", "exported", "member", "machine",
            "taken back", "public page",
        )
    ]  # fmt: skip

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="events")
    kind = models.CharField(max_length=20, choices=KINDS)
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["at", "pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.at:%Y-%m-%d %H:%M}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the event. Raises ContentError if its data does not have the fields and types of its kind."""
        study_events.parse_content(self.kind, self.data)
        super().save(*args, **kwargs)

    @classmethod
    def record_event(cls, study: Study, content: study_events.Content, by: User | None = None) -> Self:
        """Add an event to the study's log."""
        return cls.objects.create(study=study, kind=content.kind, by=by, data=content.to_dict())

    @property
    def typed_content(self) -> study_events.Content | study_events.LegacyText:
        """Return the typed data. Raises ContentError if the row was changed without this model."""
        return study_events.load_content(self.kind, self.data)


class GuideVersion(models.Model):
    """One version of the study's own instructions. Every rating states the version its rater had read."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="guides")
    number = models.PositiveSmallIntegerField()
    text = models.TextField(blank=True)
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["study", "number"]
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="guide_version_once")]

    def __str__(self) -> str:
        return f"guide {self.number}"


def new_public_token() -> str:
    return secrets.token_urlsafe(24)


class PublicPage(models.Model):
    """What anybody who has the link may read about a study before taking part. Not part of the protocol; nothing in a study depends on it."""

    study = models.OneToOneField(Study, on_delete=models.CASCADE, related_name="public_page")
    token = models.CharField(max_length=43, unique=True, default=new_public_token, editable=False)
    is_on = models.BooleanField(default=False, help_text="off: the link is answered like one that does not exist")
    about = models.TextField(blank=True)
    who = models.TextField(blank=True)
    duration = models.CharField(max_length=200, blank=True, help_text="blank: an estimate from the number of items")
    payment = models.CharField(max_length=300, blank=True)
    contact = models.CharField(max_length=200, blank=True)
    questions = models.TextField(blank=True)
    shows_example = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"public page, {'on' if self.is_on else 'off'}"


class BlindingAudit(models.Model):
    """The stored result of `audit_blinding`; the latest one is exported as the blinding certificate."""

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="audits")
    at = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    passed = models.BooleanField()
    report = models.JSONField()
    sha256 = models.CharField(max_length=64, help_text="of the report in canonical form")

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"audit of {self.at:%Y-%m-%d %H:%M}, {'passed' if self.passed else 'failed'}"
