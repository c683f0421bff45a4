"""Checks of the stored items alone: they must have no key, word or order that the allow-list would not have produced."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Q

from ratings.blinding import payload_digest
from ratings.models import Assignment, Item, ItemSource, Rater, Study
from ratings.studies import designs, quarantine, readable_elsewhere
from ratings.studies.blinding_audit.findings import DECLARED, OTHER_STUDIES, Check, Leak
from ratings.studies.pool import extract_reasoning_secret
from ratings.studies.quarantine import Secret
from simulation.casts.run_config import RULE_BASED_CASTS
from wetbench_site.text import format_count

# Words about the origin of items, which no rater's page needs.
SEALED_WORDS = (
    "secret:", "perturb", "unperturbed", "twin", "error_type", "error-type", "injector", "provenance", "itemsource",
    "fidelity", "ledger", "mat-", "lapses", "checklist",
)  # fmt: skip
_ANY_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, SEALED_WORDS))})")
_MIN_LENGTH = 6  # characters; shorter values are ordinary words or numbers
_PLAIN_WORD = re.compile(r"[a-z]+")


class SealedValues(NamedTuple):
    """`values` reveal an origin wherever they occur; `labels`, such as casts, reveal it as separate words."""

    values: dict[str, str]
    labels: dict[str, str]

    def find_in(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each sealed value that this text contains, preceded by its kind."""
        low = text.lower()
        yield from ((what, value) for value, what in self.values.items() if value in low)
        yield from ((what, label) for label, what in self.labels.items() if contains_word(low, label))
        yield from (("the word", word) for word in sorted(set(_ANY_WORD.findall(low))))


def collect_sealed_values(study: Study) -> SealedValues:
    """Return the sealed values: codes, digests, sources, and what is known of each planted error."""
    values: dict[str, str] = {}
    labels: dict[str, str] = {}
    rows = ItemSource.objects.filter(item__study=study)
    # Without the large documents: none of their text is compared here.
    rows = rows.select_related("item", "twin", "imported", "transition__episode").defer(
        "item__payload", "item__context", "twin__outcome", "twin__diff", "transition__step", "transition__findings"
    )
    for source in rows:
        values |= {text.lower(): what for what, text in _iter_values(source) if len(text) >= _MIN_LENGTH}
        labels |= {word: what for what, word in _iter_labels(source) if word}
    return SealedValues(values, labels)


def _iter_values(source: ItemSource) -> Iterator[tuple[str, str]]:
    yield "the pair's code", str(source.pair)
    yield "the item's own code", str(source.item.code)
    yield "the payload's digest", source.item.payload_sha256
    yield "the digest of the pair", source.item.pair_sha256
    if source.transition:
        yield "the transition's code", str(source.transition.code)
        yield "the episode's code", str(source.transition.episode.code)
        yield "the transition's digest", source.transition.content_sha256
    if twin := source.twin:
        yield "the twin's code", str(twin.code)
        yield "the kind of the planted error", twin.kind if "_" in twin.kind or " " in twin.kind else ""
        yield "the location of the planted error", twin.field
        yield "the rule that was broken", twin.rule
        yield "the explanation of the planted error", twin.explanation
    # A number as a key would be found in every second text.
    if source.imported and len(source.imported.key) > _MIN_LENGTH and not source.imported.key.isdigit():
        yield "the item's key in the imported file", source.imported.key


def _iter_labels(source: ItemSource) -> Iterator[tuple[str, str]]:
    """Yield the names of sources that are not ordinary words, and error types."""
    label = source.label.lower()
    if label in RULE_BASED_CASTS or not _PLAIN_WORD.fullmatch(label):
        yield "the source", label
    if source.perturbation != "none":
        yield "the error type", source.perturbation
    if source.experiment and "-" in source.experiment:
        yield "the experiment's short name", source.experiment.lower()


