"""What is stored for raters, looked at by itself: no key, word or order that an allow-list would not have made."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any

from ratings.blinding import payload_digest
from ratings.blinding.source_names import Finding
from ratings.models import Item, ItemSource, Study
from ratings.studies.blinding_audit.findings import DECLARED, Check, Leak
from ratings.studies.blinding_audit.sealed import Sealed
from ratings.studies.pool import quarantine
from ratings.studies.pool.quarantine import Secret

_MATERIAL = {"ref", "name", "properties", "condition", "availability"}
_ACTION = {"name", "parameters"}
_SEEN = {"type", "description", "value"}
# Every place of a payload or context that has keys, and the keys it may have. [] stands for each entry of a list.
ALLOWED = {
    "transition": {
        "": {"kind", "lineage", "action", "before", "after", "observations", "rejected"},
        "action": _ACTION,
        "before[]": _MATERIAL,
        "after[]": _MATERIAL | {"continues"},
        "observations[]": _SEEN,
    },
    "evidence": {
        "": {"kind", "goal", "steps"},
        "steps[]": {"number", "time", "action", "materials", "made", "observations", "rejected"},
        "steps[].action": _ACTION,
        "steps[].materials[]": {"ref", "name"},
        "steps[].made[]": _MATERIAL | {"continues"},
        "steps[].observations[]": _SEEN,
    },
    "context": {
        "": {"goal", "time", "steps"},
        "steps[]": {"number", "time", "action", "materials", "parameters", "rejected"},
    },
}


def checks(study: Study, sealed: Sealed) -> list[Check]:
    """All that can be said of the stored items without showing them to anybody."""
    keys = Check(
        "payload keys", "Does a payload hold a key that the allow-list does not have, or keys in another order?"
    )
    words = Check("payload words", "Does a shown text tell a source, or repeat what was said of the planted error?")
    names = Check(
        "names of sources",
        "Does a shown text name a model, a maker of models, a cast or a source that nobody declared a thing in the laboratory "
        "for this item?",
    )
    lexicon, things = quarantine.lexicon(study), quarantine.declared(study)
    used: Counter[tuple[str, str]] = Counter()
    lists = Check("payload order", "Are properties and parameters in one order for every source?")
    hashes = Check("payload digest", "Is every payload what was frozen?")
    orders = _Orders()
    newer = _told_lineage(study)
    for item, secret, released in _items(study):
        keys.saw(_keys(item.payload, str(item.payload.get("kind")), item.context, item.created_at in newer))
        words.saw([] if released else _words(item, secret, sealed))
        declared = things.get(item.payload_sha256, {})
        named = list(quarantine.names_in(item.payload, item.context, lexicon))
        used.update({(f.text, declared[f.text]) for _, f in named if f.text in declared})
        names.saw(_named(item, [(place, finding) for place, finding in named if finding.text not in declared]))
        hashes.saw([] if payload_digest(item.payload) == item.payload_sha256 else [_CHANGED])
        lists.looked_at += 1
        orders.add(item.payload)
    lists.leaks = orders.leaks()
    if used:
        rows = [{"word": word, "reason": said, "items": n} for (word, said), n in sorted(used.items())]
        names.measured[DECLARED] = rows
    return [keys, words, names, lists, hashes]


_CHANGED = Leak("a stored payload", "it is not what its digest was made of")


def _items(study: Study) -> Iterator[tuple[Item, Secret, bool]]:
    """Each item with what its texts must not repeat, and whether a person has released it from quarantine."""
    released = set(study.quarantine.filter(decision="released").values_list("payload_sha256", flat=True))
    rows = ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition")
    for source in rows.order_by("item__code").iterator(chunk_size=200):
        step = source.transition.step if source.transition else None
        secret = Secret()
        if source.twin and step:
            told = str((source.twin.outcome or {}).get("reasoning") or "").partition("SECRET")[2]
            secret = Secret(f"{source.twin.why}\n{told}", step["outcome"])
        yield source.item, secret, source.item.payload_sha256 in released


def _told_lineage(study: Study) -> set[datetime]:
    """Batches of which any payload says whether lineage is known. Before release 2 none did, so none told by it."""
    rows = Item.objects.filter(study=study).values_list("created_at", "payload")
    return {batch for batch, payload in rows.iterator() if "lineage" in payload}


def _keys(payload: Any, kind: str, context: Any, lineage: bool) -> Iterator[Leak]:
    if kind not in ("transition", "evidence"):
        yield Leak("payload", f"an unknown kind {kind!r}")
        return
    allowed = ALLOWED[kind]
    yield from _strange("payload", payload, allowed if lineage else {**allowed, "": allowed[""] - {"lineage"}})
    if context:
        yield from _strange("context", context, ALLOWED["context"])


def _strange(root: str, value: Any, allowed: Mapping[str, set[str]], place: str = "") -> Iterator[Leak]:
    if isinstance(value, Mapping):
        where = f"{root}.{place}".rstrip(".")
        if place not in allowed:
            yield Leak(where, f"keys where there are none: {', '.join(map(str, value))[:80]}")
            return
        yield from (Leak(where, f"payload key {key!r}") for key in value if key not in allowed[place])
        yield from (Leak(where, f"no payload key {key!r}") for key in sorted(allowed[place] - set(value)))
        for key, part in value.items():
            yield from _strange(root, part, allowed, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from _strange(root, part, allowed, f"{place}[]" if isinstance(part, Mapping) else place)


def _words(item: Item, secret: Secret, sealed: Sealed) -> Iterator[Leak]:
    for place, what in quarantine.reasons(item.payload, item.context, secret):
        yield Leak(_generic(f"payload.{place}"), what)
    for place, text in [*quarantine.texts(item.payload), *quarantine.texts(item.context, "context")]:
        for what, told in sealed.told_in(text):
            if not _ordinary(what, told):
                yield Leak(_generic(f"payload.{place}"), f"{what}: {told[:60]!r}")


def _named(item: Item, named: Iterable[tuple[str, Finding]]) -> Iterator[Leak]:
    """Yield the places of an item that name a source, by the item's code and the kind of name, never the name."""
    for place, finding in named:
        yield Leak(f"item {item.code}: {_generic(f'payload.{place}')}", quarantine.KINDS[finding.kind])


