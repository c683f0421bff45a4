"""The forms for somebody who joins a study: consent and, once per account, a profile."""

import unicodedata
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from ratings.raters.invitations import JoinForm

DEGREES = [
    (text, text)
    for text in ("Doctorate (PhD, DPhil, MD)", "Master's degree", "Bachelor's degree", "Another degree", "None")
]


def validate_visible_line(text: str) -> None:
    """Raise ValidationError for control characters and characters that change the writing direction.

    Without them, the displayed text is the typed text.
    """
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
        raise ValidationError("Hidden characters are not allowed here. Please type the text again.")


class ProfileForm(forms.Form):
    """Degree, field and years in the laboratory: reported only in aggregate over the raters of a study, never by name."""

    degree = forms.ChoiceField(label="Highest degree in the life sciences", choices=[("", "Choose one"), *DEGREES])
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
