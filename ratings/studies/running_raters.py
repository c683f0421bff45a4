"""Change a running study: add rater places, remove raters, add items, and plan the open rater places again."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from ratings.blinding import payload_digest
from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.models.answers import WAITING
from ratings.models.study_events import ItemsAdded, RatersAdded, RatersReplanned, Withdrawn
from ratings.protocol import CandidateItem, PlanError
from ratings.protocol.plan_types import PlannedItem
from ratings.protocol.study_protocol import MAX_RATERS
from ratings.studies import StudyError, designs, freeze, pool, reassign
from ratings.studies.item_counts import update_item_counts
from ratings.studies.lifecycle import Actor, log_event
from ratings.studies.reassign import LIVE, Reassignment
from wetbench_site.text import format_count

_IS_LIVE = Q(assignments__occasion=1, assignments__slot__isnull=False, assignments__released_at__isnull=True)


@transaction.atomic
def add_rater_places(study: Study, n: int, by: Actor = None) -> list[Rater]:
    """Add places for raters who come late, and return them. Nothing that was shown is reassigned.

    Balanced: they get the ratings that had no rater, then unseen items are evened out. Crossed: they get every item,
    and the ratings per item rise as needed. Pool: they reserve items. Raises StudyError for too many places.
    """
    study = _lock_running_study(study)
    if n < 1 or study.raters.count() + n > MAX_RATERS:
        raise StudyError(f"{n} rater places cannot be added: add at least 1, up to {MAX_RATERS} in the study")
    raters = freeze.create_raters(study, n)
    moved, is_crossed = 0, designs.is_crossed(study)
    if is_crossed:
        # The ratings per item rise by n, less the slots that raters who left have freed.
        items = study.items.annotate(live=Count("assignments", filter=_IS_LIVE))
        most = max(items.values_list("live", flat=True), default=0) + n
        study.ratings_per_item = study.protocol["ratings_per_item"] = max(study.ratings_per_item, most)
    if designs.is_crossover(study):
        # Both sessions: every item, each in a free slot.
        free = reassign.find_free_slots(study)
        protocol, planned = designs.load_study_protocol(study), _load_planned_items(study, free)
        plan = freeze.plan_assignments(protocol, study.random_seed, planned, n, raters[0].number)
        freeze.create_assignments(study, [one._replace(slot=free[one.key][one.rater]) for one in plan], raters)
        moved = len(plan)
    elif not designs.is_pool_study(study):
        moved = reassign.assign_free_slots(study, raters).assigned
        moved += 0 if is_crossed else reassign.even_out_workload(study, raters)
    # The document of a crossed study states as many raters as ratings per item, whoever left.
    study.protocol["raters"] = study.ratings_per_item if is_crossed else study.protocol.get("raters", 0) + n
    study.save(update_fields=["protocol", "ratings_per_item"])
    log_event(study, RatersAdded(added=tuple(rater.label for rater in raters), items=moved), by)
    return raters


@transaction.atomic
def withdraw_rater(rater: Rater, by: Actor = None) -> Reassignment:
    """Remove the rater from the study and reassign the items that they have not rated.

    If the study drops the ratings of raters who leave, those are reassigned as well. Raises StudyError after unblinding.
    """
    study = reassign.lock_study(rater.study_id)
    # After the study's lock, in the order that answers use: the rater may be submitting a rating at this moment.
    locked = Rater.objects.select_for_update().get(pk=rater.pk)
    if locked.withdrawn_at:
        return Reassignment(0, 0)
    if study.is_unblinded:
        raise StudyError(f"{study.name} is unblinded: its results are final. Personal data can still be erased.")
    locked.withdrawn_at = rater.withdrawn_at = timezone.now()
    locked.dropped = rater.dropped = designs.load_study_protocol(study).withdrawal == "drop"
    locked.save(update_fields=["withdrawn_at", "dropped"])
    # A link that was sent and not used must not bring the rater back.
    locked.invitations.filter(used_at__isnull=True, revoked_at__isnull=True).update(revoked_at=locked.withdrawn_at)
    locked.assignments.filter(WAITING).update(slot=None, released_at=locked.withdrawn_at)
    update_item_counts(Rater.objects.filter(pk=locked.pk))
    if locked.dropped:
        # Without a slot the rating is stored and does not count; the slot can be assigned again.
        locked.assignments.filter(slot__isnull=False).update(slot=None)
    dealt = Reassignment(0, 0)
    if study.status in ("open", "paused") and not designs.is_pool_study(study):
        dealt = reassign.assign_free_slots(study, reassign.list_eligible_raters(study))
    is_own_decision = by is not None and by.pk == locked.user_id  # the log must not connect a name with a rater's label
    content = Withdrawn(rater=locked.label, dropped=locked.dropped, dealt=dealt.assigned, left=dealt.unassigned)
    log_event(study, content, None if is_own_decision else by)
    return dealt


@transaction.atomic
def add_items(study: Study, found: Sequence[CandidateItem], by: Actor = None) -> int:
    """Add items to a running study and return their number. Each gets as many raters as the other items.

    They are placed in random order after the items already shown. Raises StudyError for a crossover, PlanError for
    items that the study has already or that its document excludes.
    """
    study = _lock_running_study(study)
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover: items added now would be missing from the sessions that raters have begun. Duplicate "
            "the study and request more items there, or choose another design"
        )
    digests = {payload_digest(one.payload) for one in found}
    n_known = study.items.filter(payload_sha256__in=digests).count()
    if n_known or len(digests) < len(found):
        raise PlanError(f"{format_count(n_known + len(found) - len(digests), 'item')} would be in the study twice")
    allows_unblinded = designs.load_study_protocol(study).allow_unblinded
    if not allows_unblinded and (refused := pool.separate_unblinded(found)[1]):
        raise PlanError(
            f"{format_count(len(refused), 'item')} or versions of them are in an unblinded study, and this study's document "
            "does not allow that (allow_unblinded)"
        )
    pool.record_pool_decisions(study, found)
    freeze.freeze_items(study, found)
    transaction.on_commit(lambda: freeze.render_items(study))
    is_pool = designs.is_pool_study(study)
    if is_pool and found:  # raters who have reserved and rated all they could are notified
        reassign.find_idle_raters(study).update(new_items_at=timezone.now())
    dealt = Reassignment(0, 0) if is_pool else reassign.assign_free_slots(study, reassign.list_eligible_raters(study))
    log_event(study, ItemsAdded(items=len(found), left=dealt.unassigned), by)
    return len(found)


@transaction.atomic
def replan_open_places(study: Study, raters: int) -> None:
    """Replace the open rater places by `raters` new ones, and assign them the ratings of the old places."""
    study = _lock_running_study(study)
    free = list_open_places(study)
    slots: dict[str, list[int]] = {}
    rows = Assignment.objects.filter(LIVE, rater__in=free).order_by("item__payload_sha256", "slot")
    for item, slot in rows.values_list("item_id", "slot"):
        slots.setdefault(str(item), []).extend([slot] if slot else [])
    Assignment.objects.filter(rater__in=free).delete()
    Rater.objects.filter(pk__in=[rater.pk for rater in free]).delete()
    new_raters = freeze.create_raters(study, raters)
    protocol, planned = designs.load_study_protocol(study), _load_planned_items(study, slots)
    plan = freeze.plan_assignments(protocol, study.random_seed, planned, raters, new_raters[0].number)
    # The plan numbers slots from 1; these items have only the slots that were freed.
    plan = [one._replace(slot=slots[one.key][one.slot - 1]) if one.slot else one for one in plan]
    freeze.create_assignments(study, plan, new_raters)
    log_event(study, RatersReplanned(free=len(free), raters=raters))


def list_open_places(study: Study) -> list[Rater]:
    """Return, in order, the rater places to which nobody was invited and which nobody has taken."""
    free = study.raters.filter(user__isnull=True, invited_at__isnull=True, simulated=False, imported_as="")
    return list(free.filter(started_at__isnull=True, withdrawn_at__isnull=True).order_by("number"))


def _lock_running_study(study: Study) -> Study:
    locked = reassign.lock_study(study.pk)
    if locked.status not in ("open", "paused"):
        raise StudyError(f"{locked.name} is {locked.status}; raters and items are added while a study runs")
    return locked


def _load_planned_items(study: Study, slots: dict[str, list[int]]) -> list[PlannedItem]:
    # In the order of their content and not of keys: a plan from one seed is then the same in every database.
    sources = ItemSource.objects.filter(item__study=study).order_by("experiment", "item__payload_sha256")
    rows = sources.values_list("item_id", "label", "perturbation", "pair")
    condition = designs.load_conditions(study) if designs.is_crossover(study) else {}
    return [
        PlannedItem(str(item), (label, perturbation), str(pair), len(slots[str(item)]), condition.get(str(item), 0))
        for item, label, perturbation, pair in rows
        if str(item) in slots
    ]
