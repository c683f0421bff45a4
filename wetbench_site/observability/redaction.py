"""What a log may say: no secret, no sign that could forge a line, and nothing that a model or a person wrote."""

import re
import traceback
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError

HIDDEN = "[hidden]"
# Keys of providers, API tokens, headers that carry one, cookies, and personal links: of each the part that opens something.
_SHAPES = re.compile(
    r"(?P<key>\bsk-[\w-]{12,}|\bAIza[\w-]{20,}|\bwb_[\w-]{40,})"
    r"|(?P<header>\b(?:Bearer|Basic)\s+)\S+"
    r"|(?P<cookie>\b(?:__Host-)?(?:wb_session|wb_csrf|sessionid|csrftoken|csrfmiddlewaretoken)['\"]?\s*[=:]\s*['\"]?)[\w-]+"
    r"|(?P<cookies>\b(?:Set-)?Cookie['\"]?:\s*).+"
    r"|(?P<link>/(?:r|sign-in|mail)/)[\w-]{16,}"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
# Faults whose words are the system's or our own. Others may quote a prompt, a reply or a row.
PLAIN = (
    AttributeError,
    ImportError,
    ImproperlyConfigured,
    InterfaceError,
    NameError,
    OperationalError,
    OSError,
    TypeError,
)
SHORTEST = 6  # a shorter secret would blacken ordinary words


class Redactor:
    """Takes the values of all secrets at the start; what stands inside an address of a service is one of them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole = {value for secret in secrets for value in _forms(secret) if len(value) >= SHORTEST}
        ordered = sorted(whole, key=len, reverse=True)
        self._secrets = re.compile("|".join(re.escape(value) for value in ordered)) if ordered else None

    def __call__(self, text: str) -> str:
        """The text without secrets, on one line."""
        if self._secrets:
            text = self._secrets.sub(HIDDEN, text)
        return escaped(_SHAPES.sub(_kept, text))

    def traceback(self, error: BaseException) -> str:
        """Where it happened and what it was; what it said only where those are no words of models or people."""
        return "\n".join(self(line) for line in _lines(error))


def escaped(text: str) -> str:
    return _CONTROL.sub(lambda sign: sign[0].encode("unicode_escape").decode("ascii"), text)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is and as addresses write it; of an address its password."""
    yield from {secret, quote(secret, safe="")}
    if "://" in secret and (password := urlsplit(secret).password):
        yield from {password, unquote(password)}


def _kept(found: re.Match[str]) -> str:
    """The word that says what was there, and not what it was."""
    return ("" if found["key"] else found[found.lastgroup or 0]) + HIDDEN


def _lines(error: BaseException) -> Iterator[str]:
    """Oldest cause first, as Python tells it, without lines of source and without locals."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _lines(before)
        yield "then:"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
    yield f"{type(error).__module__}.{type(error).__qualname__}" + (f": {error}" if isinstance(error, PLAIN) else "")
