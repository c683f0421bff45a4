"""Send new links by e-mail to raters whose old link expired or whose session ended."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, SignInLink
from ratings.raters import inviting, joining, mailing
from ratings.studies import StudyError

PATIENCE = timedelta(minutes=2)  # between two e-mails to one address, so that nobody can flood it


def send_again(token: str, request: HttpRequest) -> None:
    """Send a new link to the address that an expired link was sent to, if any."""
    if invitation := joining.find(token):
        _invite_again(invitation, request)
        return
    # The same response whatever the token is: it must not show which tokens exist.
    result = signing_in.look_at_link(token, request.user, "rater")
    if result.owner is not None:
        send_way_back(result.owner, request)


def send_way_back(user: User, request: HttpRequest) -> None:
    """E-mail a rater a link that signs them in again. Nothing for staff, without an address, or shortly after the last one."""
    recent = SignInLink.objects.filter(user=user, purpose="rater", created_at__gt=timezone.now() - PATIENCE)
    # Nothing for staff: a link by e-mail would bypass their password and second factor.
    if not user.email or not user.is_active or user.is_staff or user.is_superuser or recent.exists():
        return
    token = signing_in.make_link(user, "rater")
    mailing.send_later(mailing.way_back(user.email, mailing.link(token, mailing.address_of(request))))


def _invite_again(invitation: Invitation, request: HttpRequest) -> None:
    seat = invitation.seat
    if seat.user is not None:
        send_way_back(seat.user, request)
        return
    last = seat.invitations.first()  # an invitation that an admin revoked stays revoked
    # Only if the address is still the current one: a link that was sent to a wrong address must not be renewed there.
    if last is None or not last.email or last.email != invitation.email or last.revoked_at:
        return
    if last.created_at > timezone.now() - PATIENCE:
        return
    try:
        token = inviting.invite(seat, email=last.email)
    except StudyError:
        # The visitor sees the same page in every case; the reason would reveal the state of somebody else's invitation.
        return
    url = mailing.link(token, mailing.address_of(request))
    mailing.send_later(mailing.invitation(last.email, seat.study, url, inviting.LIFETIME.days))
