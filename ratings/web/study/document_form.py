"""A study document sent as a file or pasted."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from ratings.protocol import ProtocolError, StudyProtocol
from ratings.studies import lifecycle

_MAX_DOCUMENT = 200_000


class DocumentForm(forms.Form):
    """A study as a document, pasted or sent as a file. `protocol` holds it once the form is valid."""

    file = forms.FileField(required=False, label="File", max_length=200)
    text = forms.CharField(
        required=False,
        label="Text",
        max_length=_MAX_DOCUMENT,
        widget=forms.Textarea(attrs={"spellcheck": "false"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.protocol: StudyProtocol | None = None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        place = "file" if cleaned.get("file") else "text"
        if self.errors:
            return cleaned
        if not (cleaned.get("file") or cleaned.get("text")):
            raise forms.ValidationError("Choose a file or paste its text.")
        try:
            self.protocol = lifecycle.read_protocol(json.loads(_written(cleaned)))
        except ProtocolError as error:
            self.add_problems(error.problems)
        except (ValueError, RecursionError) as error:
            self.add_error(place, f"This is not a study document in JSON: {str(error)[:200]}")
        return cleaned

    def add_problems(self, problems: Sequence[str]) -> None:
        """Put all problems beside what they were sent in."""
        for problem in problems:
            self.add_error("file" if self.files else "text", problem)


def _written(cleaned: Mapping[str, Any]) -> str:
    sent = cleaned.get("file")
    if not isinstance(sent, UploadedFile):
        return cleaned.get("text") or ""
    if sent.size is None or sent.size > _MAX_DOCUMENT:
        raise ValueError(f"the file is longer than {_MAX_DOCUMENT} bytes")
    content: bytes = sent.read()
    return content.decode("utf-8")
