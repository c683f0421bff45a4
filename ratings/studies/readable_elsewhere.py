"""Which items of a study an account can read in another place, together with their source.

An account can read the sources of a study's items once that study is unblinded and the account is a superuser, or has
or had a role in it: created it, was a member, or did something in it. Staff can read them in the laboratory as well,
for every item from the pool; former staff could do so for every episode that was started before they ceased to be
staff. The source is also known to the user who started or played the episode, started or vetted a twin of the step or
imported the item, whether or not this user is staff now. A version of the same thing reveals as much as the item
itself, because an outcome beside its original shows the planted error. Steps are therefore compared by
`Item.pair_sha256`. A record of evidence shows every step of its episode: between studies of the two kinds, items of
the same episode have the same content.

`ratings.studies.access` defines what an account may do in a study now. What it could do earlier is defined here: rights
and roles can be revoked, but what a user saw or decided while they had one cannot. Raters have no right to read
sources, with one exception: if a study's document offers it, raters can review their own items after unblinding
(`ratings.raters.item_review`). From then on they can read these items.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet, Value
from django.utils import timezone

from ratings.models import EVIDENCE, TRANSITION, Assignment, ImportedItem, Item, ItemSource, Rater, Study, StudyEvent
from ratings.models.people import Membership, MembershipChange, RightsPeriod
from simulation.models import EvidenceReview, Run, SampledTwin, Transition, Twin, TwinDecision

_FLAGS = {"is_staff": RightsPeriod.STAFF, "is_superuser": RightsPeriod.SUPERUSER}


class Period(NamedTuple):
    """A right and its period; `ended_at` is None while it lasts."""

    right: str
    began_at: datetime
    ended_at: datetime | None


def record_rights(
    instance: User, raw: bool = False, update_fields: Collection[str] | None = None, **kwargs: object
) -> None:
    """Record changed rights, and release readable items if a right was gained; a receiver of `post_save`."""
    # Fixtures (raw) bring their own rows. Saving other fields, such as last_login, costs no query.
    if raw or (update_fields is not None and not _FLAGS.keys() & set(update_fields)):
        return
    with transaction.atomic():
        gained = [right for flag, right in _FLAGS.items() if _update_period(instance, right, getattr(instance, flag))]
        if gained:
            from ratings.studies import reassign  # it imports this module

            reassign.release_items_of_account(instance)


def find_periods(accounts: Mapping[int, User]) -> dict[int, list[Period]]:
    """Return the periods of rights of these accounts, by account. One query."""
    periods: dict[int, list[Period]] = {}
    rows = RightsPeriod.objects.filter(user__in=accounts).values_list("user_id", "right", "began_at", "ended_at")
    for user, right, began_at, ended_at in rows:
        periods.setdefault(user, []).append(Period(right, began_at, ended_at))
    for user, account in accounts.items():
        open_rights = {period.right for period in periods.get(user, ()) if period.ended_at is None}
        for flag, right in _FLAGS.items():
            # Rights that were given before this table existed, or by SQL, count since the account was created.
            if getattr(account, flag) and right not in open_rights:
                periods.setdefault(user, []).append(Period(right, account.date_joined, None))
    return periods


def _update_period(user: User, right: str, has: bool) -> bool:
    """Begin or end a period of this right. Return whether the user has gained the right."""
    if has:
        values: dict[str, Any] = {"user": user, "right": right, "ended_at": None}
        return RightsPeriod.objects.get_or_create(**values)[1]
    RightsPeriod.objects.filter(user=user, right=right, ended_at=None).update(ended_at=timezone.now())
    return False


_READ_EVENT_KINDS = ("looked", "exported", "audited")


def has_managed(study: Study, user: User) -> bool:
    """Return whether the user created this study, was an admin of it, or did anything in it other than read."""
    if study.created_by_id == user.pk or study.events.filter(by=user).exclude(kind__in=_READ_EVENT_KINDS).exists():
        return True
    return study.membership_changes.filter(user=user, role="admin", granted=True).exists()


def took_interim_analysis(study: Study, user: User) -> bool:
    """Return whether the user took an interim analysis of this study."""
    return study.events.filter(by=user, kind="looked").exists()


def had_role(study: Study, user: User) -> bool:
    """Return whether the user ever had a role in this study, and so managed it or could read its results."""
    has_record = study.events.filter(by=user).exists() or study.membership_changes.filter(user=user).exists()
    return has_record or study.created_by_id == user.pk


def list_unblinded_people(study: Study) -> QuerySet[User]:
    """Return all users who have or had a role in this study."""
    acted = study.events.exclude(by=None).values("by")
    changed = study.membership_changes.exclude(user=None).values("user")
    has_part = Q(memberships__study=study) | Q(pk=study.created_by_id) | Q(pk__in=acted) | Q(pk__in=changed)
    return User.objects.filter(has_part).distinct()


def find_unblinded_people(studies: Collection[int], accounts: Collection[int]) -> Iterator[tuple[int, int, datetime]]:
    """Yield (study, account, time) for those of these accounts that have or had a role in one of these studies.

    A study and account may be yielded several times; the earliest time counts. Always three queries.
    """
    events = StudyEvent.objects.filter(study__in=studies, by__in=accounts).order_by()
    changes = MembershipChange.objects.filter(study__in=studies, user__in=accounts).order_by()
    # One round trip for both tables; the constant shows from which one a row is.
    change_rows = changes.values_list("study_id", "user_id", "at", Value(True))
    dated_rows = events.values_list("study_id", "by_id", "at", Value(False)).union(change_rows)
    recorded = set()
    for study, account, at, is_change in dated_rows:
        yield study, account, at
        if is_change:
            recorded.add((study, account))
    created = Study.objects.filter(pk__in=studies, created_by__in=accounts)
    yield from ((study, by, at) for study, by, at in created.values_list("pk", "created_by_id", "created_at") if by)
    roles = Membership.objects.filter(study__in=studies, user__in=accounts)
    for study, member, at in roles.values_list("study_id", "user_id", "study__created_at"):
        # Earlier releases recorded no changes: without a stored change, a role counts since the study's creation.
        if (study, member) not in recorded:
            yield study, member, at


UNBLINDED = Q(study__status="unblinded")
HandledKeys = dict[int, list[tuple[str, datetime]]]  # by account: keys of items (see _index_items), each with its time


class UnblindedStudy(NamedTuple):
    """An unblinded study that shares contents with another study, and the keys of these contents (see `_index_items`)."""

    unblinded_at: datetime
    keys: set[str]


def find_unblinded_pairs(excluded: Study | None = None) -> set[str]:
    """Return the digest of every pair with an item in an unblinded study."""
    items = Item.objects.filter(UNBLINDED).exclude(pair_sha256="")
    items = items.exclude(study=excluded) if excluded else items
    return set(items.order_by().values_list("pair_sha256", flat=True).distinct())


def find_origins_shown(kind: str) -> set[int]:
    """Return the steps or reviews whose episode is in an unblinded study of the other kind."""
    rows = Transition.objects if kind == TRANSITION else EvidenceReview.objects
    return set(rows.filter(episode__in=_list_episodes_shown(kind)).order_by().values_list("pk", flat=True))


def count_items_of_shown_episodes(study: Study) -> int:
    """Return how many items of this study come from an episode that is in an unblinded study of the other kind."""
    return Item.objects.filter(study=study, **{f"{_EPISODE[study.kind]}__in": _list_episodes_shown(study.kind)}).count()


def find_readable(study: Study, raters: Sequence[Rater] | QuerySet[Rater]) -> dict[int, set[int]]:
    """Return the items of this study that these raters can read elsewhere, by the rater's key.

    Open rater places, and raters who can read nothing, are left out. The number of queries does not depend on the
    number of raters, items and studies. What became readable after a rater finished does not count for that rater.
    """
    taken_places = [rater for rater in raters if rater.user_id]
    if not taken_places:
        return {}
    accounts = {user.pk: user for user in User.objects.filter(pk__in={rater.user_id for rater in taken_places})}
    periods = find_periods(accounts)
    keys = _find_handled_items(study, accounts)
    for account, study_keys in _find_readable_in_studies(study, accounts, periods).items():
        keys.setdefault(account, []).extend(study_keys)
    # Most accounts can read nothing: the larger queries run only if there is something to compare.
    items = _index_items(study) if keys else {}
    pool_items: dict[int, datetime] = {}  # with the start times of their episodes
    if periods:
        run_path = "transition__episode__run" if study.kind == TRANSITION else "review__episode__run"
        rows = ItemSource.objects.filter(item__study=study, imported__isnull=True).order_by()
        pool_items = dict(rows.values_list("item_id", f"{run_path}__created_at"))
    readable = {}
    for rater in taken_places:
        account = rater.user_id or 0
        # After this time the rater could no longer answer; None while they still can.
        ends = (rater.finished_at, rater.withdrawn_at, study.closed_at)
        finished = min((time for time in ends if time), default=None)
        known_keys = [key for key, since in keys.get(account, ()) if _is_before(since, finished)]
        items_of_rater = set().union(*(items.get(key, ()) for key in known_keys))
        for period in periods.get(account, ()):
            if _is_before(period.began_at, finished):
                items_of_rater |= {item for item, at in pool_items.items() if _is_before(at, period.ended_at)}
        if items_of_rater:
            readable[rater.pk] = items_of_rater
    return readable


def find_readable_by(study: Study, rater: Rater) -> set[int]:
    """Return the items of this study that this rater can read elsewhere."""
    return find_readable(study, [rater]).get(rater.pk, set())


def find_readable_pairs(study: Study, raters: Sequence[Rater] | QuerySet[Rater]) -> dict[int, set[UUID]]:
    """Return, by the rater's key, the pairs of the items that each rater can read elsewhere."""
    items = find_readable(study, raters)
    all_items = set().union(*items.values())
    pairs = dict(ItemSource.objects.filter(item__in=all_items).values_list("item_id", "pair")) if all_items else {}
    return {rater: {pairs[item] for item in items_of_rater if item in pairs} for rater, items_of_rater in items.items()}


