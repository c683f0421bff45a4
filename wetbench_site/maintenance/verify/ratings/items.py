"""Items: what was frozen stands as it was, and each has its one source."""

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
            if (found := payload_digest(text)) != sha:
                yield wrong(of, code, sha, found)

    return digests


_FROZEN: tuple[tuple[str, Frozen, str, str], ...] = (
    ("payloads of items", Item, "code", "payload"),
    ("contexts of items", Item, "code", "context"),
    ("payloads of imported items", ImportedItem, "key", "payload"),
    ("contexts of imported items", ImportedItem, "key", "context"),
    ("payloads in quarantine", Quarantine, "pk", "payload"),
)
SHOWN = tuple(
    Check(name, "what raters are shown has the digest that was stored when it was frozen", of, _digests(of, key, shown))
    for name, of, key, shown in _FROZEN
)


@check("pairs of items", "an item's pair is found in all studies by the digest of its action and materials", Item)
def pairs_of_items() -> Iterator[Wrong]:
    for code, payload, sha in rows(Item.objects.order_by("pk").values_list("code", "payload", "pair_sha256")):
        if payload.get("kind") and (found := pair_digest(payload)) != sha:
            yield wrong(Item, code, sha, found)


@check(
    "sources of items",
    "every item has one source, and versions of one transition share their pair and nothing else does",
    ItemSource,
)
def sources_of_items() -> Iterator[Wrong]:
    for code in rows(Item.objects.order_by().filter(source__isnull=True).values_list("code", flat=True)):
        yield wrong(Item, code, "a source", "none")
    every = ItemSource.objects.order_by()
    twins = every.filter(twin__isnull=False).exclude(twin__transition=F("transition"))
    for code in rows(twins.values_list("item__code", flat=True)):
        yield wrong(ItemSource, code, "a twin of its transition", "a twin of another")
    astray = every.filter(imported__isnull=False).exclude(imported__study=F("item__study"))
    for code in rows(astray.values_list("item__code", flat=True)):
        yield wrong(ItemSource, code, "an import into its study", "one into another")
    steps = every.filter(transition__isnull=False)
    split = steps.values("item__study__slug", "transition__code").annotate(n=Count("pair", distinct=True))
    for study, step, n in rows(split.filter(n__gt=1).values_list("item__study__slug", "transition__code", "n")):
        yield wrong(ItemSource, f"{study}, transition {step}", "one pair", f"{n} pairs")


@check("ratings by machines", "a machine rated what the item shows, in a study of its own", MachineRating)
def ratings_by_machines() -> Iterator[Wrong]:
    every = MachineRating.objects.order_by()
    other = every.filter(~Q(payload_sha256=F("item__payload_sha256")) | ~Q(item__study=F("rater__study")))
    for label, item, sha, shown in rows(
        other.values_list("rater__label", "item__code", "item__payload_sha256", "payload_sha256")
    ):
        yield wrong(MachineRating, f"{label}, item {item}", f"{sha}, of its own study", shown)


CHECKS = (*SHOWN, pairs_of_items, sources_of_items, ratings_by_machines)
