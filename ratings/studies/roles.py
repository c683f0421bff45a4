"""Give and remove roles: who, besides its creator, may manage a study or read its results."""

from django.contrib.auth.models import User
from django.db import transaction

from ratings.accounts import signing_in
from ratings.models import Membership, MembershipChange, Study
from ratings.models.study_events import MemberChanged
from ratings.studies import access, role_history
from ratings.studies.assignments import release_items
from ratings.studies.errors import StudyError
from ratings.studies.lifecycle import Actor, log_event

ROLES = dict(Membership.ROLES)


@transaction.atomic
def add_member(study: Study, account_name: str, role: str, by: Actor = None) -> Membership:
    """Give a role to a user, found by user name or e-mail address. A role that they have in the study is replaced.

    Raises StudyError if there is no such account, or if it may not have this role.
    """
    # The account and then the study are locked: nobody can join as a rater at the same time, neither here nor with
    # this account in another study.
    user = User.objects.select_for_update(no_key=True).get(pk=_get_account(account_name).pk)
    study = Study.objects.select_for_update().get(pk=study.pk)
    if role not in ROLES:
        raise StudyError(f"{role[:20]!r} is not a role; roles: {', '.join(ROLES)}")
    if user.is_superuser or user.pk == study.created_by_id:
        raise StudyError(f"{user.get_username()} already has every right in this study")
    if role == "admin" and not user.is_staff:
        raise StudyError(
            f"{user.get_username()} may not run studies. A superuser can allow it by making the account staff"
        )
    if role == "admin" and not study.is_unblinded and role_history.took_interim_analysis(study, user):
        raise StudyError(
            f"{user.get_username()} has taken an interim analysis. Users who have seen results cannot manage the study before it is unblinded"
        )
    if study.raters.filter(user=user).exists():
        raise StudyError(f"{user.get_username()} is a rater of this study. Raters must not see where items come from")
    member, _ = Membership.objects.update_or_create(study=study, user=user, defaults={"role": role})
    _record_change(study, user, role, by, granted=True)
    # From now on this user can read the sources of these items, which may be theirs to rate in another study.
    if study.is_unblinded:
        release_items.release_items_of_account(user)
    return member


@transaction.atomic
def remove_member(study: Study, member: Membership, by: Actor = None) -> None:
    """Remove a member's role. Raises StudyError for one's own role, because the study could be left without an admin."""
    if by is not None and member.user_id == by.pk and access.get_role(by, study) != "superuser":
        raise StudyError("You cannot remove yourself; ask another admin of this study")
    member.delete()
    _record_change(study, member.user, member.role, by, granted=False)


def _record_change(study: Study, user: User, role: str, by: Actor, *, granted: bool) -> None:
    """Store the change for authorisation, and add it to the study's log for people."""
    MembershipChange.objects.create(study=study, user=user, role=role, granted=granted, by=by)
    log_event(
        study, MemberChanged(account=user.pk, role="admin" if role == "admin" else "analyst", granted=granted), by
    )


def _get_account(account_name: str) -> User:
    name = account_name.strip()
    account = User.objects.filter(username=name, is_active=True).first() or (
        signing_in.find_by_email(name) if name else None
    )
    if account is None:
        raise StudyError(f"There is no account {name[:80]!r}. A superuser can create one")
    return account