def can_read_every_item(study: Study, user: User) -> bool:
    """Return whether this account can read every item of the study elsewhere, so that it could rate none."""
    # An unsaved rater: the question is asked before the account joins.
    readable = find_readable_by(study, Rater(pk=0, study=study, user=user))
    return bool(readable) and len(readable) == study.items.count()


def shares_contents(study: Study, other: Study) -> bool:
    """Return whether the other study has an item that shows content of this study."""
    return Item.objects.filter(_filter_shared_contents(study, other.kind), study=other).exists()


def find_running_studies_sharing_items(study: Study) -> list[Study]:
    """Return the open and paused studies that share contents with this study's items."""
    others = Item.objects.filter(study__status__in=("open", "paused")).exclude(study=study)
    same = others.filter(_filter_shared_contents(study, study.kind), study__kind=study.kind)
    other = others.filter(_filter_shared_contents(study, _OTHER_KIND[study.kind])).exclude(study__kind=study.kind)
    study_keys = {key for rows in (same, other) for key in rows.values_list("study_id", flat=True).distinct()}
    return list(Study.objects.filter(pk__in=study_keys).order_by("pk"))


_OTHER_KIND = {TRANSITION: EVIDENCE, EVIDENCE: TRANSITION}
_EPISODE = {TRANSITION: "source__transition__episode_id", EVIDENCE: "source__review__episode_id"}


