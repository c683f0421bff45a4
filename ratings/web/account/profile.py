"""A rater's profile and preferences, and erasure of personal data."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from ratings.models import RaterProfile
from ratings.raters import erasing
from ratings.studies import StudyError, access
from ratings.web.account.password_form import ChangeForm, FirstForm, change, password_form
from ratings.web.guards import RaterRequest, rater_page
from ratings.web.rater.consent_form import ProfileForm


@rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: RaterRequest) -> HttpResponse:
    """Show one page with three forms: about you, password, erasure. `save` names the submitted one."""
    sent = request.POST.get("save", "") if request.method == "POST" else ""
    about = _about_form(request.user, request.POST if sent == "about" else None)
    password = password_form(request, request.POST if sent == "password" else None)
    for name, form in (("about", about), ("password", password)):
        # Only the submitted form is bound, so the others show no errors.
        if sent == name and form.is_valid():
            return _saved(request, form)
    return _shown(request, about, password, 422 if request.method == "POST" else 200)


def _saved(request: RaterRequest, form: forms.Form) -> HttpResponse:
    if isinstance(form, ProfileForm):
        values = {**form.profile(), "answered_at": timezone.now()}
        # The profile is asked for once; saving it here answers it as well.
        RaterProfile.objects.update_or_create(user=request.user, defaults=values)
        messages.success(request, "Profile saved.")
    elif isinstance(form, ChangeForm | FirstForm):
        change(request, form)
        messages.success(request, "Password saved.")
    return _back()


@rater_page
@require_POST
def keys(request: RaterRequest) -> HttpResponse:
    """Turn single-letter keys on or off for this person, in every browser."""
    enabled = request.POST.get("single_keys") == "on"
    RaterProfile.objects.update_or_create(user=request.user, defaults={"single_keys": enabled})
    if request.POST.get("from") != "profile":
        # The keys are switched by a script on the rating page, which needs no new page.
        return HttpResponse(status=204)
    messages.success(request, f"Single-letter keys are {'on' if enabled else 'off'}.")
    return _back()


@rater_page
@require_POST
def erase(request: RaterRequest) -> HttpResponse:
    """Erase everything that identifies this person; codes and answers remain. A tick confirms it."""
    # A tick instead of a question of the browser, because it also works without scripts.
    if request.POST.get("sure") != "on":
        return _shown(request, _about_form(request.user), password_form(request), 422, unsure=True)
    try:
        erasing.erase(request.user, by=request.user)
    except StudyError as error:
        messages.error(request, str(error))
        return _back()
    # The account can no longer sign in; the session in this browser ends with it.
    logout(request)
    messages.success(request, "Your personal data has been erased. Your answers remain under their codes.")
    response = redirect("login")
    # 303: the browser fetches the next page with GET and does not submit the form again.
    response.status_code = 303
    return response


def _shown(request: RaterRequest, about: forms.Form, password: forms.Form, status: int, **more: bool) -> HttpResponse:
    stored = RaterProfile.objects.filter(user=request.user).first()
    context = {
        "about": about,
        "password": password,
        "single_keys": stored is None or stored.single_keys,
        "seats": access.seats_of(request.user).order_by("-study__opened_at", "-pk"),
        **more,
    }
    return render(request, "ratings/profile.html", context, status=status)


def _about_form(user: User, data: Any = None) -> ProfileForm:
    profile = RaterProfile.objects.filter(user=user).first() or RaterProfile()
    return ProfileForm(data, initial={"degree": profile.degree, "field": profile.field, "years": profile.years})


def _back() -> HttpResponse:
    response = redirect("ratings:profile")
    response.status_code = 303
    return response


urls: list[URLPattern] = [
    path("rate/profile/", profile, name="profile"),
    path("rate/profile/erase/", erase, name="erase"),
    path("rate/keys/", keys, name="keys"),
]
