"""Browser sessions with their users."""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class BrowserSession(AbstractBaseSession):
    """Django's session with a column for its user (empty if nobody is signed in)."""

    # With this column all sessions of a person can be ended at once; in Django's own table every row would have to be
    # decoded.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="browser_sessions"
    )

    class Meta(AbstractBaseSession.Meta):  # type: ignore[name-defined,misc]  # missing in the stubs
        abstract = False

    @classmethod
    def get_session_store_class(cls) -> Any:
        return import_module(settings.SESSION_ENGINE).SessionStore