def _list_episodes_shown(kind: str) -> QuerySet[Item, Any]:
    other = _EPISODE[_OTHER_KIND[kind]]
    shown = Item.objects.filter(UNBLINDED, study__kind=_OTHER_KIND[kind], **{f"{other}__isnull": False})
    episodes: QuerySet[Item, Any] = shown.order_by().values(other)
    return episodes


def _filter_shared_contents(study: Study, kind: str) -> Q:
    """Return the filter for the items of studies of this kind that show content of this study."""
    study_items = Item.objects.filter(study=study)
    if kind == study.kind:
        return Q(pair_sha256__in=study_items.exclude(pair_sha256="").values("pair_sha256"))
    episodes = study_items.filter(**{f"{_EPISODE[study.kind]}__isnull": False}).values(_EPISODE[study.kind])
    return Q(**{f"{_EPISODE[kind]}__in": episodes})


def _episode_key(episode: int) -> str:
    return f"episode {episode}"


def _find_readable_in_studies(
    study: Study, accounts: Mapping[int, User], periods: Mapping[int, Sequence[Period]]
) -> HandledKeys:
    """Return, by account, the keys that it can read in other studies, each with the time since when."""
    shared: dict[int, UnblindedStudy] = {}
    unblinded_items, other_kind = (
        Item.objects.filter(UNBLINDED).exclude(study=study).order_by(),
        _OTHER_KIND[study.kind],
    )
    for kind, column in ((study.kind, "pair_sha256"), (other_kind, _EPISODE[other_kind])):
        rows = unblinded_items.filter(_filter_shared_contents(study, kind), study__kind=kind)
        for other_study, unblinded_at, key in rows.values_list("study_id", "study__unblinded_at", column).distinct():
            if unblinded_at is not None and key:
                unblinded = shared.setdefault(other_study, UnblindedStudy(unblinded_at, set()))
                unblinded.keys.add(key if kind == study.kind else _episode_key(key))
    handled: HandledKeys = defaultdict(list)
    if not shared:
        return handled
    for other_study, insider, since in find_unblinded_people(shared.keys(), accounts):
        # Readable from the later of two times: when the study was unblinded, and when the account got its role.
        readable_since = max(since, shared[other_study].unblinded_at)
        handled[insider] += [(key, readable_since) for key in shared[other_study].keys]
    for reviewer, keys, reviewed_at in _find_reviewed(study, shared, accounts):
        handled[reviewer] += [(key, reviewed_at) for key in keys]
    for account, periods_of_account in periods.items():
        for right, began_at, ended_at in periods_of_account:
            for unblinded in shared.values() if right == RightsPeriod.SUPERUSER else ():
                if _is_before(unblinded.unblinded_at, ended_at):
                    readable_since = max(unblinded.unblinded_at, began_at)
                    handled[account] += [(key, readable_since) for key in unblinded.keys]
    return handled


