"""Store the system text that the calls of a role share only once, under its hash.

The rest of each request is stored as it was sent.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from simulation.models import CallText

_MIN_STORED_LENGTH = 1000  # characters; a shorter text stays in its request
_HASH_KEY = "text_sha256"
_MAX_KNOWN_HASHES = 5000
# Hashes of texts that are committed. Spares an INSERT for almost every call.
_known_hashes: set[str] = set()


def deduplicate_text(body: Any, text: str) -> Any:
    """Return the body with `text` replaced by its hash, and store `text`; a short text stays in the body.

    Call it in the transaction that stores the call.
    """
    if len(text) < _MIN_STORED_LENGTH:
        return body
    sha = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    if sha not in _known_hashes:
        # Two workers may store the same text at once; the hash is the key, so either row will do.
        CallText.objects.bulk_create([CallText(sha256=sha, text=text)], ignore_conflicts=True)
    return _replace_text(body, text, {_HASH_KEY: sha})


def remember_stored_texts(body: Any) -> None:
    """Record that the texts of this body are committed, so that this process does not store them again."""
    if len(_known_hashes) > _MAX_KNOWN_HASHES:
        # A bound on memory; the only cost is that some texts are offered to the database once more.
        _known_hashes.clear()
    _known_hashes.update(collect_hashes(body))


def restore_texts(bodies: Iterable[Any]) -> list[Any]:
    """Return these bodies with every hash replaced by its text, with one query."""
    stored = list(bodies)
    requested = {sha for body in stored for sha in collect_hashes(body)}
    texts = dict(CallText.objects.filter(pk__in=requested).values_list("sha256", "text")) if requested else {}
    return [_insert_texts(body, texts) for body in stored]


def collect_hashes(body: Any) -> set[str]:
    if isinstance(body, Mapping):
        if set(body) == {_HASH_KEY}:
            return {str(body[_HASH_KEY])}
        return set().union(*map(collect_hashes, body.values()))
    return set().union(*map(collect_hashes, body)) if isinstance(body, list | tuple) else set()


def _replace_text(body: Any, text: str, replacement: Mapping[str, str]) -> Any:
    if isinstance(body, str):
        return replacement if body == text else body
    if isinstance(body, Mapping):
        return {key: _replace_text(value, text, replacement) for key, value in body.items()}
    return [_replace_text(part, text, replacement) for part in body] if isinstance(body, list | tuple) else body


def _insert_texts(body: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(body, Mapping):
        if set(body) == {_HASH_KEY}:
            return texts.get(str(body[_HASH_KEY]), "")
        return {key: _insert_texts(value, texts) for key, value in body.items()}
    return [_insert_texts(part, texts) for part in body] if isinstance(body, list) else body
