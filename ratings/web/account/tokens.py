"""One's own API tokens: made, looked at, revoked. A token is shown once, by the answer to the form that made it."""

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ratings.accounts import fresh_to_change, second_step
from ratings.api import tokens
from ratings.api.scopes import LABORATORY, SCOPES
from ratings.api.tokens import TokenError
from ratings.models import Study
from ratings.studies import access
from ratings.web.guards import StudyRequest, staff_or_member
from wetbench_site.middleware.second_step_first import led
from wetbench_site.observability.audit_log import security_event


class TokenForm(forms.Form):
    """What the token is for, what it may read and how long. Scopes of the laboratory are offered to staff alone."""

    code = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)
    name = forms.CharField(
        max_length=60,
        strip=True,
        help_text="What it is for, for example the notebook or the machine that will hold it.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(label="What it may read", widget=forms.CheckboxSelectMultiple)
    studies = forms.ModelMultipleChoiceField(
        Study.objects.none(),
        label="Only these studies",
        to_field_name="slug",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Choose none for every study you have a role in, those to come included.",
    )
    days = forms.IntegerField(
        label="Days until it expires", min_value=1, max_value=tokens.MOST_DAYS, initial=tokens.DAYS
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        own = [name for name in SCOPES if user.is_staff or name not in LABORATORY]
        self.fields["scopes"].choices = [(name, f"{name}: {SCOPES[name]}") for name in own]  # type: ignore[attr-defined]
        self.fields["studies"].queryset = access.studies_of(user)  # type: ignore[attr-defined]

    def make(self) -> str:
        """The text of the new token; "" with the form's errors if there is none."""
        said = self.cleaned_data
        limit = list(said["studies"]) or None
        try:
            return tokens.make(self.user, said["name"], said["scopes"], said["days"], limit, said["code"])[1]
        except TokenError as error:
            self.add_error(None, str(error))
            return ""


@staff_or_member
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@fresh_to_change
def own_tokens(request: StudyRequest) -> HttpResponseBase:
    """Those there are, and the form for another. An admin of any study takes the second step first, where one must."""
    role = "admin" if request.user.memberships.filter(role="admin").exists() else ""
    if second_step.is_missing(request, role):
        return led(request, "ratings:tokens")
    form, made = TokenForm(request.user, request.POST if request.method == "POST" else None), ""
    if form.is_valid() and (made := form.make()):
        security_event("api token made", request, token=str(form.cleaned_data["code"]))
        form = TokenForm(request.user)
    context = {"form": form, "made": made, "tokens": tokens.of(request.user), "most": tokens.MOST_LIVE}
    return render(request, "ratings/tokens.html", context, status=422 if form.errors else 200)


@staff_or_member
@require_POST
def revoke_token(request: StudyRequest, code: uuid.UUID) -> HttpResponse:
    """At once and for good. No password is asked for: whoever sees a token in the wrong place should lose no time."""
    token = get_object_or_404(tokens.of(request.user), code=code)
    if tokens.revoke(token):
        security_event("api token revoked", request, token=str(code))
        messages.success(request, f"{token.name} is revoked: nothing can be read with it any more.")
    return redirect("ratings:tokens")


urls: list[URLPattern] = [
    path("account/tokens/", own_tokens, name="tokens"),
    path("account/tokens/<uuid:code>/revoke/", revoke_token, name="revoke_token"),
]
