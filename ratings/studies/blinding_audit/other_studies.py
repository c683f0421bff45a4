"""Check whether raters have items whose source their account can read in another study or in the laboratory."""

from collections import defaultdict

from django.db.models import Q

from ratings.models import Assignment, Item, Rater, Study
from ratings.stats.text import format_count
from ratings.studies import designs
from ratings.studies.assignments import readable_elsewhere
from ratings.studies.blinding_audit.findings import OTHER_STUDIES, Check, Leak


def check_other_studies(study: Study) -> list[Check]:
    """Return the check. It also reports how many items are in unblinded studies, and whether the document allows
    that.

        Items whose episode is in an unblinded study of the other kind are counted separately.
    """
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
    assigned = Assignment.objects.filter(rater__in=readable).filter(
        Q(released_at__isnull=True) | Q(opened_at__isnull=False)
    )
    for rater_id, item in assigned.order_by().values_list("rater_id", "item_id"):
        items_of_rater[rater_id].add(item)
    readable_items = {
        rater_id: items_of_rater[rater_id] & items
        for rater_id, items in readable.items()
        if items_of_rater[rater_id] & items
    }
    if not readable_items:
        return []
    n_assigned = sum(len(items_of_rater[rater_id]) for rater_id in readable_items)
    sentence = f"{sum(map(len, readable_items.values()))} of {format_count(n_assigned, 'item')} can be read by the same account elsewhere, with their source"
    return [Leak(format_count(len(readable_items), "rater"), sentence)]
