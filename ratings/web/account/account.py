"""A user's own account: password, two-factor authentication, and signed-in browsers."""

import io
import re
from typing import Any

import segno
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.accounts import reauthentication, sessions, two_factor
from ratings.accounts.reauthentication import confirm_password, require_recent_sign_in
from ratings.api import tokens
from ratings.web.account.sign_in import CodeForm
from wetbench_site.observability.logs import log_security_event

NOT_RECENT = "Your sign-in is too long ago. Open a new sign-in link, then set your password within 15 minutes."


class ChangeForm(PasswordChangeForm):
    """Django's form for a new password. Wrong current passwords are counted as on the sign-in page."""

    request: HttpRequest

    def clean_old_password(self) -> str:
        password = str(self.cleaned_data["old_password"])
        # Not the form's own check, because wrong guesses must be counted.
        if not reauthentication.verify_identity(self.request, password):
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return password


class FirstForm(SetPasswordForm):  # type: ignore[type-arg]  # not subscriptable as it runs
    """The form for a first password. It requires a recent sign-in, so that nobody can use an abandoned session."""

    request: HttpRequest

    def clean(self) -> Any:
        # Checked when the form is submitted, not when it is shown: the page may be open for hours.
        if not (reauthentication.is_recent(self.request) or reauthentication.needs_no_proof(self.request)):
            raise ValidationError(NOT_RECENT)
        return super().clean()


def make_password_form(request: HttpRequest, data: Any = None) -> ChangeForm | FirstForm:
    """Return the form for the signed-in user."""
    user = request.user
    assert isinstance(user, User)
    form = ChangeForm(user, data) if user.has_usable_password() else FirstForm(user, data)
    form.request = request
    for field in form.fields.values():
        field.widget.attrs.pop("autofocus", None)  # one of several forms on its page
    form.fields["new_password1"].help_text = "At least 12 characters; avoid your name and common passwords."
    form.fields["new_password2"].label, form.fields["new_password2"].help_text = "Repeat password", ""
    return form


def change_password(request: HttpRequest, form: ChangeForm | FirstForm) -> None:
    """Save the new password and end every other session of the user."""
    user = form.save()
    # Django signs out all sessions with the old password; this one continues.
    update_session_auth_hash(request, user)
    reauthentication.record_reauthentication(request)
    sessions.end_sessions(user, "password changed", request, but=request.session.session_key)
    log_security_event("password changed", request, user=user.pk)


class AccountRequest(HttpRequest):
    """A request of a signed-in user: the sign-in middleware rejects all others."""

    user: User


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show_account(request: AccountRequest) -> HttpResponse:
    """Show everything about the account on one page; the form on it changes the password."""
    form = make_password_form(request, request.POST if request.method == "POST" else None)
    if form.is_valid():
        change_password(request, form)
        messages.success(request, "Password changed. You have been signed out everywhere else.")
        return redirect("ratings:account")
    context = {
        "form": form,
        "device": two_factor.find_device(request.user),
        "codes_left": two_factor.count_backup_codes(request.user),
        "required": two_factor.is_required_anywhere(request.user),
        "may_have_tokens": tokens.can_have_tokens(request.user),
        "sessions": sessions.list_sessions(request.user),
        "this": request.session.session_key,
    }
    return render(request, "ratings/account.html", context, status=422 if form.errors else 200)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_recent_sign_in
def manage_two_factor(request: AccountRequest) -> HttpResponse:
    """Turn two-factor authentication on and off: `do` is "begin", "turn on" or "turn off"."""
    doing = request.POST.get("do", "")
    # An active app is not replaced by pressing the button again; it must be turned off first.
    if doing == "begin" and not two_factor.find_device(request.user):
        two_factor.start_setup(request.user)
        return redirect("ratings:second_step")
    form = CodeForm(request.POST if doing in ("turn on", "turn off") else None)
    if two_factor.find_unconfirmed(request.user):
        # A code of the new app is asked for here, and backup codes do not exist yet.
        form.fields["code"].help_text = "Six digits."
    change = _turn_on if doing == "turn on" else _turn_off
    if form.is_valid() and (response := change(request, form)):
        return response
    begun = two_factor.find_unconfirmed(request.user)
    context = {
        "form": form,
        "device": two_factor.find_device(request.user),
        "begun": begun,
        "secret": two_factor.format_secret(begun) if begun else "",
        "required": two_factor.is_required_anywhere(request.user),
        "needs_password": request.user.has_usable_password(),
    }
    return render(request, "ratings/second_step.html", context, status=422 if form.errors else 200)


