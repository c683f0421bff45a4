"""What is asked of somebody who takes a seat: consent, and once in a life who they are."""

import unicodedata
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from ratings.raters.joining import Joining

DEGREES = [
    (text, text)
    for text in ("Doctorate (PhD, DPhil, MD)", "Master's degree", "Bachelor's degree", "Another degree", "None")
]


def one_visible_line(text: str) -> None:
    """No control characters, and none that turn the direction of writing: what is shown is what was typed."""
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
        raise ValidationError("Hidden characters are not allowed here; please type it anew.")


class ProfileForm(forms.Form):
    """Degree, field and years in the laboratory: told to the study as numbers over all its raters, never by name."""

    degree = forms.ChoiceField(label="Highest degree in the life sciences", choices=[("", "Choose one"), *DEGREES])
    field = forms.CharField(
        label="Field you know best", max_length=120, validators=[one_visible_line],
        help_text="For example cell biology or analytical chemistry.",
    )  # fmt: skip
    years = forms.IntegerField(label="Years of laboratory experience", min_value=0, max_value=80)
    years.widget.attrs["inputmode"] = "numeric"

    def profile(self) -> dict[str, str | int | None]:
        """Columns of RaterProfile; nothing else of what was posted."""
        return {name: self.cleaned_data[name] for name in ("degree", "field", "years")}


class ConsentForm(forms.Form):
    """The tick, and a password for those who have none and want one."""

    consent = forms.BooleanField(
        label="I have read this and agree to take part.", error_messages={"required": "Tick the box to take part."}
    )
    password = forms.CharField(
        label="Password", required=False, max_length=128, strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip

    def __init__(self, *args: Any, user: User | None, name: str, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._new = User(username=name, email=email)
        if user is not None and user.has_usable_password():
            del self.fields["password"]

    def clean_password(self) -> str:
        password = str(self.cleaned_data["password"])
        if password:
            validate_password(password, self._new)
        return password

    def joining(self, profile: ProfileForm | None) -> Joining:
        return Joining(self.cleaned_data.get("password", ""), profile.profile() if profile else None)
