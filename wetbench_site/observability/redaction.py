"""Redaction of log lines: no secrets, no characters that could forge a line, no text of models or people."""

import re
import traceback
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError
from django.views.debug import ExceptionReporter

HIDDEN = "[hidden]"
# Keys of providers, API tokens, headers and cookies with a credential, personal links: the part that grants access.
_CREDENTIALS = re.compile(
    r"(?P<key>\bsk-[\w-]{12,}|\bAIza[\w-]{20,}|\bwb_[\w-]{40,})"
    r"|(?P<header>\b(?:Bearer|Basic)\s+)\S+"
    r"|(?P<cookie>\b(?:__Host-)?(?:wb_session|wb_csrf|sessionid|csrftoken|csrfmiddlewaretoken)['\"]?\s*[=:]\s*['\"]?)[\w-]+"
    r"|(?P<cookies>\b(?:Set-)?Cookie['\"]?:\s*).+"
    r"|(?P<link>/(?:r|sign-in|mail)/)[\w-]{16,}"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
# Errors whose messages come from the system or from us. Other messages may quote a prompt, a reply or a row.
SAFE_ERRORS = (
    AttributeError, ImportError, ImproperlyConfigured, InterfaceError, NameError, OperationalError, OSError, TypeError,
)  # fmt: skip
MIN_SECRET_LENGTH = 6  # shorter ones would hide parts of ordinary words


class Redactor:
    """Replaces secrets in texts. If a secret is an address, its password is also replaced where it occurs alone."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {value for secret in secrets for value in _list_spellings(secret) if len(value) >= MIN_SECRET_LENGTH}
        # Longest first: a secret that contains another one has to match as a whole.
        ordered = sorted(values, key=len, reverse=True)
        self._secrets = re.compile("|".join(re.escape(value) for value in ordered)) if ordered else None

    def __call__(self, text: str) -> str:
        """Return the text without secrets, on one line."""
        if self._secrets:
            text = self._secrets.sub(HIDDEN, text)
        return escape_control_characters(_CREDENTIALS.sub(_mask_credential, text))

    def format_traceback(self, error: BaseException) -> str:
        """Return the frames and types of the error and its causes, with the messages of SAFE_ERRORS only."""
        return "\n".join(self(line) for line in _format_frames(error))


def escape_control_characters(text: str) -> str:
    return _CONTROL.sub(lambda sign: sign[0].encode("unicode_escape").decode("ascii"), text)


def _list_spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it is and URL-encoded; for an address also its password."""
    yield from {secret, quote(secret, safe="")}
    if "://" in secret and (password := urlsplit(secret).password):
        yield from {password, unquote(password)}


def _mask_credential(match: re.Match[str]) -> str:
    """Return the prefix that shows the kind of credential, without its value."""
    # A key has no prefix of its own: its first characters are already part of the secret.
    return ("" if match["key"] else match[match.lastgroup or 0]) + HIDDEN


def _format_frames(error: BaseException) -> Iterator[str]:
    """Yield the lines of the traceback, oldest cause first as in Python, without source lines and local variables."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _format_frames(cause)
        yield "then:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    message = f": {error}" if isinstance(error, SAFE_ERRORS) else ""
    yield f"{type(error).__module__}.{type(error).__qualname__}{message}"


class ReporterWithoutLocals(ExceptionReporter):
    """Report frames and lines of code only, also on Django's debug page."""

    def get_traceback_frames(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = super().get_traceback_frames()
        return [{**frame, "vars": []} for frame in frames]