def _ordinary(what: str, told: str) -> bool:
    """Words that a laboratory has a use for: a subtle change of colour, an obvious precipitate, a checklist."""
    return what == "the error type" or (what == "the word" and told != "mat-" and told.isalpha())


def _generic(place: str) -> str:
    """The place without the numbers of entries: a report must not point at an item."""
    return re.sub(r"\[\d+\]", "[]", place)


class _Orders:
    """Which of two labels came first, and which of two keys, wherever both stand in one list."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, str], int] = {}

    def add(self, value: Any, place: str = "payload") -> None:
        if isinstance(value, Mapping):
            self._note(f"keys of {place}", list(value))
            for key, part in value.items():
                self.add(part, f"{place}.{key}")
        elif isinstance(value, list):
            if place.endswith((".properties", ".parameters")):
                self._note(place, [str(row[0]) for row in value if isinstance(row, list) and row])
            else:
                for part in value:
                    self.add(part, f"{place}[]")

    def _note(self, place: str, names: Sequence[str]) -> None:
        place = place.replace(".before[]", "").replace(".after[]", "") if "keys" not in place else place
        for pair in combinations(names, 2):
            self._before[(place, *pair)] = self._before.get((place, *pair), 0) + 1

    def leaks(self) -> list[Leak]:
        """Both orders of one pair: an order that varies can vary with the source."""
        seen = self._before
        both = [(place, a, b) for place, a, b in seen if a < b and (place, b, a) in seen]
        return [
            Leak(place, f"key order: {a!r} stands before {b!r} in some and behind it in others") for place, a, b in both
        ]
