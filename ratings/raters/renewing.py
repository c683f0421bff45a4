"""New links by e-mail, for those whose old one has gone or whose session has ended."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, SignInLink
from ratings.raters import inviting, joining, mailing
from ratings.studies import StudyError

PATIENCE = timedelta(minutes=2)  # between two letters to the same address that nobody but its reader asked for


def send_again(token: str, request: HttpRequest) -> None:
    """Somebody holds a link that works no longer: a new one goes to where it was sent, if it was sent anywhere."""
    if invitation := joining.find(token):
        _invite_again(invitation, request)
        return
    gone = signing_in.look_at_link(token, request.user, "rater")
    if gone.owner is not None:
        send_way_back(gone.owner, request)


def send_way_back(user: User, request: HttpRequest) -> None:
    """A link that signs a rater in again, by e-mail; nothing for staff, those without an address, or who had one just now."""
    recent = SignInLink.objects.filter(user=user, purpose="rater", created_at__gt=timezone.now() - PATIENCE)
    if not user.email or not user.is_active or user.is_staff or user.is_superuser or recent.exists():
        return
    token = signing_in.make_link(user, "rater")
    mailing.send_later(mailing.way_back(user.email, mailing.link(token, mailing.address_of(request))))


def _invite_again(invitation: Invitation, request: HttpRequest) -> None:
    seat = invitation.seat
    if seat.user is not None:
        send_way_back(seat.user, request)
        return
    last = seat.invitations.first()  # what an admin took back stays taken back
    if last is None or not last.email or last.email != invitation.email or last.revoked_at:
        return
    if last.created_at > timezone.now() - PATIENCE:
        return
    try:
        token = inviting.invite(seat, email=last.email)
    except StudyError:
        return
    url = mailing.link(token, mailing.address_of(request))
    mailing.send_later(mailing.invitation(last.email, seat.study, url, inviting.LIFETIME.days))
