"""Whether raters have items whose source their account can read in another study or in the laboratory."""

from collections import defaultdict

from django.db.models import Q

from ratings.models import Assignment, Item, Rater, Study
from ratings.stats.nouns import counted
from ratings.studies import designs
from ratings.studies.blinding_audit.findings import OTHER_STUDIES, Check, Leak
from ratings.studies.seats import readable_elsewhere


def checks(study: Study) -> list[Check]:
    """Return the check. It measures how many items stand in unblinded studies, and states whether the document allows it.

    It counts apart the items of episodes that stand in unblinded studies of the other kind: steps of a record of evidence,
    or records of a step. Other studies are not named: whoever reads this certificate may have no role in them. Nor are
    raters' codes: with the members of those studies they would tell whose a code is.
    """
    items = dict(Item.objects.filter(study=study).values_list("pk", "pair_sha256"))
    known = readable_elsewhere.find_unblinded_pairs(but=study)
    check = Check(
        OTHER_STUDIES,
        "Can a rater's account read in another study, or in the laboratory, where one of their items comes from?",
    )
    check.measured = {
        "items": len(items),
        "items_in_unblinded_studies": sum(pair in known for pair in items.values()),
        "items_of_episodes_in_unblinded_studies": readable_elsewhere.count_of_episodes_shown(study),
        "allowed": designs.protocol_of(study).allow_unblinded,
    }
    check.saw(_find_leaks(study), looked_at=len(items))
    return [check]


def _find_leaks(study: Study) -> list[Leak]:
    seats = list(Rater.objects.filter(study=study, user__isnull=False).order_by("number"))
    readable = readable_elsewhere.find_readable(study, seats)
    if not readable:
        return []
    own: dict[int, set[int]] = defaultdict(set)
    held = Assignment.objects.filter(rater__in=readable).filter(
        Q(released_at__isnull=True) | Q(opened_at__isnull=False)
    )
    for rater, item in held.order_by().values_list("rater_id", "item_id"):
        own[rater].add(item)
    both = {seat: own[seat] & items for seat, items in readable.items() if own[seat] & items}
    if not both:
        return []
    given = sum(len(own[seat]) for seat in both)
    what = f"{sum(map(len, both.values()))} of {counted(given, 'item')} can be read by the same account elsewhere, with their source"
    return [Leak(counted(len(both), "rater"), what)]
