"""Signing in: on its own page, and inside a page whose session has ended."""

from typing import Any

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.core.validators import validate_email
from django.forms import EmailField, Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from ratings import renewing, signing_in


class AddressForm(Form):
    """Where a new link is to go."""

    email = EmailField(label="E-mail address", max_length=254, validators=[validate_email])
    email.widget.attrs["autocomplete"] = "email"


class SignInForm(AuthenticationForm):
    """Django's own, named for what it takes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name or e-mail address"


@login_not_required
@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_here(request: HttpRequest) -> HttpResponse:
    """A fragment for a dialog. 204 once signed in: the page goes on with what it was doing; 422 with the form if not."""
    form = SignInForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        login(request, form.get_user())
        return HttpResponse(status=204)
    status = 422 if request.method == "POST" else 200
    return render(request, "registration/_sign_in_here.html", {"form": form}, status=status)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def mail_link(request: HttpRequest) -> HttpResponse:
    """A link that signs in again, by e-mail. The answer is the same whether or not anybody has that address."""
    form = AddressForm(request.POST or None)
    sent = request.method == "POST" and form.is_valid()
    if sent and (user := signing_in.by_email(form.cleaned_data["email"])):
        renewing.send_way_back(user, request)
    status = 422 if form.errors else 200
    return render(request, "registration/mail_link.html", {"form": form, "sent": sent}, status=status)


urls: list[URLPattern] = [
    path("sign-in-here/", sign_in_here, name="sign_in_here"),
    path("send-me-a-link/", mail_link, name="mail_link"),
]
