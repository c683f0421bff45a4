"""A user's own API tokens: create, list, revoke. A token is shown once, in the response that creates it."""

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

from ratings.accounts import require_recent_for_post, two_factor
from ratings.api import tokens
from ratings.api.tokens import LABORATORY_SCOPES, SCOPE_DESCRIPTIONS, TokenError
from ratings.models import Study
from ratings.studies import access
from ratings.web.decorators import StudyRequest, staff_or_member
from wetbench_site.middleware.two_factor import redirect_to_setup
from wetbench_site.observability.logs import log_security_event


class TokenForm(forms.Form):
    """The token's name, scopes and lifetime. Scopes of the laboratory are offered to staff only."""

    # Generated with the form, so that submitting it twice creates one token.
    code = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)
    name = forms.CharField(
        max_length=60, help_text="For example the notebook or machine that will use it.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )  # fmt: skip
    scopes = forms.MultipleChoiceField(label="What it may read", widget=forms.CheckboxSelectMultiple)
    studies = forms.ModelMultipleChoiceField(
        Study.objects.none(), label="Only these studies", to_field_name="slug", required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Select none for all studies in which you have a role, including future ones.",
    )  # fmt: skip
    days = forms.IntegerField(
        label="Days until it expires", min_value=1, max_value=tokens.MAX_DAYS, initial=tokens.DEFAULT_DAYS
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        # Scopes of the laboratory would show sources, which only staff may read.
        scope_names = [name for name in SCOPE_DESCRIPTIONS if user.is_staff or name not in LABORATORY_SCOPES]
        self.fields["scopes"].choices = [(name, f"{name}: {SCOPE_DESCRIPTIONS[name]}") for name in scope_names]  # type: ignore[attr-defined]
        self.fields["studies"].queryset = access.list_studies(user)  # type: ignore[attr-defined]

    def create_token(self) -> str:
        """Return the text of the new token; "" with errors in the form if it cannot be created."""
        values = self.cleaned_data
        limits = values["days"], list(values["studies"]) or None
        try:
            return tokens.create_token(self.user, values["name"], values["scopes"], *limits, values["code"])[1]
        except TokenError as error:
            self.add_error(None, str(error))
            return ""


@staff_or_member
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_recent_for_post
def list_tokens(request: StudyRequest) -> HttpResponseBase:
    """Show the user's tokens and the form for a new one. Study admins may need two-factor authentication first."""
    role = "admin" if request.user.memberships.filter(role="admin").exists() else ""
    if two_factor.is_missing(request, role):
        return redirect_to_setup(request, "ratings:tokens")
    form, new_token = TokenForm(request.user, request.POST if request.method == "POST" else None), ""
    if form.is_valid() and (new_token := form.create_token()):
        log_security_event("api token made", request, token=str(form.cleaned_data["code"]))
        # A fresh form: the code of the old one is used, so it could not create another token.
        form = TokenForm(request.user)
    context = {
        "form": form,
        "made": new_token,
        "tokens": tokens.list_tokens(request.user),
        "most": tokens.MAX_ACTIVE_TOKENS,
    }
    return render(request, "ratings/tokens.html", context, status=422 if form.errors else 200)


@staff_or_member
@require_POST
def revoke_token(request: StudyRequest, code: uuid.UUID) -> HttpResponse:
    """Revoke a token immediately and permanently. No password is required, because an exposed token must be revoked without delay."""
    # Only own tokens are found, so another person's code is a 404 like an unknown one.
    token = get_object_or_404(tokens.list_tokens(request.user), code=code)
    if tokens.revoke_token(token):
        log_security_event("api token revoked", request, token=str(code))
        messages.success(request, f"{token.name} has been revoked and no longer works.")
    return redirect("ratings:tokens")


urls: list[URLPattern] = [
    path("account/tokens/", list_tokens, name="tokens"),
    path("account/tokens/<uuid:code>/revoke/", revoke_token, name="revoke_token"),
]
