"""Send new links by e-mail to raters whose old link expired or whose session ended."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Invitation, SignInLink
from ratings.raters import accept_invitation, email_messages, invitations
from ratings.studies import StudyError

MIN_INTERVAL = timedelta(minutes=2)  # between two e-mails to one address, so that nobody can flood it


def resend_link(token: str, request: HttpRequest) -> None:
    """Send a new link to the address that an expired link was sent to, if any."""
    if invitation := accept_invitation.find_invitation(token):
        _resend_invitation(invitation, request)
        return
    # The same response whatever the token is: it must not show which tokens exist.
    result = signing_in.peek_link(token, request.user, "rater")
    if result.owner is not None:
        send_sign_in_link(result.owner, request)


def send_sign_in_link(user: User, request: HttpRequest) -> None:
    """Send a rater an e-mail with a link that signs them in again.

    Nothing is sent to staff, to accounts without an address, or within two minutes of the last link.
    """
    recent = SignInLink.objects.filter(user=user, purpose="rater", created_at__gt=timezone.now() - MIN_INTERVAL)
    # Nothing for staff: a link by e-mail would bypass their password and second factor.
    if not user.email or not user.is_active or user.is_staff or user.is_superuser or recent.exists():
        return
    token = signing_in.create_link(user, "rater")
    email_messages.send_in_background(
        email_messages.write_sign_in_link(
            user.email, email_messages.build_link(token, email_messages.make_url_builder(request))
        )
    )


def _resend_invitation(invitation: Invitation, request: HttpRequest) -> None:
    rater = invitation.rater
    if rater.user is not None:
        send_sign_in_link(rater.user, request)
        return
    last = rater.invitations.first()  # an invitation that an admin revoked stays revoked
    # Only if the address is still the current one: a link that was sent to a wrong address must not be renewed there.
    if last is None or not last.email or last.email != invitation.email or last.revoked_at:
        return
    if last.created_at > timezone.now() - MIN_INTERVAL:
        return
    try:
        token = invitations.create_invitation(rater, email=last.email)
    except StudyError:
        # The visitor sees the same page in every case; the reason would reveal the state of somebody else's invitation.
        return
    url = email_messages.build_link(token, email_messages.make_url_builder(request))
    email_messages.send_in_background(
        email_messages.write_invitation(last.email, rater.study, url, invitations.INVITATION_LIFETIME.days)
    )
