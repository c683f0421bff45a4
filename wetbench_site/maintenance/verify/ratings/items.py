"""Checks of items: frozen content is unchanged, and each item has exactly one source."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, F, Q

from ratings.blinding import pair_digest, payload_digest
from ratings.models import ImportedItem, Item, ItemSource, MachineRating, Quarantine
from wetbench_site.maintenance.verify.checks import (
    Check,
    FindViolations,
    Violation,
    build_check,
    build_violation,
    iter_rows,
)

FrozenModel = type[Item] | type[ImportedItem] | type[Quarantine]


def _build_digest_check(model: FrozenModel, name: str, content_field: str) -> FindViolations:
    def find_changed_content() -> Iterator[Violation]:
        stored: Any = model._default_manager.order_by("pk").values_list(name, content_field, f"{content_field}_sha256")
        for code, text, sha in iter_rows(stored):
            if (digest := payload_digest(text)) != sha:
                yield build_violation(model, code, sha, digest)

    return find_changed_content


_FROZEN_FIELDS: tuple[tuple[str, FrozenModel, str, str], ...] = (
    ("payloads of items", Item, "code", "payload"),
    ("contexts of items", Item, "code", "context"),
    ("payloads of imported items", ImportedItem, "key", "payload"),
    ("contexts of imported items", ImportedItem, "key", "context"),
    ("payloads in quarantine", Quarantine, "pk", "payload"),
)
DIGEST_CHECKS = tuple(
    Check(
        name,
        "what raters see matches the digest that was stored when it was frozen",
        of,
        _build_digest_check(of, key, shown),
    )
    for name, of, key, shown in _FROZEN_FIELDS
)


@build_check("pairs of items", "an item's pair digest is that of its action and materials", Item)
def check_item_pairs() -> Iterator[Violation]:
    for code, payload, sha in iter_rows(Item.objects.order_by("pk").values_list("code", "payload", "pair_sha256")):
        if payload.get("kind") and (digest := pair_digest(payload)) != sha:
            yield build_violation(Item, code, sha, digest)


@build_check(
    "sources of items",
    "every item has one source, and versions of one transition, and only they, share a pair",
    ItemSource,
)
def check_item_sources() -> Iterator[Violation]:
    for code in iter_rows(Item.objects.order_by().filter(source__isnull=True).values_list("code", flat=True)):
        yield build_violation(Item, code, "a source", "none")
    sources = ItemSource.objects.order_by()
    twins = sources.filter(twin__isnull=False).exclude(twin__transition=F("transition"))
    for code in iter_rows(twins.values_list("item__code", flat=True)):
        yield build_violation(ItemSource, code, "a twin of its transition", "a twin of another transition")
    wrong_study = sources.filter(imported__isnull=False).exclude(imported__study=F("item__study"))
    for code in iter_rows(wrong_study.values_list("item__code", flat=True)):
        yield build_violation(ItemSource, code, "an import into its study", "an import into another study")
    steps = sources.filter(transition__isnull=False)
    split_pairs = steps.values("item__study__slug", "transition__code").annotate(n=Count("pair", distinct=True))
    for study, step, n in iter_rows(
        split_pairs.filter(n__gt=1).values_list("item__study__slug", "transition__code", "n")
    ):
        yield build_violation(ItemSource, f"{study}, transition {step}", "one pair", f"{n} pairs")


@build_check(
    "ratings by machines", "a model rater rated the current payload of the item, in its own study", MachineRating
)
def check_machine_ratings() -> Iterator[Violation]:
    ratings = MachineRating.objects.order_by()
    different = ratings.filter(~Q(payload_sha256=F("item__payload_sha256")) | ~Q(item__study=F("rater__study")))
    for label, item, sha, rated_sha in iter_rows(
        different.values_list("rater__label", "item__code", "item__payload_sha256", "payload_sha256")
    ):
        yield build_violation(MachineRating, f"{label}, item {item}", f"{sha}, of its own study", rated_sha)


CHECKS = (*DIGEST_CHECKS, check_item_pairs, check_item_sources, check_machine_ratings)
