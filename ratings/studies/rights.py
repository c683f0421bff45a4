"""Periods of staff and superuser rights, recorded whenever an account is saved, by whatever page or command.

Users who gain a right can read where items come from. Items that they were to rate and have not been shown are
therefore released at once.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.models import RightsPeriod

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
    # Fixtures (raw) bring their own rows. A save that leaves out the flags, such as that of last_login, costs no
    # query.
    if raw or (update_fields is not None and not _FLAGS.keys() & set(update_fields)):
        return
    with transaction.atomic():
        gained_rights = [
            right for flag, right in _FLAGS.items() if _update_period(instance, right, bool(getattr(instance, flag)))
        ]
        if gained_rights:
            from ratings.studies.assignments import release_items  # it imports this module

            release_items.release_items_of_account(instance)


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
