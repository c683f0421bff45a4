"""Store the text that all calls of a role begin with once, under its hash, and the rest of each request as it was sent."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from simulation.models import CallText

_LONG = 1000  # characters; a shorter text stays in its request
_KEY = "text_sha256"
_MOST_KNOWN = 5000
# Hashes of texts that are committed. Spares an INSERT for almost every call.
_known: set[str] = set()


def put(body: Any, recurring: str) -> Any:
    """Return the body with `recurring` replaced by its hash, and store that text. Call it in the transaction that stores the call."""
    if len(recurring) < _LONG:
        return body
    sha = hashlib.sha256(recurring.encode("utf-8", "replace")).hexdigest()
    if sha not in _known:
        # Two workers may store the same text at once; the hash is the key, so either row will do.
        CallText.objects.bulk_create([CallText(sha256=sha, text=recurring)], ignore_conflicts=True)
    return _without(body, recurring, {_KEY: sha})


def remember(body: Any) -> None:
    """Note that the texts of this body are committed, so this process need not store them again."""
    if len(_known) > _MOST_KNOWN:
        # A bound on memory; the only cost is that some texts are offered to the database once more.
        _known.clear()
    _known.update(hashes(body))


def take(bodies: Iterable[Any]) -> list[Any]:
    """Return these bodies with their texts in place. Costs one query."""
    stored = list(bodies)
    requested = {sha for body in stored for sha in hashes(body)}
    texts = dict(CallText.objects.filter(pk__in=requested).values_list("sha256", "text")) if requested else {}
    return [_with(body, texts) for body in stored]


def hashes(body: Any) -> set[str]:
    if isinstance(body, Mapping):
        if set(body) == {_KEY}:
            return {str(body[_KEY])}
        return set().union(*map(hashes, body.values()))
    return set().union(*map(hashes, body)) if isinstance(body, list | tuple) else set()


def _without(body: Any, text: str, instead: Mapping[str, str]) -> Any:
    if isinstance(body, str):
        return instead if body == text else body
    if isinstance(body, Mapping):
        return {key: _without(value, text, instead) for key, value in body.items()}
    return [_without(part, text, instead) for part in body] if isinstance(body, list | tuple) else body


def _with(body: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(body, Mapping):
        if set(body) == {_KEY}:
            return texts.get(str(body[_KEY]), "")
        return {key: _with(value, texts) for key, value in body.items()}
    return [_with(part, texts) for part in body] if isinstance(body, list) else body
