"""Raters, members of studies, and personal links."""

import uuid
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from ratings.models.studies import Study


class Membership(models.Model):
    """The role of a person who is not a rater: admins create and run the study, analysts read its results."""

    ROLES = [("admin", "study admin"), ("analyst", "analyst")]

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=ROLES)

    class Meta:
        ordering = ["study", "role", "pk"]
        constraints = [models.UniqueConstraint(fields=["study", "user"], name="membership_once")]

    def __str__(self) -> str:
        return f"{self.get_role_display()} of {self.study}"


class MembershipChange(models.Model):
    """A role in a study that was granted or removed. Rows are only added.

    Former members are found through this table only; the study's log shows the same changes to people. The account's
    name is not stored, so erasing a person changes no row. The rows of a deleted account remain, without a user.
    """

    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="membership_changes")
    user = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="membership_changes")
    role = models.CharField(
        max_length=8,
        choices=Membership.ROLES,
        blank=True,
        help_text="empty if an early release removed a role without logging which",
    )
    granted = models.BooleanField(help_text="true: the role was granted; false: removed")
    at = models.DateTimeField(default=timezone.now)
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["at", "pk"]
        constraints = [
            models.CheckConstraint(condition=Q(granted=False) | ~Q(role=""), name="membership_change_granted_has_role")
        ]

    def __str__(self) -> str:
        return f"{self.role or 'role'} {'granted' if self.granted else 'removed'} {self.at:%Y-%m-%d %H:%M}"


class RightsPeriod(models.Model):
    """A period in which an account is or was staff or superuser: it shows later what the account could read.

    `ratings.studies.readable_elsewhere` writes it whenever an account is saved. Changes made with SQL are not recorded.
    """

    STAFF, SUPERUSER = "staff", "superuser"
    RIGHTS = [(STAFF, STAFF), (SUPERUSER, SUPERUSER)]

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="rights_periods")
    right = models.CharField(max_length=9, choices=RIGHTS)
    began_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["user", "began_at", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "right"], condition=Q(ended_at__isnull=True), name="rights_period_one_open"
            )
        ]

    def __str__(self) -> str:
        return f"{self.right} since {self.began_at:%Y-%m-%d %H:%M}"


