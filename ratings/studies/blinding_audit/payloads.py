"""Checks of the stored items alone: they must have no key, word or order that the allow-list would not have produced."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any

from ratings.blinding import payload_digest
from ratings.blinding.source_names import NameFinding
from ratings.models import Item, ItemSource, Study
from ratings.studies.blinding_audit.findings import DECLARED, Check, Leak
from ratings.studies.blinding_audit.sealed_values import SealedValues
from ratings.studies.pool import quarantine
from ratings.studies.pool.quarantine import Secret

_MATERIAL = {"ref", "name", "properties", "condition", "availability"}
_ACTION = {"name", "parameters"}
_OBSERVATION = {"type", "description", "value"}
# Each location of a payload or context that has keys, and the keys allowed there. [] means each entry of a list.
ALLOWED_KEYS = {
    "transition": {
        "": {"kind", "lineage", "action", "before", "after", "observations", "rejected"},
        "action": _ACTION,
        "before[]": _MATERIAL,
        "after[]": _MATERIAL | {"continues"},
        "observations[]": _OBSERVATION,
    },
    "evidence": {
        "": {"kind", "goal", "steps"},
        "steps[]": {"number", "time", "action", "materials", "made", "observations", "rejected"},
        "steps[].action": _ACTION,
        "steps[].materials[]": {"ref", "name"},
        "steps[].made[]": _MATERIAL | {"continues"},
        "steps[].observations[]": _OBSERVATION,
    },
    "context": {
        "": {"goal", "time", "steps"},
        "steps[]": {"number", "time", "action", "materials", "parameters", "rejected"},
    },
}


def check_payloads(study: Study, sealed: SealedValues) -> list[Check]:
    """Return the checks of the stored items. They render no page."""
    keys = Check(
        "payload keys", "Does a payload have a key that the allow-list does not have, or keys in another order?"
    )
    words = Check("payload words", "Does a shown text reveal a source, or repeat the explanation of a planted error?")
    names = Check(
        "names of sources",
        "Does a shown text name a model, a maker of models, a cast or a source, unless somebody declared the name a thing in "
        "the laboratory for this item?",
    )
    lexicon, declared_things = quarantine.build_lexicon(study), quarantine.load_declared_things(study)
    declared_uses: Counter[tuple[str, str]] = Counter()
    order_check = Check("payload order", "Are properties and parameters in the same order for every source?")
    hashes = Check("payload digest", "Is every payload as it was frozen?")
    orders = _KeyOrders()
    batches_with_lineage = _find_batches_with_lineage(study)
    for item, secret, released in _iter_items(study):
        keys.add_leaks(
            _find_wrong_keys(
                item.payload, str(item.payload.get("kind")), item.context, item.created_at in batches_with_lineage
            )
        )
        # A person has read a released item and found that its words reveal nothing.
        words.add_leaks([] if released else _find_telling_words(item, secret, sealed))
        declared = declared_things.get(item.payload_sha256, {})
        findings_in_item = list(quarantine.find_names(item.payload, item.context, lexicon))
        declared_uses.update({(f.text, declared[f.text]) for _, f in findings_in_item if f.text in declared})
        names.add_leaks(
            _describe_named_sources(
                item, [(place, finding) for place, finding in findings_in_item if finding.text not in declared]
            )
        )
        hashes.add_leaks([] if payload_digest(item.payload) == item.payload_sha256 else [_CHANGED_PAYLOAD])
        order_check.looked_at += 1
        orders.collect_orders(item.payload)
    order_check.leaks = orders.list_leaks()
    if declared_uses:
        rows = [{"word": word, "reason": said, "items": n} for (word, said), n in sorted(declared_uses.items())]
        names.measured[DECLARED] = rows
    return [keys, words, names, order_check, hashes]


_CHANGED_PAYLOAD = Leak("a stored payload", "it does not match its digest")


def _iter_items(study: Study) -> Iterator[tuple[Item, Secret, bool]]:
    """Yield each item with the secret that its texts must not repeat, and whether a person released it from
    quarantine.
    """
    released = set(study.quarantine.filter(decision="released").values_list("payload_sha256", flat=True))
    rows = ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition")
    # In chunks, so that a large study is not in memory at once.
    for source in rows.order_by("item__code").iterator(chunk_size=200):
        step = source.transition.step if source.transition else None
        secret = Secret()
        if source.twin and step:
            secret_reasoning = str((source.twin.outcome or {}).get("reasoning") or "").partition("SECRET")[2]
            secret = Secret(f"{source.twin.explanation}\n{secret_reasoning}", step["outcome"])
        yield source.item, secret, source.item.payload_sha256 in released


def _find_batches_with_lineage(study: Study) -> set[datetime]:
    """Return the batches in which any payload states whether lineage is known."""
    # Before release 2 no payload stated it; a batch of which only some payloads do would distinguish them.
    rows = Item.objects.filter(study=study).values_list("created_at", "payload")
    return {batch for batch, payload in rows.iterator() if "lineage" in payload}


def _find_wrong_keys(payload: Any, kind: str, context: Any, lineage: bool) -> Iterator[Leak]:
    if kind not in ("transition", "evidence"):
        yield Leak("payload", f"an unknown kind {kind!r}")
        return
    allowed = ALLOWED_KEYS[kind]
    yield from _find_unknown_keys(
        "payload", payload, allowed if lineage else {**allowed, "": allowed[""] - {"lineage"}}
    )
    if context:
        yield from _find_unknown_keys("context", context, ALLOWED_KEYS["context"])


def _find_unknown_keys(root: str, value: Any, allowed: Mapping[str, set[str]], path: str = "") -> Iterator[Leak]:
    if isinstance(value, Mapping):
        location = f"{root}.{path}".rstrip(".")
        if path not in allowed:
            yield Leak(location, f"keys where there are none: {', '.join(map(str, value))[:80]}")
            return
        yield from (Leak(location, f"payload key {key!r}") for key in value if key not in allowed[path])
        # A missing key is a leak as well: it would distinguish items as an additional key does.
        yield from (Leak(location, f"no payload key {key!r}") for key in sorted(allowed[path] - set(value)))
        for key, part in value.items():
            yield from _find_unknown_keys(root, part, allowed, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from _find_unknown_keys(root, part, allowed, f"{path}[]" if isinstance(part, Mapping) else path)


def _find_telling_words(item: Item, secret: Secret, sealed: SealedValues) -> Iterator[Leak]:
    for location, kind in quarantine.find_reasons(item.payload, item.context, secret):
        yield Leak(_strip_indices(f"payload.{location}"), kind)
    for location, text in [*quarantine.iter_texts(item.payload), *quarantine.iter_texts(item.context, "context")]:
        for kind, value in sealed.find_in(text):
            if not _is_ordinary_word(kind, value):
                yield Leak(_strip_indices(f"payload.{location}"), f"{kind}: {value[:60]!r}")


def _describe_named_sources(item: Item, findings: Iterable[tuple[str, NameFinding]]) -> Iterator[Leak]:
    """Yield a leak for each location in an item that names a source: the item's code and the kind of name, never the
    name.
    """
    for location, finding in findings:
        yield Leak(f"item {item.code}: {_strip_indices(f'payload.{location}')}", quarantine.NAME_KINDS[finding.kind])


def _is_ordinary_word(kind: str, value: str) -> bool:
    """Return whether laboratories use the word as well: "a subtle change of colour", "an obvious precipitate", "a
    checklist".
    """
    return kind == "the error type" or (kind == "the word" and value != "mat-" and value.isalpha())


def _strip_indices(location: str) -> str:
    # A report must not point at an item, and numbers of entries could.
    return re.sub(r"\[\d+\]", "[]", location)


class _KeyOrders:
    """The order of every two labels, and of every two keys, that occur together in one list."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, str], int] = {}

    def collect_orders(self, value: Any, location: str = "payload") -> None:
        if isinstance(value, Mapping):
            self._count_pairs(f"keys of {location}", list(value))
            for key, part in value.items():
                self.collect_orders(part, f"{location}.{key}")
        elif isinstance(value, list):
            if location.endswith((".properties", ".parameters")):
                self._count_pairs(location, [str(row[0]) for row in value if isinstance(row, list) and row])
            else:
                for part in value:
                    self.collect_orders(part, f"{location}[]")

    def _count_pairs(self, location: str, names: Sequence[str]) -> None:
        # A property is written in one order before and after a step, so both are compared together.
        location = location.replace(".before[]", "").replace(".after[]", "") if "keys" not in location else location
        for pair in combinations(names, 2):
            self._before[(location, *pair)] = self._before.get((location, *pair), 0) + 1

    def list_leaks(self) -> list[Leak]:
        """Return a leak for each pair that occurs in both orders, because an order that varies can depend on the
        source.
        """
        order_counts = self._before
        in_both_orders = [(place, a, b) for place, a, b in order_counts if a < b and (place, b, a) in order_counts]
        return [
            Leak(place, f"key order: {a!r} is before {b!r} in some items and after it in others")
            for place, a, b in in_both_orders
        ]