@cache
def load_interface_words() -> frozenset[str]:
    """Return the words of the rating pages' own templates and scripts, which do not depend on any item."""
    files = [*(settings.BASE_DIR / "templates").glob("ratings/*.html"), settings.BASE_DIR / "templates" / "base.html"]
    files += [*(settings.BASE_DIR / "templates" / "registration").glob("*.html")]
    files += [*(settings.BASE_DIR / "static").glob("*.js")]
    return frozenset(word for path in files for word in re.findall(r"[a-z]+", path.read_text().lower()))


def contains_word(text: str, word: str) -> bool:
    """Return whether the text, in lower case, contains this as a separate word."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None


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


_QUESTIONS = {
    "payload keys": "Does a payload have a key that the allow-list does not have, or keys in another order?",
    "payload words": "Does a shown text reveal a source, or repeat the explanation of a planted error?",
    "names of sources": "Does a shown text name a model, a maker of models, a cast or a source, unless somebody declared the name a "
    "thing in the laboratory for this item?",
    "payload order": "Are properties and parameters in the same order for every source?",
    "payload digest": "Is every payload as it was frozen?",
}


def check_payloads(study: Study, sealed: SealedValues) -> list[Check]:
    """Return the checks of the stored items. They render no page."""
    keys, words, names, orders, hashes = (Check(name, question) for name, question in _QUESTIONS.items())
    lexicon, declared_things = quarantine.build_lexicon(study), quarantine.load_declared_things(study)
    declared_uses: Counter[tuple[str, str]] = Counter()
    pairs: dict[tuple[str, str, str], None] = {}  # a set that keeps the order
    # Batches in which any payload states whether lineage is known. Before release 2 no payload stated it; a batch of
    # which only some payloads do would distinguish them.
    rows = Item.objects.filter(study=study).values_list("created_at", "payload")
    batches_with_lineage = {batch for batch, payload in rows.iterator() if "lineage" in payload}
    for item, secret, released in _iter_items(study):
        with_lineage = item.created_at in batches_with_lineage
        keys.add_leaks(_find_wrong_keys(item, with_lineage))
        # A person has read a released item and found that its words reveal nothing.
        words.add_leaks([] if released else _find_telling_words(item, secret, sealed))
        declared = declared_things.get(item.payload_sha256, {})
        findings = list(quarantine.find_names(item.payload, item.context, lexicon))
        declared_uses.update({(f.text, declared[f.text]) for _, f in findings if f.text in declared})
        # The item's code and the kind of name, never the name.
        undeclared = ((_strip_indices(f"payload.{place}"), f.kind) for place, f in findings if f.text not in declared)
        names.add_leaks(Leak(f"item {item.code}: {place}", quarantine.NAME_KINDS[kind]) for place, kind in undeclared)
        is_unchanged = payload_digest(item.payload) == item.payload_sha256
        hashes.add_leaks([] if is_unchanged else [Leak("a stored payload", "it does not match its digest")])
        orders.looked_at += 1
        pairs |= dict.fromkeys(_iter_ordered_pairs(item.payload))
    # An order that varies can depend on the source.
    varying = ((place, a, b) for place, a, b in pairs if a < b and (place, b, a) in pairs)
    text = "key order: {!r} is before {!r} in some items and after it in others"
    orders.leaks = [Leak(place, text.format(a, b)) for place, a, b in varying]
    if declared_uses:
        uses = sorted(declared_uses.items())
        names.measured[DECLARED] = [{"word": word, "reason": said, "items": n} for (word, said), n in uses]
    return [keys, words, names, orders, hashes]


def _iter_items(study: Study) -> Iterator[tuple[Item, Secret, bool]]:
    """Yield each item with the secret that its texts must not repeat, and whether a person released it."""
    released = set(study.quarantine.filter(decision="released").values_list("payload_sha256", flat=True))
    rows = ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition")
    # In chunks, so that a large study is not in memory at once.
    for source in rows.order_by("item__code").iterator(chunk_size=200):
        step = source.transition.step if source.transition else None
        secret = Secret()
        if source.twin and step:
            secret_reasoning = extract_reasoning_secret(source.twin.outcome or {})
            secret = Secret(f"{source.twin.explanation}\n{secret_reasoning}", step["outcome"])
        yield source.item, secret, source.item.payload_sha256 in released


def _find_wrong_keys(item: Item, lineage: bool) -> Iterator[Leak]:
    kind = str(item.payload.get("kind"))
    if kind not in ("transition", "evidence"):
        yield Leak("payload", f"an unknown kind {kind!r}")
        return
    root_keys = ALLOWED_KEYS[kind][""] - (set() if lineage else {"lineage"})
    yield from _find_unknown_keys("payload", item.payload, {**ALLOWED_KEYS[kind], "": root_keys})
    if item.context:
        yield from _find_unknown_keys("context", item.context, ALLOWED_KEYS["context"])


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
            # Laboratories use some of these words as well: "a subtle change of colour", "a checklist".
            is_ordinary = kind == "the error type" or (kind == "the word" and value != "mat-" and value.isalpha())
            if not is_ordinary:
                yield Leak(_strip_indices(f"payload.{location}"), f"{kind}: {value[:60]!r}")


def _strip_indices(location: str) -> str:
    # A report must not point at an item, and numbers of entries could.
    return re.sub(r"\[\d+\]", "[]", location)


def _iter_ordered_pairs(value: Any, location: str = "payload") -> Iterator[tuple[str, str, str]]:
    """Yield every two keys, and every two labels, that occur together in one list, in their order."""
    if isinstance(value, Mapping):
        yield from ((f"keys of {location}", *pair) for pair in combinations(value, 2))
        for key, part in value.items():
            yield from _iter_ordered_pairs(part, f"{location}.{key}")
    elif isinstance(value, list) and location.endswith((".properties", ".parameters")):
        # A property is written in one order before and after a step, so both are compared together.
        place = location.replace(".before[]", "").replace(".after[]", "")
        labels = [str(row[0]) for row in value if isinstance(row, list) and row]
        yield from ((place, *pair) for pair in combinations(labels, 2))
    elif isinstance(value, list):
        for part in value:
            yield from _iter_ordered_pairs(part, f"{location}[]")


def check_other_studies(study: Study) -> list[Check]:
    """Return the check. It also reports how many items are in unblinded studies, and whether the document allows it."""
    items = dict(Item.objects.filter(study=study).values_list("pk", "pair_sha256"))
    unblinded_pairs = readable_elsewhere.find_unblinded_pairs(excluded=study)
    check = Check(
        OTHER_STUDIES,
        "Can a rater's account read in another study, or in the laboratory, where one of their items comes from?",
    )
    # Other studies are not named: readers of this certificate may have no role in them. Nor are raters' labels:
    # together with the members of those studies they would identify a rater.
    check.measured = {
        "items": len(items),
        "items_in_unblinded_studies": sum(pair in unblinded_pairs for pair in items.values()),
        "items_of_episodes_in_unblinded_studies": readable_elsewhere.count_items_of_shown_episodes(study),
        "allowed": designs.load_study_protocol(study).allow_unblinded,
    }
    check.add_leaks(_find_leaks(study), looked_at=len(items))
    return [check]


def _find_leaks(study: Study) -> list[Leak]:
    raters = list(Rater.objects.filter(study=study, user__isnull=False).order_by("number"))
    readable = readable_elsewhere.find_readable(study, raters)
    if not readable:
        return []
    items_of_rater: dict[int, set[int]] = defaultdict(set)
    # Including released assignments that were opened: what was shown cannot be taken back.
    is_shown = Q(released_at__isnull=True) | Q(opened_at__isnull=False)
    assigned = Assignment.objects.filter(is_shown, rater__in=readable)
    for rater_id, item in assigned.order_by().values_list("rater_id", "item_id"):
        items_of_rater[rater_id].add(item)
    readable_items = {rater: common for rater, items in readable.items() if (common := items_of_rater[rater] & items)}
    if not readable_items:
        return []
    n_assigned = format_count(sum(len(items_of_rater[rater]) for rater in readable_items), "item")
    n_readable = sum(map(len, readable_items.values()))
    text = f"{n_readable} of {n_assigned} can be read by the same account elsewhere, with their source"
    return [Leak(format_count(len(readable_items), "rater"), text)]
