"""Personal links: invitations to rate in a study, and links that sign a rater in again.

Opening a link uses nothing up, so that a mail scanner cannot; only its form does.
"""

from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_safe

from ratings.accounts import signing_in
from ratings.accounts.signing_in import LinkEffect
from ratings.models import Invitation, RaterProfile
from ratings.protocol import study_protocol
from ratings.raters import invitations, mailings
from ratings.studies import progress
from ratings.web.account import sign_in
from ratings.web.account.profile import ConsentForm, ProfileForm


@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def rater_link(request: HttpRequest, token: str) -> HttpResponse:
    """Open an invitation or a sign-in link. 404 if the token never existed, 410 if it existed but no longer works."""
    if invitation := invitations.find_invitation(token):
        return _forbid_link_caching(_open_invitation(request, token, invitation))
    return _forbid_link_caching(_sign_in_again(request, token))


def _open_invitation(request: HttpRequest, token: str, invitation: Invitation) -> HttpResponse:
    rater = invitation.rater
    if request.user.is_authenticated and rater.user_id == request.user.pk:
        return redirect("ratings:next", rater.code)
    if reason := invitations.describe_expiry(invitation):
        return _show_expired(request, token, reason)
    if request.user.is_authenticated and (reason := invitations.refusal_reason(invitation, request.user)):
        return _offer_sign_out(request, invitation, reason)
    return _show_consent(request, token, invitation)


def _show_consent(request: HttpRequest, token: str, invitation: Invitation) -> HttpResponse:
    if request.method == "GET":
        invitations.record_opening(invitation)
    user, posted = invitations.find_joining_user(invitation, request.user), request.POST or None
    new_name = invitations.generate_user_name(invitation)
    form = ConsentForm(posted, user=user, name=new_name, email=invitation.proven_email)
    # The profile belongs to the account and is asked for only once.
    has_profile = user is not None and RaterProfile.objects.filter(user=user, answered_at__isnull=False).exists()
    profile = None if has_profile else ProfileForm(posted)
    # `&` instead of `and`: both forms are validated, so the page shows all errors at once.
    if posted and form.is_valid() & (profile is None or profile.is_valid()):
        try:
            rater = invitations.accept_invitation(invitation, request.user, form.build_joining(profile))
        except invitations.InvitationExpired as error:
            return _show_expired(request, token, str(error))
        return _sign_in(request, rater.user, reverse("ratings:next", args=[rater.code]))
    rater, items = invitation.rater, progress.count_items(invitation.rater)
    context = {
        "study": rater.study,
        "protocol": study_protocol.load_protocol(rater.study.protocol),
        "items": items,
        "time_needed": progress.describe_time_needed(rater.study, items),
        "expires_at": invitation.expires_at,
        "has_address": bool(invitation.proven_email),
        "form": form,
        "profile": profile,
        "user_name": user.get_username() if user else new_name,
    }
    return render(request, "ratings/consent.html", context, status=422 if posted else 200)


def _offer_sign_out(request: HttpRequest, invitation: Invitation, reason: str) -> HttpResponse:
    """Ask a signed-in user who cannot accept this invitation whether to sign out first."""
    if request.method == "POST" and "sign_out" in request.POST:
        logout(request)
        return redirect(request.path)
    context = {"study": invitation.rater.study, "why": reason}
    if reason == "joined":
        context["rater"] = invitation.rater.study.raters.get(user__pk=request.user.pk or 0)
    return render(request, "ratings/link_switch.html", context)


def _sign_in_again(request: HttpRequest, token: str) -> HttpResponse:
    """Sign a rater in again by a link, which works once and only after a button is pressed."""
    link = signing_in.peek_link(token, request.user, "rater")
    if link.effect == LinkEffect.UNKNOWN or (link.user is None and link.effect != LinkEffect.GONE):
        raise Http404
    if link.effect == LinkEffect.GONE:
        return _show_expired(request, token, link.why)
    if link.user is not None and link.user.pk == request.user.pk:
        return redirect("ratings:desk")
    # Mail scanners fetch links: a GET must not use the link up.
    if request.method != "POST":
        return render(request, "ratings/link_back.html")
    opened = signing_in.open_link(token, request.user, "rater")
    if opened.user is None:
        return _show_expired(request, token, opened.why)
    return _sign_in(request, opened.user, reverse("ratings:desk"))


def _show_expired(request: HttpRequest, token: str, reason: str) -> HttpResponse:
    """Show why the link no longer works; on request, e-mail a new link to the same address."""
    # The page is the same whether an e-mail was sent or not: it must not reveal whether an address is known.
    is_requested = request.method == "POST" and "again" in request.POST
    if is_requested:
        mailings.resend_link(token, request)
    context = {"why": reason, "purpose": "rater", "asked": is_requested}
    return render(request, "ratings/link_gone.html", context, status=410)


@login_not_required
@require_safe
def admin_link(request: HttpRequest, token: str) -> HttpResponse:
    opened = signing_in.open_link(token, request.user, "admin")
    if opened.effect == LinkEffect.UNKNOWN:
        raise Http404
    if opened.effect == LinkEffect.GONE or opened.user is None:
        context = {"why": opened.why, "purpose": "admin"}
        return _forbid_link_caching(render(request, "ratings/link_gone.html", context, status=410))
    return _forbid_link_caching(_sign_in(request, opened.user, reverse("home"), fresh=opened.is_first_use))


def _sign_in(request: HttpRequest, user: User | None, next_url: str, fresh: bool = True) -> HttpResponse:
    """Sign the user in, after two-factor authentication if it is on. Only a `fresh` link counts as a recent sign-in."""
    if user is not None and not signing_in.sign_in(request, user, next_url, by_link=True, fresh=fresh):
        return redirect("ratings:sign_in_code")
    return redirect(next_url)


def _forbid_link_caching(response: HttpResponse) -> HttpResponse:
    """Forbid caching and referrers to other sites: the token is part of the URL."""
    response["Cache-Control"] = "no-store"
    # Not "no-referrer": browsers then send the form with `Origin: null`, which the CSRF check rejects.
    response["Referrer-Policy"] = "same-origin"
    return response


urls: list[URLPattern] = [
    path("r/<str:token>/", rater_link, name="rater_link"),
    path("sign-in/<str:token>/", admin_link, name="admin_link"),
    *sign_in.urls,
]
