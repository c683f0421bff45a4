"""Worlds in which every item has another origin: what raters are sent must be the same in all of them."""

import random
from collections.abc import Collection

from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.studies import designs
from ratings.studies.blinding_audit.copy.guard import require_scratch_copy

_SWAPPED = ("pair", "label", "perturbation", "truth", "reference", "experiment", "action", "transition_id", "twin_id", "review_id",
            "imported_id", "target", "verdicts")  # fmt: skip


def shown_to(rater: Rater) -> Collection[int] | None:
    """The items that this rater's pages can be about; None for all, where raters claim them."""
    if designs.is_pool(rater.study):
        return None
    return set(Assignment.objects.filter(rater=rater).values_list("item_id", flat=True))


def another_world(study: Study, seed: int, only: Collection[int] | None = None) -> dict[int, bool]:
    """Give every item the origin of another one, of another kind where there is any; which items changed their truth.

    What raters are sent may not change by this at all. With `only`, no other item is touched, which takes less time;
    each gets what it would have got among all. Items of a pool keep their pairs: that no rater meets two versions of a
    thing is decided there when they come for the next item, not before. Only inside `rolled_back`.
    """
    require_scratch_copy()
    swapped = _SWAPPED[1:] if designs.is_pool(study) else _SWAPPED
    rows = list(ItemSource.objects.filter(item__study=study).order_by("pk"))
    random.Random(f"audit/{seed}").shuffle(rows)
    rows.sort(key=_kind)
    planted = sum(row.perturbation != "none" for row in rows)
    most = max(planted, len(rows) - planted)
    step = most if most < len(rows) else 1
    origins = [{name: getattr(row, name) for name in swapped} for row in rows]
    moved, touched = {}, []
    for at, row in enumerate(rows):
        if only is not None and row.item_id not in only:
            continue
        # moved on by the size of the largest kind, so that few keep their kind
        given = origins[(at + step) % len(rows)]
        planted = row.perturbation != "none"
        if planted != (given["perturbation"] != "none"):
            moved[row.item_id] = planted
        for name, value in given.items():
            setattr(row, name, value)
        touched.append(row)
    ItemSource.objects.bulk_update(touched, list(swapped), batch_size=200)
    return moved


def _kind(row: ItemSource) -> tuple[bool, str, str]:
    return row.perturbation != "none", row.perturbation, row.label
