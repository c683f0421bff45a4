"""Erase personal data: the account loses its identity, and its ratings remain under the pseudonymous label."""

import re
import uuid

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from ratings.accounts import sessions, two_factor
from ratings.models import Invitation, Membership, Rater, RaterProfile, SignInLink, StudyEvent
from ratings.models.study_events import LEGACY, ApiExported, Erased
from ratings.studies import StudyError, running_raters
from ratings.studies.lifecycle import Actor, log_event

ACTIVE_STATUSES = ("open", "paused")


@transaction.atomic
def erase_person(user: User, by: Actor = None) -> None:
    """Withdraw the user from active studies under each study's rule, then erase name, address, profile and access.

    Raises StudyError for staff: what they did in other people's studies must stay attributed to them. A superuser
    must remove their rights first.
    """
    # Locked, because a role that is granted at the same moment must either be seen here or be refused afterwards.
    user = User.objects.select_for_update().get(pk=user.pk)
    if user.is_staff or user.is_superuser:
        raise StudyError(f"{user.get_username()} is staff; remove their rights first")
    raters = list(Rater.objects.filter(user=user).select_related("study"))
    for rater in raters:
        if rater.study.status in ACTIVE_STATUSES and not (rater.withdrawn_at or rater.finished_at):
            # Before the account loses its identity: withdrawal follows each study's own rule on what is dropped.
            running_raters.withdraw_rater(rater, by)
    _erase_access(user, raters)
    _erase_account(user)
    for rater in raters:
        log_event(rater.study, Erased(rater=rater.label))  # without an actor: the log must not link a name to a code


def _erase_account(user: User) -> None:
    # Django's admin log stores the user's name as text.
    content_type = ContentType.objects.get_for_model(User)
    LogEntry.objects.filter(content_type=content_type, object_id=str(user.pk)).update(object_repr="erased")
    # The history of membership remains in the events, which store only the account's id.
    Membership.objects.filter(user=user).delete()
    _erase_from_events(user)
    # Random, not derived from the old name, which a guess could confirm.
    user.username = f"erased-{uuid.uuid4().hex[:12]}"
    user.email = user.first_name = user.last_name = ""
    user.last_login = None
    user.is_active = False
    user.set_unusable_password()
    user.save()
    # The row is kept, because it records when the data was erased.
    RaterProfile.objects.update_or_create(
        user=user, defaults={"degree": "", "field": "", "years": None, "erased_at": timezone.now()}
    )


def _erase_from_events(user: User) -> None:
    """Remove free text in events: names of the user's API tokens, and the name in sentences of early releases."""
    for event in StudyEvent.objects.filter(kind=ApiExported.kind, by=user, data__has_key="token"):
        StudyEvent.objects.filter(pk=event.pk).update(data={**event.data, "token": "erased"})
    # Whole words only: the name "ann" must not be removed from inside another word.
    name_pattern = re.compile(rf"(?<!\w){re.escape(user.username)}(?!\w)")
    for event in StudyEvent.objects.filter(data__has_key=LEGACY):
        if (text := name_pattern.sub("erased", event.data[LEGACY])) != event.data[LEGACY]:
            StudyEvent.objects.filter(pk=event.pk).update(data={LEGACY: text})


def _erase_access(user: User, raters: list[Rater]) -> None:
    # After this no link, token or session that is still in a browser or a mailbox leads to the account.
    _erase_addresses(user, raters)
    user.api_tokens.all().delete()
    SignInLink.objects.filter(user=user).delete()
    two_factor.delete_devices(user)
    sessions.end_sessions(user, "erased")


def _erase_addresses(user: User, raters: list[Rater]) -> None:
    """Erase the addresses of the user in every study, and revoke open invitations to them."""
    own_invitations = Invitation.objects.filter(rater__in=raters)
    same_address = Q()
    # An empty address would match every invitation without one.
    for address in {user.email, *own_invitations.values_list("email", flat=True)} - {""}:
        same_address |= Q(email__iexact=address)
    invitations = Invitation.objects.filter(Q(rater__in=raters) | same_address)
    invitations.filter(used_at=None, revoked_at=None).update(revoked_at=timezone.now())
    # The mail server's error usually quotes the address.
    invitations.update(email="", name="", send_error="")
