"""Forms for a new password: with the current one or, without one, after a recent sign-in link."""

from typing import Any

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ratings.accounts import reauthentication, sessions
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
        if not reauthentication.is_recent(self.request):
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
