"""Test whether order or identifiers reveal the kind of an item: positions, sequences, database rows, codes.

Items that are added to a study later come later, so order is compared among items that were frozen together.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np

from ratings.models import Assignment, Item, ItemSource, Study
from ratings.studies.blinding_audit import form_tests
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.form_tests import Contrast

MIN_ITEMS = 10  # items
_SHUFFLES = 2000  # random orders that the observed one is compared with
_MIN_DEVIATIONS = 4  # standard deviations from chance that equal neighbours must be off to count as a leak


def check_orders(study: Study) -> list[Check]:
    """Return the checks of the stored items and of every rater's order. They render no page."""
    rows = list(ItemSource.objects.filter(item__study=study).values_list("item_id", "perturbation", "label"))
    is_planted = {item: perturbation != "none" for item, perturbation, _ in rows}
    labels = {item: label for item, _, label in rows}
    return [_check_order(study, is_planted, labels), _check_neighbours(study, is_planted), _check_creation_times(study)]


def _check_order(study: Study, wrong: Mapping[int, bool], labels: Mapping[int, str]) -> Check:
    question = "Does a position, a row's place in the database or a code go with the error type or the source?"
    check = Check("order", question)
    if len(wrong) < MIN_ITEMS:
        check.skipped = f"{len(wrong)} items are too few; at least {MIN_ITEMS} are needed"
        return check
    numbers = _list_numbers(study)
    contrasts = [_test_contrast(f"{name} and planted errors", pairs, wrong) for name, pairs in numbers.items()]
    for label in sorted(set(labels.values())):
        is_of_source = {item: item_label == label for item, item_label in labels.items()}
        contrasts += [_test_contrast(f"{name} and one source", pairs, is_of_source) for name, pairs in numbers.items()]
    # Corrected over all of them together: with many sources one contrast would otherwise stand out by chance.
    corrected_contrasts = form_tests.correct_contrasts([contrast for contrast in contrasts if contrast is not None])
    telling = (c for c in corrected_contrasts if c.is_telling)
    texts = (f"{c.name} are associated: AUC {c.auc:.2f}, Holm p = {c.adjusted:.2g}" for c in telling)
    check.add_leaks((Leak("order", text) for text in texts), len(wrong))
    check.measured = {"contrasts": [contrast.to_dict() for contrast in corrected_contrasts]}
    return check


ItemNumbers = Sequence[tuple[int, float]]  # item, and a number that a rater might see


def _load_batches(study: Study) -> dict[int, datetime]:
    """Return the creation time of each item, which is the same for items that were frozen together."""
    return dict(Item.objects.filter(study=study).values_list("pk", "created_at"))


def _rank_within_groups(numbers: Iterable[tuple[Hashable, int, int]]) -> ItemNumbers:
    """Return (item, rank in its group from 0 to 1) for each (group, item, number)."""
    groups: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for group, item, number in numbers:
        groups[group].append((number, item))
    ordered = map(sorted, groups.values())
    return [(item, (rank + 0.5) / len(group)) for group in ordered for rank, (_, item) in enumerate(group)]


def _load_rater_orders(study: Study) -> dict[tuple[int, int], list[int]]:
    """Return the items of each rater in each session, in their order."""
    rows = Assignment.objects.filter(rater__study=study, occasion=1, released_at__isnull=True)
    orders: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rater, session, item in rows.order_by("rater_id", "position").values_list("rater_id", "session", "item_id"):
        orders[rater, session].append(item)
    return orders


def _list_numbers(study: Study) -> dict[str, ItemNumbers]:
    """Return, for each position and identifier that a rater might see, its rank or number for each item."""
    items = list(Item.objects.filter(study=study).values_list("pk", "code"))
    batches, orders = _load_batches(study), _load_rater_orders(study).items()
    assignments = Assignment.objects.filter(item__study=study, occasion=1).values_list("item_id", "pk", "code")
    positions = (((order, batches[item]), item, index) for order, own in orders for index, item in enumerate(own))
    # The session of a crossover must not be associated with a kind either: raters know it.
    shown = Assignment.objects.filter(rater__study=study, occasion=1, released_at__isnull=True)
    sessions = [(item, float(session)) for item, session in shown.values_list("item_id", "session")]
    return {
        "position": _rank_within_groups(positions),
        **({"the session": sessions} if len({session for _, session in sessions}) > 1 else {}),
        "the item's row": _rank_within_groups((batches[pk], pk, pk) for pk, _ in items),
        # 52 bits: what a float represents exactly.
        "the item's code": [(pk, float(code.int % 2**52)) for pk, code in items],
        "the assignment's row": _rank_within_groups((batches[item], item, pk) for item, pk, _ in assignments),
        "the assignment's code": [(item, float(code.int >> 76)) for item, _, code in assignments],
    }


