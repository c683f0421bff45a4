"""A rater's profile and preferences, and erasure of personal data."""

import unicodedata
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from ratings.models import RaterProfile
from ratings.raters import erasure
from ratings.raters.invitations import JoinForm
from ratings.studies import StudyError, access
from ratings.web.account.account import ChangeForm, FirstForm, change_password, make_password_form
from ratings.web.decorators import RaterRequest, rater_page, redirect_after_post

DEGREES = ("Doctorate (PhD, DPhil, MD)", "Master's degree", "Bachelor's degree", "Another degree", "None")


def validate_visible_line(text: str) -> None:
    """Raise ValidationError for characters that control or redirect text: what is displayed is then what was typed."""
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
        raise ValidationError("Hidden characters are not allowed here. Please type the text again.")


class ProfileForm(forms.Form):
    """Degree, field and years in the laboratory: reported only in aggregate over the raters of a study, never by name."""

    degree = forms.ChoiceField(
        label="Highest degree in the life sciences",
        choices=[("", "Choose one"), *((degree, degree) for degree in DEGREES)],
    )
    field = forms.CharField(
        label="Field you know best", max_length=120, validators=[validate_visible_line],
        help_text="For example cell biology or analytical chemistry.",
    )  # fmt: skip
    years = forms.IntegerField(label="Years of laboratory experience", min_value=0, max_value=80)
    years.widget.attrs["inputmode"] = "numeric"

    def get_profile_columns(self) -> dict[str, str | int | None]:
        """Return the columns of RaterProfile, and nothing else of the posted data."""
        return {name: self.cleaned_data[name] for name in ("degree", "field", "years")}


class ConsentForm(forms.Form):
    """The consent checkbox, and an optional password for accounts without one."""

    consent = forms.BooleanField(
        label="I have read this and agree to take part.", error_messages={"required": "Tick the box to take part."}
    )
    password = forms.CharField(
        label="Password", required=False, max_length=128, strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip

    def __init__(self, *args: Any, user: User | None, name: str, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Only for the password check: validators compare the password with the name and the address.
        self._new = User(username=name, email=email)
        # A link must not be able to replace a password that exists.
        if user is not None and user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        if password:
            validate_password(password, self._new)
        return password

    def build_joining(self, profile: ProfileForm | None) -> JoinForm:
        return JoinForm(self.cleaned_data.get("password", ""), profile.get_profile_columns() if profile else None)


@rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def show_profile(request: RaterRequest) -> HttpResponse:
    """Show one page with three forms: about you, password, erasure. `save` names the submitted one."""
    sent = request.POST.get("save", "") if request.method == "POST" else ""
    about = _make_about_form(request.user, request.POST if sent == "about" else None)
    password = make_password_form(request, request.POST if sent == "password" else None)
    for name, form in (("about", about), ("password", password)):
        # Only the submitted form is bound, so the others show no errors.
        if sent == name and form.is_valid():
            return _save_form(request, form)
    return _render_profile(request, about, password, 422 if request.method == "POST" else 200)


def _save_form(request: RaterRequest, form: forms.Form) -> HttpResponse:
    if isinstance(form, ProfileForm):
        values = {**form.get_profile_columns(), "answered_at": timezone.now()}
        # The profile is asked for once; saving it here answers it as well.
        RaterProfile.objects.update_or_create(user=request.user, defaults=values)
        messages.success(request, "Profile saved.")
    elif isinstance(form, ChangeForm | FirstForm):
        change_password(request, form)
        messages.success(request, "Password saved.")
    return redirect_after_post("ratings:profile")


@rater_page
@require_POST
def set_single_keys(request: RaterRequest) -> HttpResponse:
    """Turn single-letter keys on or off for this person, in every browser."""
    enabled = request.POST.get("single_keys") == "on"
    RaterProfile.objects.update_or_create(user=request.user, defaults={"single_keys": enabled})
    if request.POST.get("from") != "profile":
        # The keys are switched by a script on the rating page, which needs no new page.
        return HttpResponse(status=204)
    messages.success(request, f"Single-letter keys are {'on' if enabled else 'off'}.")
    return redirect_after_post("ratings:profile")


@rater_page
@require_POST
def erase_account(request: RaterRequest) -> HttpResponse:
    """Erase everything that identifies this person; codes and answers remain. A checkbox confirms it."""
    # A checkbox instead of a browser dialog, because it also works without scripts.
    if request.POST.get("sure") != "on":
        return _render_profile(request, _make_about_form(request.user), make_password_form(request), 422, unsure=True)
    try:
        erasure.erase_person(request.user, by=request.user)
    except StudyError as error:
        messages.error(request, str(error))
        return redirect_after_post("ratings:profile")
    # The account can no longer sign in; the session in this browser ends with it.
    logout(request)
    messages.success(request, "Your personal data has been erased. Your answers remain under their codes.")
    return redirect_after_post("login")


def _render_profile(
    request: RaterRequest, about: forms.Form, password: forms.Form, status: int, **more: bool
) -> HttpResponse:
    stored = RaterProfile.objects.filter(user=request.user).first()
    context = {
        "about": about,
        "password": password,
        "single_keys": stored is None or stored.single_keys,
        "raters": access.list_raters(request.user).order_by("-study__opened_at", "-pk"),
        **more,
    }
    return render(request, "ratings/profile.html", context, status=status)


def _make_about_form(user: User, data: Any = None) -> ProfileForm:
    profile = RaterProfile.objects.filter(user=user).first() or RaterProfile()
    return ProfileForm(data, initial={"degree": profile.degree, "field": profile.field, "years": profile.years})


urls: list[URLPattern] = [
    path("rate/profile/", show_profile, name="profile"),
    path("rate/profile/erase/", erase_account, name="erase"),
    path("rate/keys/", set_single_keys, name="keys"),
]
