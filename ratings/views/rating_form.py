"""A rater's answer to one item."""

import uuid
from typing import Any

from django import forms

from ratings.models import Study

_CONFIDENCE_MISSING = "Choose how confident you are, from 1 to 5."


class RatingForm(forms.Form):
    """Verdict and confidence, neither with a default; `submission_id` is made when the form is shown, so that
    sending the same form twice is told from answering twice."""

    verdict = forms.TypedChoiceField(choices=[("yes", "yes"), ("no", "no")], coerce=lambda word: word == "yes")
    confidence = forms.TypedChoiceField(
        choices=[(number, str(number)) for number in range(1, 6)],
        coerce=int,
        error_messages={"required": _CONFIDENCE_MISSING, "invalid_choice": _CONFIDENCE_MISSING},
    )
    submission_id = forms.UUIDField()

    def __init__(self, study: Study, data: Any = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        yes, no = study.answers
        message = f"Choose {yes} or {no}."
        self.fields["verdict"].error_messages = {"required": message, "invalid_choice": message}

    @property
    def next_submission_id(self) -> uuid.UUID:
        """The id to send with the next try: the one sent before, unless that was none or was refused."""
        usable = self.is_bound and not self.non_field_errors()
        return (self.cleaned_data.get("submission_id") if usable else None) or uuid.uuid4()
