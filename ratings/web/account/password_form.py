"""A new password: with the one there is, or, for who has none, after a sign-in link opened just now."""

from typing import Any

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ratings.accounts import reauth, sessions
from wetbench_site.observability.audit_log import security_event

STALE = "It is a while since you came in. Open a new sign-in link, then set your password within 15 minutes."


class ChangeForm(PasswordChangeForm):
    """Django's own; wrong passwords count as they do on the sign-in page."""

    request: HttpRequest

    def clean_old_password(self) -> str:
        password = str(self.cleaned_data["old_password"])
        if not reauth.confirmed(self.request, password):
            raise ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return password


class FirstForm(SetPasswordForm):  # type: ignore[type-arg]  # not subscriptable as it runs
    """For who has none: a session that was found open may not be given one."""

    request: HttpRequest

    def clean(self) -> Any:
        if not reauth.is_fresh(self.request):
            raise ValidationError(STALE)
        return super().clean()


def password_form(request: HttpRequest, data: Any = None) -> ChangeForm | FirstForm:
    """The form for whoever is signed in."""
    user = request.user
    assert isinstance(user, User)
    form = ChangeForm(user, data) if user.has_usable_password() else FirstForm(user, data)
    form.request = request
    for field in form.fields.values():
        field.widget.attrs.pop("autofocus", None)  # it is one form of several on its page
    form.fields["new_password1"].help_text = "At least 12 characters: not your name, and none that everybody uses."
    form.fields["new_password2"].label, form.fields["new_password2"].help_text = "The same again", ""
    return form


def change(request: HttpRequest, form: ChangeForm | FirstForm) -> None:
    """The new password holds; every other session of theirs is over."""
    user = form.save()
    update_session_auth_hash(request, user)
    reauth.stamp(request)
    sessions.end_all(user, "password changed", request, but=request.session.session_key)
    security_event("password changed", request, user=user.pk)
