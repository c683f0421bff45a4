"""The form of a study document. It writes the same document that a file would hold."""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django import forms
from django.core.files.uploadedfile import UploadedFile

from ratings import pool, studies
from ratings.protocols import ProtocolError, StudyProtocol
from simulation.models import PERTURBATIONS, Experiment

_MAX_DOCUMENT = 200_000


class SourceRow(NamedTuple):
    """One line of the source table: how many items of this cast and perturbation are wanted."""

    cast: str
    perturbation: str
    field: forms.BoundField


class StudyForm(forms.Form):
    """A study by hand. `protocol` holds the checked document once the form is valid."""

    name = forms.CharField(max_length=120, help_text="Raters see it: let it name no source.")
    slug = forms.CharField(
        max_length=80, required=False, label="Short name", help_text="For the address. Empty: made from the name."
    )
    kind = forms.ChoiceField(
        choices=[
            ("transition_plausibility", "Transition plausibility: is this outcome plausible?"),
            ("evidence_sufficiency", "Evidence sufficiency: does the record suffice for the goal?"),
        ],
        widget=forms.RadioSelect,
        initial="transition_plausibility",
    )
    question = forms.CharField(max_length=300, required=False, help_text="Empty: the standing question of the kind.")
    experiments = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, error_messages={"required": "Choose at least one experiment."}
    )
    ratings_per_item = forms.IntegerField(min_value=1, max_value=50, initial=3, help_text="1 to 50.")
    raters = forms.IntegerField(
        min_value=1, max_value=200, required=False, help_text="1 to 200. Empty: as few as will do."
    )
    seed = forms.IntegerField(
        min_value=0, max_value=2**53, required=False, help_text="Draws items and orders. Empty: one is drawn."
    )
    guide = forms.CharField(
        max_length=5000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        label="Instructions of your own",
        help_text="Shown to raters with the standing ones.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.protocol: StudyProtocol | None = None
        experiments = list(Experiment.objects.values_list("slug", "name"))
        self._known = [slug for slug, _ in experiments]
        field = self.fields["experiments"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = experiments
        field.initial = self._known
        field.help_text = "" if experiments else "None is loaded yet: run python manage.py load_lab."
        self._casts = pool.stocked_casts()
        for cast in self._casts:
            for perturbation, _ in PERTURBATIONS:
                self.fields[_count_name(cast, str(perturbation))] = _count_field(cast, str(perturbation))

    def source_rows(self) -> Iterator[SourceRow]:
        for cast in self._casts:
            for perturbation, _ in PERTURBATIONS:
                yield SourceRow(cast, str(perturbation), self[_count_name(cast, str(perturbation))])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                self.protocol = studies.read_protocol(self._document(cleaned))
            except ProtocolError as error:
                self.add_problems(error.problems)
        return cleaned

    def _document(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """The document as a file would hold it; a source of which none is wanted is left out."""
        chosen = cleaned["experiments"]
        document = {
            "name": cleaned["name"],
            "slug": cleaned["slug"],
            "kind": cleaned["kind"],
            "question": cleaned["question"],
            "sources": self._sources(cleaned),
            "experiments": "all" if set(chosen) == set(self._known) else chosen,
            "ratings_per_item": cleaned["ratings_per_item"],
            "raters": cleaned["raters"],
            "seed": secrets.randbelow(2**31) if cleaned["seed"] is None else cleaned["seed"],
            "guide": cleaned["guide"],
        }
        return {key: value for key, value in document.items() if value not in ("", None)}

    def _sources(self, cleaned: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows = [(row, cleaned.get(row.field.name)) for row in self.source_rows()]
        return [{"cast": row.cast, "perturbation": row.perturbation, "count": n} for row, n in rows if n]

    def add_problems(self, problems: Sequence[str]) -> None:
        """Put each problem of the document beside the field it names."""
        wanted = [row.field.name for row in self.source_rows() if self.cleaned_data.get(row.field.name)]
        for problem in problems:
            place, _, said = problem.partition(": ")
            if place.startswith("sources["):
                self.add_error(wanted[int(place[8 : place.index("]")])], said)
            elif place == "sources":
                self.add_error(None, "Say how many items you want of at least one source.")
            else:
                self.add_error(*((place, said) if place in self.fields else (None, problem)))


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
            self.protocol = studies.read_protocol(json.loads(_written(cleaned)))
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


def _count_name(cast: str, perturbation: str) -> str:
    return f"count-{cast}-{perturbation}"


def _count_field(cast: str, perturbation: str) -> forms.IntegerField:
    return forms.IntegerField(min_value=0, max_value=5000, required=False, label=f"Items by {cast}, {perturbation}")