def _turn_on(request: AccountRequest, form: CodeForm) -> HttpResponse | None:
    result = two_factor.confirm_device(request.user, form.cleaned_data["code"])
    device = form.handle_result(request, request.user, result)
    if device is None:
        return None
    # Other sessions were opened without the second factor, possibly by somebody else.
    sessions.end_sessions(request.user, "second step on", request, but=request.session.session_key)
    # A new key, since the session now has more rights than before.
    request.session.cycle_key()
    two_factor.mark_verified(request, device)
    log_security_event("second step on", request)
    return _render_backup_codes(request)


def _turn_off(request: AccountRequest, form: CodeForm) -> HttpResponse | None:
    """Turn off two-factor authentication, with password and code: a stolen session or a phone alone is not enough."""
    # Users of whom the site requires two-factor authentication cannot turn it off themselves.
    if two_factor.is_required_anywhere(request.user):
        required = "Your account requires two-factor authentication."
        form.add_error(None, f"{required} If you have lost your device, ask another superuser to reset it.")
    elif not reauthentication.verify_identity(request, request.POST.get("password", "")):
        form.add_error(None, "The password is incorrect.")
    elif form.check_code(request, request.user):
        two_factor.delete_devices(request.user)
        two_factor.clear_verified(request)
        sessions.end_sessions(request.user, "second step off", request, but=request.session.session_key)
        log_security_event("second step off", request)
        messages.success(request, "Two-factor authentication is off.")
        return redirect("ratings:account")
    return None


@never_cache
@require_POST
@require_recent_sign_in
def renew_backup_codes(request: AccountRequest) -> HttpResponse:
    """Create ten new backup codes that replace the old ones."""
    if two_factor.find_device(request.user) is None:
        return redirect("ratings:second_step")
    log_security_event("backup codes made", request)
    return _render_backup_codes(request)


def _render_backup_codes(request: AccountRequest) -> HttpResponse:
    codes = two_factor.create_backup_codes(request.user)
    return render(request, "ratings/backup_codes.html", {"codes": codes, "text": "\n".join(codes)})


@never_cache
@require_POST
def download_backup_codes(request: AccountRequest) -> HttpResponse:
    """Return the displayed codes as a file. They are sent by the page, because the server does not store them."""
    # Only text in the form of a code is returned: the file must not carry whatever a page sends. 500 characters are ten
    # codes with generous separators.
    codes = re.findall(r"\b[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}\b", request.POST.get("codes", "")[:500])
    text = "".join(f"{code}\n" for code in codes)
    headers = {"Content-Disposition": 'attachment; filename="wetbench-backup-codes.txt"'}
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


@never_cache
@require_safe
def show_qr_code(request: AccountRequest) -> HttpResponse:
    """Return the unconfirmed secret as a QR code, only for users who may see it as text."""
    begun = two_factor.find_unconfirmed(request.user)
    if begun is None or not reauthentication.is_recent(request):
        raise Http404
    svg: Any = io.BytesIO()
    # The secret is drawn on the server and is in no URL, where logs and histories would keep it.
    segno.make(begun.config_url, error="m", micro=False).save(svg, kind="svg", scale=5, border=4, light="#fff")
    return HttpResponse(svg.getvalue(), content_type="image/svg+xml")


@require_POST
def sign_out_elsewhere(request: AccountRequest) -> HttpResponse:
    """Sign out everywhere else."""
    ended = sessions.end_sessions(request.user, "asked for", request, but=request.session.session_key)
    done = f"Signed out in {ended} other {'place' if ended == 1 else 'places'}."
    messages.success(request, done if ended else "You are signed in only here.")
    return redirect("ratings:account")


urls: list[URLPattern] = [
    path("account/", show_account, name="account"),
    path("account/confirm/", confirm_password, name="confirm"),
    path("account/second-step/", manage_two_factor, name="second_step"),
    path("account/second-step/qr.svg", show_qr_code, name="second_step_qr"),
    path("account/backup-codes/", renew_backup_codes, name="backup_codes"),
    path("account/backup-codes/file/", download_backup_codes, name="backup_file"),
    path("account/end-sessions/", sign_out_elsewhere, name="end_sessions"),
]
