"""The form for a study document, pasted or sent as a file."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from ratings.protocol import ProtocolError, StudyProtocol
from ratings.studies import lifecycle

_MAX_DOCUMENT = 200_000  # characters or bytes


class DocumentForm(forms.Form):
    """A study document, pasted or sent as a file. `protocol` contains the study once the form is valid."""

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
        field = "file" if cleaned.get("file") else "text"
        if self.errors:
            return cleaned
        if not (cleaned.get("file") or cleaned.get("text")):
            raise forms.ValidationError("Choose a file or paste the text of a study document.")
        try:
            self.protocol = lifecycle.parse_protocol(json.loads(_read_document_text(cleaned)))
        except ProtocolError as error:
            self.add_problems(error.problems)
        # Deeply nested JSON raises RecursionError; bytes that are not UTF-8 raise a ValueError.
        except (ValueError, RecursionError) as error:
            self.add_error(field, f"This is not a study document in valid JSON: {str(error)[:200]}")
        return cleaned

    def add_problems(self, problems: Sequence[str]) -> None:
        """Show all problems beside the field that was used."""
        for problem in problems:
            self.add_error("file" if self.files else "text", problem)


def _read_document_text(cleaned: Mapping[str, Any]) -> str:
    uploaded = cleaned.get("file")
    if not isinstance(uploaded, UploadedFile):
        return cleaned.get("text") or ""
    if uploaded.size is None or uploaded.size > _MAX_DOCUMENT:
        raise ValueError(f"the file is longer than {_MAX_DOCUMENT} bytes")
    content: bytes = uploaded.read()
    return content.decode("utf-8")
