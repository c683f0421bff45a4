"""API tokens, with which programs read studies."""

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from ratings.models.studies import Study


class ApiToken(models.Model):
    """Allows a program to read what its user may read, within its scopes. Only the hash of the token is stored."""

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
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
