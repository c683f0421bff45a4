"""Which items of a study an account can read in another place, together with where they came from.

An account reads the sources of a study's items once that study is unblinded and the account is a superuser, or has or had
a part in it: created it, has or had a role, or did something in it. Staff read them in the laboratory as well, of every
item that is from the pool, and so did whoever ordered or played the episode, vetted the twin or imported the item, staff
or not by now. A version of the same thing tells as much as the item itself, because an outcome beside its original shows
the planted error. So steps are compared by `Item.pair_sha256`. A record of evidence shows every step of its episode:
between studies of the two kinds, items of the same episode are the same content.

What an account may do in a study stands in `ratings.access`, what it was once in `ratings.former`. Seats give no right to
read sources: after unblinding raters see counts of their own answers, never an item with its source.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from ratings import former
from ratings.models import EVIDENCE, TRANSITION, ImportedItem, Item, ItemSource, Rater, Study
from simulation.models import Run, Twin, TwinDecision

UNBLINDED = Q(study__status="unblinded")


class OpenStudy(NamedTuple):
    """An unblinded study that holds the same contents: since when, and the keys of those (see _keys)."""

    unblinded_at: datetime
    keys: set[str]


def find_unblinded_pairs(but: Study | None = None) -> set[str]:
    """Return the digest of every pair with an item in an unblinded study."""
    items = Item.objects.filter(UNBLINDED).exclude(pair_sha256="")
    items = items.exclude(study=but) if but else items
    return set(items.order_by().values_list("pair_sha256", flat=True).distinct())


def find_readable(study: Study, seats: Sequence[Rater] | QuerySet[Rater]) -> dict[int, set[int]]:
    """Return the items of this study that the holders of these seats can read elsewhere, by the seat's key.

    Seats that nobody holds, and those that can read nothing, are left out. The number of queries does not depend on the
    number of seats, items and studies. What became readable after a seat was finished does not count for it.
    """
    held = [seat for seat in seats if seat.user_id]
    if not held:
        return {}
    accounts = {user.pk: user for user in User.objects.filter(pk__in={seat.user_id for seat in held})}
    shared = _share_contents(study)
    readers = _find_readers(shared, accounts) if shared else {}
    readable = {seat.pk: _read_keys(seat, study, shared, readers) for seat in held}
    found = _find_items(study, readable) if any(readable.values()) else {}
    handled = _find_handled(study, accounts)
    for seat in held:
        finished = _finished_at(seat, study)
        own = {item for item, at in handled.get(seat.user_id or 0, ()) if finished is None or at < finished}
        if own:
            found[seat.pk] = found.get(seat.pk, set()) | own
    staff = [seat for seat in held if _reads_laboratory(accounts[seat.user_id or 0]) and not _finished_at(seat, study)]
    if staff:
        made_here = set(Item.objects.filter(study=study, source__imported=None).values_list("pk", flat=True))
        found |= {seat.pk: found.get(seat.pk, set()) | made_here for seat in staff if made_here}
    return found


def find_readable_by(study: Study, seat: Rater) -> set[int]:
    """Return the items of this study that the holder of this seat can read elsewhere."""
    return find_readable(study, [seat]).get(seat.pk, set())


def find_readable_pairs(study: Study, seats: Sequence[Rater] | QuerySet[Rater]) -> dict[int, set[UUID]]:
    """Return the pairs of those items, as the assignments of this study have them, by the seat's key."""
    items = find_readable(study, seats)
    every = set().union(*items.values())
    pairs = dict(ItemSource.objects.filter(item__in=every).values_list("item_id", "pair")) if every else {}
    return {seat: {pairs[item] for item in own if item in pairs} for seat, own in items.items()}


def would_leave_nothing(study: Study, user: User) -> bool:
    """Return whether this account can read every item of the study elsewhere, so that it could be given none."""
    readable = find_readable_by(study, Rater(pk=0, study=study, user=user))
    return bool(readable) and len(readable) == study.items.count()


def find_running_studies_beside(study: Study) -> list[Study]:
    """Return the studies that take ratings, or may again, and hold versions of what stands in this one."""
    others = Item.objects.filter(study__status__in=("open", "paused")).exclude(study=study)
    same = others.filter(_with_contents_of(study, study.kind), study__kind=study.kind)
    other = others.filter(_with_contents_of(study, _other_kind(study.kind))).exclude(study__kind=study.kind)
    found = {*same.values_list("study_id", flat=True).distinct(), *other.values_list("study_id", flat=True).distinct()}
    return list(Study.objects.filter(pk__in=found).order_by("pk"))


_EPISODE = {TRANSITION: "source__transition__episode_id", EVIDENCE: "source__review__episode_id"}


def _other_kind(kind: str) -> str:
    return EVIDENCE if kind == TRANSITION else TRANSITION


