"""Checks of items: frozen content is unchanged, and each item has exactly one source."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, F, Q

from ratings.blinding import pair_digest, payload_digest
from ratings.models import ImportedItem, Item, ItemSource, MachineRating, Quarantine
from wetbench_site.maintenance.verify.form import Check, Find, Wrong, check, rows, wrong

Frozen = type[Item] | type[ImportedItem] | type[Quarantine]


def _digests(of: Frozen, name: str, shown: str) -> Find:
    def digests() -> Iterator[Wrong]:
        stored: Any = of._default_manager.order_by("pk").values_list(name, shown, f"{shown}_sha256")
        for code, text, sha in rows(stored):
            if (digest := payload_digest(text)) != sha:
                yield wrong(of, code, sha, digest)

    return digests


_FROZEN: tuple[tuple[str, Frozen, str, str], ...] = (
    ("payloads of items", Item, "code", "payload"),
    ("contexts of items", Item, "code", "context"),
    ("payloads of imported items", ImportedItem, "key", "payload"),
    ("contexts of imported items", ImportedItem, "key", "context"),
    ("payloads in quarantine", Quarantine, "pk", "payload"),
)
SHOWN = tuple(
    Check(name, "what raters see matches the digest that was stored when it was frozen", of, _digests(of, key, shown))
    for name, of, key, shown in _FROZEN
)


@check("pairs of items", "an item's pair digest is that of its action and materials", Item)
def pairs_of_items() -> Iterator[Wrong]:
    for code, payload, sha in rows(Item.objects.order_by("pk").values_list("code", "payload", "pair_sha256")):
        if payload.get("kind") and (digest := pair_digest(payload)) != sha:
            yield wrong(Item, code, sha, digest)


@check(
    "sources of items",
    "every item has one source, and versions of one transition, and only they, share a pair",
    ItemSource,
)
def sources_of_items() -> Iterator[Wrong]:
    for code in rows(Item.objects.order_by().filter(source__isnull=True).values_list("code", flat=True)):
        yield wrong(Item, code, "a source", "none")
    sources = ItemSource.objects.order_by()
    twins = sources.filter(twin__isnull=False).exclude(twin__transition=F("transition"))
    for code in rows(twins.values_list("item__code", flat=True)):
        yield wrong(ItemSource, code, "a twin of its transition", "a twin of another transition")
    wrong_study = sources.filter(imported__isnull=False).exclude(imported__study=F("item__study"))
    for code in rows(wrong_study.values_list("item__code", flat=True)):
        yield wrong(ItemSource, code, "an import into its study", "an import into another study")
    steps = sources.filter(transition__isnull=False)
    split_pairs = steps.values("item__study__slug", "transition__code").annotate(n=Count("pair", distinct=True))
    for study, step, n in rows(split_pairs.filter(n__gt=1).values_list("item__study__slug", "transition__code", "n")):
        yield wrong(ItemSource, f"{study}, transition {step}", "one pair", f"{n} pairs")


@check("ratings by machines", "a model rater rated the current payload of the item, in its own study", MachineRating)
def ratings_by_machines() -> Iterator[Wrong]:
    ratings = MachineRating.objects.order_by()
    different = ratings.filter(~Q(payload_sha256=F("item__payload_sha256")) | ~Q(item__study=F("rater__study")))
    for label, item, sha, rated_sha in rows(
        different.values_list("rater__label", "item__code", "item__payload_sha256", "payload_sha256")
    ):
        yield wrong(MachineRating, f"{label}, item {item}", f"{sha}, of its own study", rated_sha)


CHECKS = (*SHOWN, pairs_of_items, sources_of_items, ratings_by_machines)