def _find_reviewed(
    study: Study, shared: Mapping[int, UnblindedStudy], accounts: Collection[int]
) -> Iterator[tuple[int, set[str], datetime]]:
    """Yield (account, keys, time) for the items that one of these accounts rated in one of these studies and has reviewed."""
    reviewed = Assignment.objects.filter(
        rater__study__in=shared, rater__user__in=accounts, rater__reviewed_at__isnull=False, answered_at__isnull=False
    ).order_by()
    other_kind = _OTHER_KIND[study.kind]
    rows = reviewed.values_list(
        "rater__user_id", "rater__study_id", "rater__study__kind", "item__pair_sha256", f"item__{_EPISODE[other_kind]}", "rater__reviewed_at",
    )  # fmt: skip
    for account, other_study, kind, pair, episode, at in rows:
        key = pair if kind == study.kind else _episode_key(episode)
        if account and at and key in shared[other_study].keys:
            yield account, {key}, at


def _find_handled_items(study: Study, accounts: Collection[int]) -> HandledKeys:
    """Return, by account, the keys of contents it started, imported or vetted, with times. At least one query."""
    any_work = Run.objects.filter(created_by__in=accounts).order_by().values_list("pk")
    any_work = any_work.union(
        Twin.objects.filter(vetted_by__in=accounts).order_by().values_list("pk"),
        TwinDecision.objects.filter(by__in=accounts).order_by().values_list("pk"),
        SampledTwin.objects.filter(second_by__in=accounts).order_by().values_list("pk"),
        ImportedItem.objects.filter(by__in=accounts).order_by().values_list("pk"),
    )
    handled: HandledKeys = defaultdict(list)
    if not any_work.exists():
        return handled
    study_items = Item.objects.filter(study=study)
    sources = ItemSource.objects.filter(item__pair_sha256__in=study_items.exclude(pair_sha256="").values("pair_sha256"))
    contents = ItemSource.objects.filter(item__study=study, transition__isnull=False)
    # The user who started or vetted a twin saw the original beside it: the step counts, with all its versions.
    steps = Transition.objects.filter(content_sha256__in=contents.values("transition__content_sha256"))
    imported = ImportedItem.objects.filter(payload_sha256__in=study_items.values("payload_sha256"))
    rows = [
        *_query_handled(sources, "item__pair_sha256", accounts, "transition__", "review__episode__run"),
        *_query_handled(steps, "content_sha256", accounts, ""),
        sources.filter(imported__by__in=accounts).order_by().values_list("imported__by", "item__pair_sha256", "imported__at"),
        imported.filter(by__in=accounts).order_by().values_list("by", "payload_sha256", "at"),
    ]  # fmt: skip
    for account, key, since in rows[0].union(*rows[1:]):
        handled[account].append((key, since))
    if study.kind == EVIDENCE:
        episodes = ItemSource.objects.filter(item__study=study, review__isnull=False).values("review__episode")
        rows = _query_handled(Transition.objects.filter(episode__in=episodes), "episode", accounts, "")
        for account, episode, since in rows[0].union(*rows[1:]):
            handled[account].append((_episode_key(episode), since))
    return handled


def _query_handled(
    rows: QuerySet[Any], key: str, accounts: Collection[int], step: str, *runs: str
) -> list[QuerySet[Any, Any]]:
    """Return queries for (account, key, time) of who started or vetted rows; `step` leads to their step."""
    creators = [f"{run}__created_by" for run in (f"{step}episode__run", f"{step}twins__run", *runs)]
    paths = [(by, by.replace("created_by", "created_at")) for by in creators]
    paths += [(f"{step}twins__vetted_by", f"{step}twins__vetted_at")]
    paths += [(f"{step}twins__decisions__by", f"{step}twins__decisions__at")]
    paths += [(f"{step}twins__samples__second_by", f"{step}twins__samples__second_at")]
    return [rows.filter(**{f"{by}__in": accounts}).order_by().values_list(by, key, time) for by, time in paths]


def _is_before(time: datetime, end: datetime | None) -> bool:
    return end is None or time < end


def _index_items(study: Study) -> dict[str, set[int]]:
    """Return this study's items by the digests of pair, payload and step, and by episode."""
    # Digests of different things are never equal, so one index is enough for all of them.
    items: dict[str, set[int]] = defaultdict(set)
    rows = Item.objects.filter(study=study).values_list(
        "pk", "pair_sha256", "payload_sha256", "source__transition__content_sha256", _EPISODE[study.kind]
    )
    for item, *digests, episode in rows:
        for key in [*digests, _episode_key(episode) if episode else ""]:
            if key:
                items[key].add(item)
    return items
