"""Swap the sources of items, as a counterfactual: what raters are sent must not change."""

import random
from collections.abc import Collection

from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.studies import designs
from ratings.studies.blinding_audit.copy.guard import require_scratch_copy

_SWAPPED_COLUMNS = ("pair", "label", "perturbation", "truth", "reference", "experiment", "action", "transition_id", "twin_id", "review_id",
            "imported_id", "target", "verdicts")  # fmt: skip


def find_items_of(rater: Rater) -> Collection[int] | None:
    """Return the items that this rater's pages can be about; None, which means all items, in a pool study."""
    if designs.is_pool_study(rater.study):
        return None
    return set(Assignment.objects.filter(rater=rater).values_list("item_id", flat=True))


def swap_sources(study: Study, seed: int, only: Collection[int] | None = None) -> dict[int, bool]:
    """Give every item the source of another item, of another kind if possible.

    Return, for each item that becomes or ceases to be a planted error, whether it truly is one. With `only`, no other
    item is changed, which takes less time; each gets the same source as without `only`. Call it inside
    `roll_back_changes` only.
    """
    require_scratch_copy()
    # In a pool study a rater's next item depends on the pairs, so that nobody sees two versions of one thing. Items
    # therefore keep their pairs there: swapping them would change what is assigned, and not only what is shown.
    swapped = _SWAPPED_COLUMNS[1:] if designs.is_pool_study(study) else _SWAPPED_COLUMNS
    rows = list(ItemSource.objects.filter(item__study=study).order_by("pk"))
    random.Random(f"audit/{seed}").shuffle(rows)
    # Shuffled and then sorted by kind (stable), so that a shift crosses kinds and is random within them.
    rows.sort(key=_sort_by_kind)
    planted = sum(row.perturbation != "none" for row in rows)
    largest_kind = max(planted, len(rows) - planted)
    step = largest_kind if largest_kind < len(rows) else 1
    sources = [{name: getattr(row, name) for name in swapped} for row in rows]
    changed_truth, changed_rows = {}, []
    for index, row in enumerate(rows):
        if only is not None and row.item_id not in only:
            continue
        # Shifted by the size of the larger kind, so that few items keep their kind.
        new_source = sources[(index + step) % len(rows)]
        planted = row.perturbation != "none"
        if planted != (new_source["perturbation"] != "none"):
            changed_truth[row.item_id] = planted
        for name, value in new_source.items():
            setattr(row, name, value)
        changed_rows.append(row)
    ItemSource.objects.bulk_update(changed_rows, list(swapped), batch_size=200)
    return changed_truth


def _sort_by_kind(row: ItemSource) -> tuple[bool, str, str]:
    return row.perturbation != "none", row.perturbation, row.label