def _test_contrast(name: str, numbers: ItemNumbers, ones: Mapping[int, bool]) -> Contrast | None:
    others = [number for item, number in numbers if not ones.get(item)]
    those_of_kind = [number for item, number in numbers if ones.get(item)]
    return form_tests.compare_groups(name, others, those_of_kind) if min(len(others), len(those_of_kind)) >= 3 else None


def _check_neighbours(study: Study, wrong: Mapping[int, bool]) -> Check:
    """Check whether neighbours in raters' orders are of one kind more or less often than in shuffled batches."""
    check = Check("predictability", "Does the kind of one item predict the kind of the next?")
    batches = _load_batches(study)
    rater_orders = [order for order in _load_rater_orders(study).values() if len(order) > 2]
    orders = [([wrong[item] for item in order], [batches[item] for item in order]) for order in rater_orders]
    steps = sum(len(order) - 1 for order in rater_orders)
    if steps < 30 or len(set(wrong.values())) < 2:
        check.skipped = "too few items, or all of one kind"
        return check
    equal = _count_equal_neighbours(kinds for kinds, _ in orders)
    rng = np.random.default_rng(study.seed % 2**32)
    n_shuffles = _SHUFFLES if steps < 2000 else 200  # with many steps each takes longer, and chance varies less
    shuffles = ([_shuffle_within_batches(*order, rng) for order in orders] for _ in range(n_shuffles))
    by_chance = np.array([_count_equal_neighbours(shuffled) for shuffled in shuffles])
    mean = float(by_chance.mean())
    deviation = (equal - mean) / max(float(by_chance.std()), 1e-9)
    check.looked_at = steps
    check.measured = {"equal": equal, "by_chance": round(mean, 1), "off": round(deviation, 2)}
    # Both: in a large study a deviation that is far from chance may still be too small to help anybody.
    if abs(deviation) > _MIN_DEVIATIONS and abs(equal - mean) / steps > form_tests.MIN_AUC - 0.5:
        word = "more" if deviation > 0 else "fewer"
        text = f"neighbours are of one kind {word} often than by chance: {equal} of {steps} ({deviation:+.1f} sd)"
        check.leaks.append(Leak("order", text))
    return check


def _shuffle_within_batches(kinds: Sequence[bool], batches: Sequence[datetime], rng: np.random.Generator) -> list[bool]:
    """Return the kinds, shuffled among the positions of their own batch."""
    if len(set(batches)) == 1:
        return list(rng.permutation(kinds))
    shuffled = list(kinds)
    for batch in sorted(set(batches)):
        positions = [index for index, other in enumerate(batches) if other == batch]
        for index, moved in zip(positions, rng.permutation(positions), strict=True):
            shuffled[index] = kinds[moved]
    return shuffled


def _count_equal_neighbours(orders: Iterable[Sequence[bool]]) -> int:
    return sum(bool(kind == next_kind) for order in orders for kind, next_kind in pairwise(order))


def _check_creation_times(study: Study) -> Check:
    """Return the check that all items of one batch have the same creation time."""
    check = Check("moments", "Do the times at which items were stored distinguish their kinds?")
    rows = ItemSource.objects.filter(item__study=study).values_list("item__created_at", "perturbation")
    batches: dict[object, set[str]] = defaultdict(set)
    for moment, perturbation in rows:
        batches[moment].add(perturbation)
        check.looked_at += 1
    # Each of these events may have added one batch.
    n_batches = study.events.filter(kind__in=("opened", "items added", "items imported")).count()
    are_too_many = check.looked_at > 3 and len(batches) > max(check.looked_at / 2, n_batches)
    check.leaks = [Leak("created_at", "items of one batch were stored at different times")] if are_too_many else []
    return check
