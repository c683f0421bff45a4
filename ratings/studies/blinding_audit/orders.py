"""Whether order or name betrays a kind: positions, what comes after what, rows in the database, codes.

Items that are added to a study later come later: order is compared among those that were frozen together.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np

from ratings.models import Assignment, Item, ItemSource, Study
from ratings.studies.blinding_audit import statistics
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.statistics import Contrast

FEWEST = 10
_SHUFFLES = 2000
_APART = 4  # how many times the spread of chance a run of neighbours must be off to be of use to anybody


def checks(study: Study) -> list[Check]:
    """Statistics over the frozen items and everybody's order: nothing is rendered."""
    planted = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "perturbation"))
    labels = dict(ItemSource.objects.filter(item__study=study).values_list("item_id", "label"))
    wrong = {item: perturbation != "none" for item, perturbation in planted.items()}
    return [_order(study, wrong, labels), _neighbours(study, wrong), _moments(study)]


def _order(study: Study, wrong: Mapping[int, bool], labels: Mapping[int, str]) -> Check:
    check = Check(
        "order", "Does a position, a row's place in the database or a code go with the error type or the source?"
    )
    if len(wrong) < FEWEST:
        check.skipped = f"{len(wrong)} items are too few; {FEWEST} would do"
        return check
    numbers = {"position": _positions(study), **_sessions(study), **_rows(study)}
    tried = [_contrast(f"{name} and planted errors", of, wrong) for name, of in numbers.items()]
    for label in sorted(set(labels.values())):
        ours = {item: one == label for item, one in labels.items()}
        tried += [_contrast(f"{name} and one source", of, ours) for name, of in numbers.items()]
    found = statistics.corrected([contrast for contrast in tried if contrast is not None])
    check.saw([Leak("order", _said(contrast)) for contrast in found if contrast.tells], len(wrong))
    check.measured = {"contrasts": [contrast.to_json() for contrast in found]}
    return check


Numbers = Sequence[tuple[int, float]]  # item, and a number that a rater might come to know


def _positions(study: Study) -> Numbers:
    """Of every rater, as a share of their own order of each batch; in a crossover, of each session."""
    batches = _batches(study)
    placed = [
        ((order, batches[item]), item, at) for order, items in _orders(study).items() for at, item in enumerate(items)
    ]
    return _shares(placed)


def _sessions(study: Study) -> dict[str, Numbers]:
    """Of a crossover: the session in which a rater meets an item, which must go with no kind either."""
    rows = Assignment.objects.filter(rater__study=study, occasion=1, released_at__isnull=True)
    sessions = [(item, float(session)) for item, session in rows.values_list("item_id", "session")]
    return {"the session": sessions} if len({session for _, session in sessions}) > 1 else {}


def _batches(study: Study) -> dict[int, datetime]:
    """Items that were frozen together have one moment."""
    return dict(Item.objects.filter(study=study).values_list("pk", "created_at"))


def _shares(placed: Iterable[tuple[Hashable, int, int]]) -> Numbers:
    """(group, item, number) as (item, rank of the number in its group, from 0 to 1); one half where it stands alone."""
    groups: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for group, item, number in placed:
        groups[group].append((number, item))
    ordered = map(sorted, groups.values())
    return [(item, (rank + 0.5) / len(group)) for group in ordered for rank, (_, item) in enumerate(group)]


def _orders(study: Study) -> dict[tuple[int, int], list[int]]:
    """The items of each rater in each session, in the order in which they come."""
    rows = Assignment.objects.filter(rater__study=study, occasion=1, released_at__isnull=True)
    orders: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rater, session, item in rows.order_by("rater_id", "position").values_list("rater_id", "session", "item_id"):
        orders[rater, session].append(item)
    return orders


