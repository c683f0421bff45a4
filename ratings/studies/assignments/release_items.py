"""Release items that raters can read elsewhere and have not been shown, and reassign them to others.

This happens whenever somebody gains the right to read: a rater joins, a study is unblinded, a role is given in an
unblinded study, a closed study is opened again. An item that a rater was shown remains assigned; the blinding audit
then reports it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rater, Study, StudyEvent
from ratings.models.answers import FIRST
from ratings.models.study_events import ItemsTakenBack
from ratings.studies import designs
from ratings.studies.assignments import readable_elsewhere, reassign, slots


class ReleasedItems(NamedTuple):
    """How many items were released, how many ratings nobody else may give, and how many cases of a crossover are
    incomplete.

    A case is incomplete if one version was released and the other was shown before.
    """

    items: int
    left: int = 0
    incomplete: int = 0


NOTHING_RELEASED = ReleasedItems(0)


@transaction.atomic
def release_readable_items(study: Study, raters: Iterable[Rater] | None = None) -> ReleasedItems:
    """Release each item that its rater, one of `raters` or of all, can read elsewhere and was not shown. Log the
    release.

    In planned designs the ratings are reassigned to other raters, who may hand over unseen items in exchange. Ratings
    that nobody may give wait for another rater. Does nothing in a study that does not accept ratings.
    """
    study = slots.lock_study(study.pk)
    if study.status not in ("open", "paused"):
        return NOTHING_RELEASED
    active_raters = study.raters.filter(user__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True)
    checked_raters = list(
        active_raters if raters is None else active_raters.filter(pk__in=[rater.pk for rater in raters])
    )
    # For all raters at once: the number of queries does not depend on how many there are.
    readable = readable_elsewhere.find_readable(study, checked_raters)
    rows = [
        row
        for rater in checked_raters
        if rater.pk in readable
        for row in _list_unshown(study, rater, readable[rater.pk])
    ]
    if not rows:
        return NOTHING_RELEASED
    items = {(row.rater_id, row.item_id) for row in rows}
    incomplete = _count_incomplete_cases(rows) if designs.is_crossover(study) else 0
    released = ReleasedItems(len(items), _reassign_released(study, checked_raters, rows), incomplete)
    # Without a rater's label and without the other study: either could connect the label with a name.
    StudyEvent.record_event(
        study, ItemsTakenBack(items=released.items, incomplete=released.incomplete, left=released.left)
    )
    return released


def release_in_related_studies(unblinded: Study) -> None:
    """Release readable items in every running study that contains versions of the items of this unblinded study."""
    for study in readable_elsewhere.find_running_studies_sharing_items(unblinded):
        release_readable_items(study)


def release_items_of_account(user: User) -> None:
    """Release readable items in every running study in which this account is a rater."""
    raters = Rater.objects.filter(user=user, study__status__in=("open", "paused")).select_related("study")
    # In one order everywhere: each study is locked in turn, and two requests must not wait for each other.
    for rater in raters.order_by("study_id"):
        release_readable_items(rater.study, [rater])


def _list_unshown(study: Study, rater: Rater, items: Collection[int]) -> list[Assignment]:
    """Lock and return this rater's assignments of these items that were not shown."""
    rows = rater.assignments.filter(item__in=items)
    if designs.is_crossover(study):
        # Both versions of a case are released, whichever can be read: one beside the other reveals the source. If one
        # was shown, only the other is left to release.
        rows = rater.assignments.filter(pair__in=ItemSource.objects.filter(item__in=items).values("pair"))
    return list(rows.select_for_update(of=("self",)).filter(reassign.UNSEEN).order_by("pk"))


def _count_incomplete_cases(rows: Iterable[Assignment]) -> int:
    """Count the cases of which a rater was shown one version and has the other among these assignments."""
    pairs: dict[int, set[UUID]] = defaultdict(set)
    for row in rows:
        pairs[row.rater_id].add(row.pair)
    shown = Assignment.objects.filter(rater__in=pairs).exclude(reassign.UNSEEN)
    return sum(pair in pairs[rater] for rater, pair in shown.values_list("rater_id", "pair"))


def _reassign_released(study: Study, raters: Collection[Rater], rows: Collection[Assignment]) -> int:
    """Free these assignments and reassign them. Return how many ratings are left that nobody may give."""
    freed = Assignment.objects.filter(pk__in=[row.pk for row in rows])
    if designs.is_pool_study(study):
        freed.update(slot=None, released_at=timezone.now())  # the row remains as a record of who had reserved it
        return 0
    firsts = sum(row.occasion == FIRST for row in rows)
    # Never opened, so there is nothing to record; a deleted row also frees its slot for the assignments below.
    freed.delete()
    if designs.is_crossover(study):
        return firsts  # every other rater already has a version of every pair
    former_raters = [rater for rater in raters if rater.pk in {row.rater_id for row in rows}]
    reassign.shuffle_remaining(study, [rater.pk for rater in former_raters])
    unassigned = reassign.assign_free_slots(study, reassign.list_eligible_raters(study)).unassigned
    if not designs.is_crossed(study):
        reassign.even_out_workload(study, former_raters)
    return unassigned
