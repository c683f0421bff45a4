"""Sign-in: on its own page with the two-factor code, and inside a page whose session has expired."""

import math
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.core.validators import MaxLengthValidator
from django.forms import CharField, EmailField, Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe
from django_otp.models import Device

from ratings.accounts import login_throttling, signing_in, two_factor
from ratings.accounts.two_factor import CodeResult
from ratings.raters import email_messages
from ratings.studies import access
from wetbench_site.middleware.write_limit import too_many_requests
from wetbench_site.observability.logs import log_security_event


class AddressForm(Form):
    """The address for a new link."""

    email = EmailField(label="E-mail address", max_length=254)
    email.widget.attrs["autocomplete"] = "email"


class SignInForm(AuthenticationForm):
    """Django's form, with labels for what it accepts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name or e-mail address"
        # Hashing a very long password would take the server's time.
        self.fields["password"].validators.append(MaxLengthValidator(signing_in.MAX_LENGTH))

    def get_invalid_login_error(self) -> Any:
        assert self.request is not None  # both views pass it
        # Log the name under which failures are counted, never the typed text, which may be a password.
        log_security_event("sign-in failed", self.request, name=login_throttling.get_attempted_name(self.request))
        return super().get_invalid_login_error()


class CodeForm(Form):
    """A code of the app or a backup code, for the user who has given the password."""

    code = CharField(label="Code", max_length=40, help_text="Six digits from your authenticator app, or a backup code.")
    code.widget.attrs |= {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}

    def check_code(self, request: HttpRequest, user: User) -> Device | None:
        """Return the device that accepted the code; None, with an error in the form, if none did."""
        return self.handle_result(request, user, two_factor.check_code(user, self.cleaned_data["code"]))

    def handle_result(self, request: HttpRequest, user: User, checked: CodeResult) -> Device | None:
        """Return the device that accepted the code. If none did, add an error to the form and log the failure."""
        if checked.device is None:
            log_security_event("second step failed", request, user=user.pk, wait=checked.wait)
            wait = f"Too many wrong codes. Wait {checked.wait} s, then try again." if checked.wait else ""
            self.add_error("code", wait or "The code is incorrect. Wait for the next one and try again.")
        return checked.device


class SignIn(LoginView):
    """The sign-in page."""

    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Add whether nobody has ever signed in: only then the page explains how the first account gets in."""
        is_new_site = not User.objects.filter(last_login__isnull=False).exists()
        return super().get_context_data(is_new_site=is_new_site, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        next_url = self.get_success_url()
        # With a second factor, the next page asks for the code before the session is signed in.
        entered = signing_in.sign_in(self.request, form.get_user(), next_url)
        return HttpResponseRedirect(next_url if entered else reverse("ratings:sign_in_code"))


@login_not_required
@sensitive_post_parameters("code")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def enter_code(request: HttpRequest) -> HttpResponse:
    """Ask for the two-factor code after a correct password. Redirect everybody else to the first page."""
    user = signing_in.find_user_awaiting_code(request)
    if user is None:
        # No sign-in of this session is waiting for a code, for example because ten minutes have passed.
        return redirect("home" if request.user.is_authenticated else "login")
    form = CodeForm(request.POST if request.method == "POST" else None)
    if form.is_valid() and (device := form.check_code(request, user)):
        return redirect(signing_in.finish_sign_in(request, user, device))
    return render(request, "registration/code.html", {"form": form}, status=422 if form.errors else 200)


@login_not_required
@sensitive_post_parameters("password", "code")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_dialog(request: HttpRequest) -> HttpResponse:
    """Answer the sign-in dialog: 204 once signed in, so that the page continues; 422 with the form if not."""
    # The code belongs to the sign-in that is waiting in this session, whatever else the form sends.
    if "code" in request.POST and (user := signing_in.find_user_awaiting_code(request)):
        code_form = CodeForm(request.POST)
        if code_form.is_valid() and (device := code_form.check_code(request, user)):
            signing_in.finish_sign_in(request, user, device)
            return HttpResponse(status=204)
        return render(request, "registration/_code_here.html", {"form": code_form}, status=422)
    form = SignInForm(request, request.POST if "username" in request.POST else None)
    if request.method == "POST" and form.is_valid():
        if signing_in.sign_in(request, form.get_user(), reverse("home")):
            # 204: the page behind the dialog stays as it is, with the rater's unsaved answer.
            return HttpResponse(status=204)
        return render(request, "registration/_code_here.html", {"form": CodeForm()}, status=422)
    status = 422 if request.method == "POST" else 200
    return render(request, "registration/_sign_in_here.html", {"form": form}, status=status)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def send_link(request: HttpRequest) -> HttpResponse:
    """E-mail a link that signs in again. The response is the same whether or not the address exists."""
    form = AddressForm(request.POST or None)
    sent = request.method == "POST" and form.is_valid()
    if sent and (seconds := login_throttling.count_link_request(request)):
        return too_many_requests(request, math.ceil(seconds), "links")
    status = 422 if form.errors else 200
    response = render(request, "registration/mail_link.html", {"form": form, "sent": sent}, status=status)
    if sent:
        # After the response: the database is not read before, so its time and its statements do not depend on the address.
        address = form.cleaned_data["email"]
        response._resource_closers.append(lambda: email_messages.send_link_to_address(address, request))  # type: ignore[attr-defined]
    return response


@login_not_required
@require_safe
def redirect_home(request: HttpRequest) -> HttpResponse:
    """Redirect staff and members to the start page, raters to their own, others to the sign-in page."""
    if not request.user.is_authenticated:
        return redirect("login")
    # The start page of a person who rates in one study and is a member of another also leads to the rating.
    if request.user.is_staff or access.list_studies(request.user).exists():
        return redirect("ratings:start")
    if access.list_raters(request.user).exists():
        return redirect("ratings:desk")
    return render(request, "ratings/no_study.html")


urls: list[URLPattern] = [
    path("login/code/", enter_code, name="sign_in_code"),
    path("sign-in-here/", sign_in_dialog, name="sign_in_here"),
    path("send-me-a-link/", send_link, name="mail_link"),
]


urlpatterns: list[URLPattern] = [
    path("", redirect_home, name="home"),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