def _rows(study: Study) -> dict[str, Numbers]:
    items = list(Item.objects.filter(study=study).values_list("pk", "code"))
    batches = _batches(study)
    places = Assignment.objects.filter(item__study=study, occasion=1).values_list("item_id", "pk", "code")
    return {
        "the item's row": _shares((batches[pk], pk, pk) for pk, _ in items),
        "the item's code": [(pk, float(code.int % 2**52)) for pk, code in items],
        "the assignment's row": _shares((batches[item], item, pk) for item, pk, _ in places),
        "the assignment's code": [(item, float(code.int >> 76)) for item, _, code in places],
    }


def _contrast(name: str, numbers: Numbers, ones: Mapping[int, bool]) -> Contrast | None:
    first = [number for item, number in numbers if not ones.get(item)]
    second = [number for item, number in numbers if ones.get(item)]
    return statistics.unpaired(name, first, second) if min(len(first), len(second)) >= 3 else None


def _neighbours(study: Study, wrong: Mapping[int, bool]) -> Check:
    """Equal neighbours in raters' orders, beside those in the same orders with each batch shuffled.

    An even spread is a little fewer.
    """
    check = Check("predictability", "Does the kind of one item tell the kind of the next?")
    batches = _batches(study)
    own = [order for order in _orders(study).values() if len(order) > 2]
    orders = [[wrong[item] for item in order] for order in own]
    dealt = [[batches[item] for item in order] for order in own]
    steps = sum(len(order) - 1 for order in orders)
    if steps < 30 or len(set(wrong.values())) < 2:
        check.skipped = "too few items, or all of one kind"
        return check
    equal = sum(map(_equal, orders))
    rng = np.random.default_rng(study.seed % 2**32)
    chance = np.array(
        [sum(_equal(_shuffled(*one, rng)) for one in zip(orders, dealt, strict=True)) for _ in range(_shuffles(steps))]
    )
    off = (equal - chance.mean()) / max(float(chance.std()), 1e-9)
    share = abs(equal - float(chance.mean())) / steps
    check.looked_at = steps
    check.measured = {"equal": equal, "by_chance": round(float(chance.mean()), 1), "off": round(float(off), 2)}
    if abs(off) > _APART and share > statistics.LEAST_AUC - 0.5:
        word = "more" if off > 0 else "fewer"
        check.leaks.append(
            Leak("order", f"neighbours are of one kind {word} often than by chance: {equal} of {steps} ({off:+.1f} sd)")
        )
    return check


def _shuffled(kinds: Sequence[bool], batches: Sequence[datetime], rng: np.random.Generator) -> list[bool]:
    """The kinds moved among the places of their own batch."""
    if len(set(batches)) == 1:
        return list(rng.permutation(kinds))
    mixed = list(kinds)
    for batch in sorted(set(batches)):
        places = [at for at, one in enumerate(batches) if one == batch]
        for at, moved in zip(places, rng.permutation(places), strict=True):
            mixed[at] = kinds[moved]
    return mixed


def _shuffles(steps: int) -> int:
    return _SHUFFLES if steps < 2000 else 200


def _equal(order: Iterable[bool]) -> int:
    return sum(bool(one == other) for one, other in pairwise(order))


def _moments(study: Study) -> Check:
    """Items come in batches; within one, nothing may tell when each was made."""
    check = Check("moments", "Do the times at which items were stored tell items apart?")
    rows = ItemSource.objects.filter(item__study=study).values_list("item__created_at", "perturbation")
    batches: dict[object, set[str]] = defaultdict(set)
    for moment, perturbation in rows:
        batches[moment].add(perturbation)
        check.looked_at += 1
    made = study.events.filter(kind__in=("opened", "items added", "items imported")).count()
    small = check.looked_at > 3 and len(batches) > max(check.looked_at / 2, made)
    check.leaks = [Leak("created_at", "items of one batch were stored at different times")] if small else []
    return check


def _said(contrast: Contrast) -> str:
    return f"{contrast.name} go together: AUC {contrast.auc:.2f}, Holm p = {contrast.adjusted:.2g}"