class Rater(models.Model):
    """A rater of a study under a pseudonymous label.

    `user` is empty until somebody accepts the invitation. It stays empty for simulated raters and for raters whose
    ratings were imported; both are labelled as such wherever they are shown.
    """

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    study = models.ForeignKey(Study, on_delete=models.PROTECT, related_name="raters")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="raters")
    label = models.CharField(max_length=12)
    number = models.PositiveIntegerField(default=0, help_text="of the label: R07 is 7")
    simulated = models.BooleanField(default=False)
    imported_as = models.CharField(max_length=120, blank=True, help_text="the rater's name in the file")
    invited_at = models.DateTimeField(null=True, blank=True)
    consented_at = models.DateTimeField(null=True, blank=True)
    guide_seen = models.PositiveSmallIntegerField(default=0, help_text="version of the guide read last")
    practised_at = models.DateTimeField(
        null=True, blank=True, help_text="when practice was passed, or skipped because the study has none"
    )
    started_at = models.DateTimeField(null=True, blank=True, help_text="when the first item could be rated")
    finished_at = models.DateTimeField(
        null=True, blank=True, help_text="when the rater pressed Finish; answers can no longer change"
    )
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    dropped = models.BooleanField(default=False, help_text="withdrawn, and the study does not count their ratings")
    recalled_at = models.DateTimeField(
        null=True, blank=True, help_text="crossover: when the e-mail about the end of the washout was sent"
    )
    new_items_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="when items were added after the rater had finished; empty once an e-mail was sent",
    )
    reviewed_at = models.DateTimeField(
        null=True, blank=True, help_text="when the review of the own items was first opened, after unblinding"
    )
    last_seen_at = models.DateTimeField(null=True, blank=True)
    # Counted when an answer is stored or assignments change (ratings.studies.item_counts), because counting the rows for
    # every page would take longer the more items a rater has. A count that is wrong must not reject an answer: no PositiveIntegerField.
    answered_items = models.IntegerField(default=0, editable=False, help_text="assignments with a rating")
    waiting_items = models.IntegerField(default=0, editable=False, help_text="assignments still to be rated")
    counted_items = models.IntegerField(
        default=0, editable=False, help_text="ratings that count, unless the rater is dropped"
    )
    corrections = models.IntegerField(default=0, editable=False, help_text="how often an answer was corrected")

    class Meta:
        ordering = ["study", "number"]
        constraints = [
            models.UniqueConstraint(fields=["study", "label"], name="rater_label_once"),
            models.UniqueConstraint(fields=["study", "user"], name="rater_user_once_per_study"),
            models.CheckConstraint(
                condition=Q(simulated=False) | Q(invited_at__isnull=True), name="rater_simulated_is_never_invited"
            ),
            models.CheckConstraint(
                condition=Q(dropped=False) | Q(withdrawn_at__isnull=False), name="rater_dropped_has_withdrawn"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} (simulated)" if self.simulated else self.label

    @property
    def is_person(self) -> bool:
        return not (self.simulated or self.imported_as)


class RaterProfile(models.Model):
    """An expert's description of themselves, asked once, and their preferences. Erased with the person's other data."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="rater_profile")
    degree = models.CharField(max_length=60, blank=True)
    field = models.CharField(max_length=120, blank=True)
    years = models.PositiveSmallIntegerField(null=True, blank=True, help_text="of laboratory experience")
    single_keys = models.BooleanField(default=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    erased_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"profile {self.pk}"


class Invitation(models.Model):
    """A personal link to a place in a study, until its rater consents. Only the hash of its token is stored."""

    rater = models.ForeignKey(Rater, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(blank=True)
    name = models.CharField(max_length=120, blank=True, help_text="as the admin wrote it; erased when the rater joins")
    shown_to_admin = models.BooleanField(
        default=False,
        help_text="the link was shown to an admin, so opening it does not prove that the mailbox is the rater's",
    )
    token_sha256 = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)
    send_error = models.CharField(max_length=300, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True, help_text="when its page was first shown")
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"invitation of {self.created_at:%Y-%m-%d %H:%M}"

    @property
    def proven_email(self) -> str:
        """Return the address if only its owner has received the link, else ""."""
        return "" if self.shown_to_admin else self.email


class InvitationText(models.Model):
    """The wording of a study's invitations, as an admin changed it. Without a row, the default wording is used."""

    study = models.OneToOneField(Study, on_delete=models.CASCADE, related_name="invitation_text")
    subject = models.CharField(max_length=150)
    body = models.TextField()
    sender = models.CharField(max_length=80, blank=True, help_text="name of the sender of the study's e-mails")
    duration = models.CharField(max_length=80, blank=True, help_text="expected duration, in words")
    payment = models.CharField(max_length=120, blank=True, help_text="payment, in words")
    updated_at = models.DateTimeField(default=timezone.now)
    updated_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    def __str__(self) -> str:
        return f"wording of invitations, study {self.study_id}"


class SignInLink(models.Model):
    """A link that signs its user in: a rater's works once, an admin's until it expires. Only its hash is stored."""

    PURPOSES = [("admin", "admin"), ("rater", "rater")]

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    purpose = models.CharField(max_length=8, choices=PURPOSES)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.purpose} link of {self.created_at:%Y-%m-%d %H:%M}"


class BrowserSession(AbstractBaseSession):
    """Django's session with a column for its user (empty if nobody is signed in)."""

    # To end all sessions of a person at once; in Django's own table every row would have to be decoded.
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="browser_sessions")

    class Meta(AbstractBaseSession.Meta):  # type: ignore[name-defined,misc]  # missing in the stubs
        abstract = False

    @classmethod
    def get_session_store_class(cls) -> Any:
        return import_module(settings.SESSION_ENGINE).SessionStore


class ApiToken(models.Model):
    """Allows a program to read what its user may read, within its scopes. Only the hash of the token is stored."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=60)
    token_sha256 = models.CharField(max_length=64, unique=True)
    scopes: "models.JSONField[Any, Any]" = models.JSONField(default=list, help_text="names of ratings.api.tokens")
    # Not derived from `studies`: deleting the only study of a token must not give it access to all of them.
    limited = models.BooleanField(default=False, help_text="reads `studies` alone, and nothing of the laboratory")
    studies: "models.ManyToManyField[Study, Any]" = models.ManyToManyField(Study, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="to the minute")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="api_token_expires_after_made")
        ]

    def __str__(self) -> str:
        return f"API token {self.name}"

    @property
    def validity_state(self) -> str:
        """Return "live", "expired" or "revoked"."""
        if self.revoked_at:
            return "revoked"
        return "live" if timezone.now() < self.expires_at else "expired"