def _with_contents_of(study: Study, kind: str) -> Q:
    """Return the filter for the items of studies of this kind that show content of this study."""
    own = Item.objects.filter(study=study)
    if kind == study.kind:
        return Q(pair_sha256__in=own.exclude(pair_sha256="").values("pair_sha256"))
    episodes = own.filter(**{f"{_EPISODE[study.kind]}__isnull": False}).values(_EPISODE[study.kind])
    return Q(**{f"{_EPISODE[kind]}__in": episodes})


def _keys(pair: str, episode: int | None) -> list[str]:
    """Return what an item's content is compared by: with its own kind, and with the other."""
    return [key for key in (pair, f"episode {episode}" if episode else "") if key]


def _share_contents(study: Study) -> dict[int, OpenStudy]:
    """Return every other unblinded study that holds contents of this one's items. Two queries."""
    shared: dict[int, OpenStudy] = {}
    opened = Item.objects.filter(UNBLINDED).exclude(study=study).order_by()
    for kind, column in ((study.kind, "pair_sha256"), (_other_kind(study.kind), _EPISODE[_other_kind(study.kind)])):
        rows = opened.filter(_with_contents_of(study, kind), study__kind=kind)
        for other, at, key in rows.values_list("study_id", "study__unblinded_at", column).distinct():
            if at is not None:
                keys = _keys(key, None) if kind == study.kind else _keys("", key)
                shared.setdefault(other, OpenStudy(at, set())).keys.update(keys)
    return shared


def _find_readers(studies: Iterable[int], accounts: Mapping[int, User]) -> dict[int, set[int]]:
    """Return, by account, which of these unblinded studies it can read, or could."""
    found: dict[int, set[int]] = defaultdict(set)
    every = set(studies)
    for study, insider in former.find_insiders(every, accounts):
        found[insider].add(study)
    return found | {account.pk: every for account in accounts.values() if account.is_superuser}


def _read_keys(seat: Rater, study: Study, shared: Mapping[int, OpenStudy], readers: Mapping[int, set[int]]) -> set[str]:
    finished = _finished_at(seat, study)
    legible = [shared[one] for one in readers.get(seat.user_id or 0, ())]
    return {key for one in legible if finished is None or one.unblinded_at < finished for key in one.keys}


def _reads_laboratory(user: User) -> bool:
    """Return whether this account can read the laboratory's pages, or can give itself the right."""
    return user.is_staff or user.is_superuser


def _find_handled(study: Study, accounts: Collection[int]) -> dict[int, list[tuple[int, datetime]]]:
    """Return, by account, the items that it made or judged, so that it knows their source, and since when.

    One query if none of the accounts ever made or judged anything, else two.
    """
    ever = Run.objects.filter(created_by__in=accounts).order_by().values_list("pk")
    ever = ever.union(
        Twin.objects.filter(vetted_by__in=accounts).order_by().values_list("pk"),
        TwinDecision.objects.filter(by__in=accounts).order_by().values_list("pk"),
        ImportedItem.objects.filter(by__in=accounts).order_by().values_list("pk"),
    )
    if not ever.exists():
        return {}
    of_study = ItemSource.objects.filter(item__study=study).order_by()
    ways = (
        ("transition__episode__run__created_by", "transition__episode__run__created_at"),
        ("review__episode__run__created_by", "review__episode__run__created_at"),
        ("twin__run__created_by", "twin__run__created_at"),
        ("twin__vetted_by", "twin__vetted_at"),
        ("twin__decisions__by", "twin__decisions__at"),
        ("imported__by", "imported__at"),
    )
    rows = [of_study.filter(**{f"{by}__in": accounts}).values_list(by, "item_id", at) for by, at in ways]
    found: dict[int, list[tuple[int, datetime]]] = defaultdict(list)
    for account, item, since in rows[0].union(*rows[1:]):
        found[account].append((item, since))
    return found


def _finished_at(seat: Rater, study: Study) -> datetime | None:
    """Return when this seat gave its last answer at the latest; None while it can answer."""
    ends = [at for at in (seat.finished_at, seat.withdrawn_at, study.closed_at) if at is not None]
    return min(ends, default=None)


def _find_items(study: Study, readable: Mapping[int, set[str]]) -> dict[int, set[int]]:
    every = set().union(*readable.values())
    items: dict[str, set[int]] = defaultdict(set)
    rows = Item.objects.filter(study=study).values_list("pk", "pair_sha256", _EPISODE[study.kind])
    for item, pair, episode in rows:
        for key in _keys(pair, episode):
            if key in every:
                items[key].add(item)
    found = {seat: {item for key in keys for item in items[key]} for seat, keys in readable.items()}
    return {seat: own for seat, own in found.items() if own}
