"""The forms of the builder's four steps. Each form edits its own part of a study document, which is validated as a whole."""

import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django import forms
from django.core.files.uploadedfile import UploadedFile

from ratings.protocol import ProtocolError, StudyProtocol, study_protocol
from ratings.protocol.study_protocol import CHOICES, EVIDENCE, FIELD_TEXTS, KINDS, PERTURBATIONS, Choice, Display
from ratings.studies import lifecycle, pool
from simulation.models import Experiment


class ChoiceOption(NamedTuple):
    """One choice with an explanation, for `_study_options.html`."""

    value: str
    name: str
    explanation: str
    chosen: bool


# What a study of evidence records cannot have: its items have one layout and all their steps, and no versions.
_NOT_OF_RECORDS = ("actions", "vetting", "conditions", "washout_days", "layouts", "context")
_DESIGNS_OF_RECORDS = tuple(name for name, design in study_protocol.DESIGNS.items() if not design.has_sessions)


class SourceRow(NamedTuple):
    """One cell of the source table: the number of items requested of this cast and perturbation."""

    cast: str
    perturbation: str
    field: forms.BoundField


def build_field(model: type[StudyProtocol | Display], name: str, **options: Any) -> forms.Field:
    """Return the form field of a field of the document, with its limits, its label and its help text."""
    info = model.model_fields[name]
    text = FIELD_TEXTS.get(name, Choice("", ""))
    named = ((key, part) for part in info.metadata for key in ("ge", "le", "max_length"))
    limits = {key: getattr(part, key) for key, part in named if hasattr(part, key)}
    options = {"label": text.name or None, "help_text": text.explanation, "required": info.is_required(), **options}
    if name in CHOICES:
        options["choices"] = [(value, choice.name) for value, choice in CHOICES[name].items()]
        options["required"] = "" not in CHOICES[name]
        if name in study_protocol.ARMS:
            return forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, **options)
        return forms.ChoiceField(widget=forms.RadioSelect, **options)
    if info.annotation is bool:
        return forms.BooleanField(**options)
    if info.annotation is str:
        rows = options.pop("rows", 0)
        widget = forms.Textarea(attrs={"rows": rows}) if rows else forms.TextInput()
        return forms.CharField(max_length=limits["max_length"], widget=widget, **options)
    return forms.IntegerField(min_value=limits["ge"], max_value=limits["le"], **options)


class StepForm(forms.Form):
    """One step of the builder for a study document. Once valid, `document` contains this step's part.

    Fields of `part` that a form does not declare are made from the fields of the document. Studies of evidence records
    have no fields for options that do not exist for them.
    """

    part: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # for `build_field`, by field
    model: ClassVar[type[StudyProtocol | Display]] = StudyProtocol

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        self.document = dict(document)
        self.is_of_records = document.get("kind") == EVIDENCE
        super().__init__(*args, **{**kwargs, "initial": self.load_values(self.document)})
        for name in self.part:
            if self.is_of_records and name in _NOT_OF_RECORDS:
                self.fields.pop(name, None)
            elif name not in self.fields:
                self.fields[name] = build_field(self.model, name, **self.options.get(name, {}))
        self.order_fields(self.part)

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the initial values of the fields."""
        return {key: document[key] for key in self.part if key in document}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's part of the document; keys with None are left out."""
        return {key: cleaned[key] for key in self.part if key in self.fields}

    def find_field(self, problem: str) -> str | None:
        """Return the name of the field that a problem of the document belongs to, or None."""
        name = problem.partition(":")[0]
        return name if name in self.fields else None

    @property
    def choice_options(self) -> dict[str, list[ChoiceOption]]:
        options = {}
        for name in (name for name in self.fields if name in CHOICES):
            value = self[name].value()
            selected = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
            options[name] = [
                ChoiceOption(key, *choice, key in selected)
                for key, choice in CHOICES[name].items()
                if name != "design" or not self.is_of_records or key in _DESIGNS_OF_RECORDS
            ]
        return options

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            merged = {**self.document, **self.build_part(cleaned)}
            self.document = {key: value for key, value in merged.items() if value is not None}
            # The document is validated as a whole because its parts depend on each other.
            self.add_problems(lifecycle.find_opening_problems(self.document))
        return cleaned

    def add_problems(self, problems: Sequence[str]) -> None:
        """Show each problem of this step's part beside its field. Problems of other steps are shown in those steps."""
        for problem in problems:
            if (field := self.find_field(problem)) is not None:
                self.add_error(field, problem.partition(": ")[2])

    @property
    def protocol(self) -> StudyProtocol:
        return study_protocol.load_protocol(self.document)


class QuestionForm(StepForm):
    """Step 1: the question, and the texts that raters read."""

    part = ("name", "slug", "kind", "question", "guide", "consent", "contact")
    options: ClassVar = {"kind": {"initial": KINDS[0]}, "guide": {"rows": 6}, "consent": {"rows": 4}}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's part. A line break becomes one character, although browsers send two."""
        return {key: value.replace("\r\n", "\n") for key, value in super().build_part(cleaned).items()}


class ItemsForm(StepForm):
    """Step 2: how many items of which sources, from which experiments and actions."""

    part = ("experiments", "actions", "allow_unblinded", "vetting", "seed")
    options: ClassVar = {"seed": {"required": False}}

    experiments = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)
    actions = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        requested_casts = [source["cast"] for source in document["sources"]]
        self._wrongs = ("none",) if document.get("kind") == EVIDENCE else PERTURBATIONS
        # A cast of the document stays in the table even if nothing of it is available any more.
        self._casts = list(dict.fromkeys([*pool.list_stocked_casts(), *requested_casts]))
        super().__init__(*args, document=document, **kwargs)
        self._set_choices("experiments", list(Experiment.objects.values_list("slug", "name")))
        if "actions" in self.fields:
            self._set_choices("actions", [(name, name) for name in lifecycle.list_bench_actions()])
        for cast in self._casts:
            for perturbation in self._wrongs:
                self.fields[_count_name(cast, perturbation)] = forms.IntegerField(
                    min_value=0, max_value=5000, required=False, label=f"Items by {cast}, {perturbation}"
                )

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = choices
        field.help_text = "Select none to use all." if choices else "None has been loaded yet. Run manage.py load_lab."

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        requested = ((source, source.get("perturbation", "none")) for source in document["sources"])
        counts = {_count_name(source["cast"], perturbation): source["count"] for source, perturbation in requested}
        given = {key: document.get(key, "all") for key in ("experiments", "actions")}
        selected = {key: [] if value == "all" else value for key, value in given.items()}
        return {"allow_unblinded": False, "vetting": "rules", **super().load_values(document), **counts, **selected}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        counted = ((row.cast, row.perturbation, cleaned.get(row.field.name)) for row in self.iter_source_rows())
        sources = [{"cast": cast, "perturbation": kind, "count": n} for cast, kind, n in counted if n]
        return {
            **super().build_part(cleaned),
            "sources": sources,
            "experiments": _all_or(cleaned["experiments"], self.fields["experiments"]),
            "actions": "all" if self.is_of_records else _all_or(cleaned["actions"], self.fields["actions"]),
            "seed": secrets.randbelow(2**31) if cleaned["seed"] is None else cleaned["seed"],
        }

    def iter_source_rows(self) -> Iterator[SourceRow]:
        for cast in self._casts:
            for perturbation in self._wrongs:
                yield SourceRow(cast, perturbation, self[_count_name(cast, perturbation)])

    def find_field(self, problem: str) -> str | None:
        name = problem.partition(":")[0]
        # A problem of a source starts with "sources[3].count": the index gives its field.
        if not name.startswith("sources["):
            return super().find_field(problem)
        source = self.document["sources"][int(name[8 : name.index("]")])]
        return _count_name(source["cast"], source["perturbation"])


class RatersForm(StepForm):
    """Step 3: how much each rater rates, practice, and when collection ends."""

    part = (
        "design", "conditions", "washout_days", "ratings_per_item", "raters", "items_per_rater", "lease_minutes", "practice", "repeats",
        "repeat_distance", "stop", "stop_ratings", "deadline", "withdrawal", "feedback", "review",
    )  # fmt: skip
    options: ClassVar = {"practice": {"required": True}}

    repeats = forms.IntegerField(min_value=0, max_value=50, required=False, label=FIELD_TEXTS["repeats"].name, help_text=FIELD_TEXTS["repeats"].explanation)  # fmt: skip
    deadline = forms.DateField(required=False, widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}), help_text=FIELD_TEXTS["deadline"].explanation)  # fmt: skip

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        # Reading the document as a protocol fills in the defaults of keys that it lacks.
        document_values = study_protocol.load_protocol({**document, "sources": []}).to_document()
        values = {"conditions": "", **{key: document_values.get(key) for key in self.part if key in document_values}}
        return {**values, "repeats": round(100 * document_values["repeats"])}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        plain = super().build_part(cleaned)
        # The keys that only a crossover has are None in other designs, which leaves them out.
        is_crossover = study_protocol.DESIGNS[plain["design"]].has_sessions
        return {
            **plain,
            "conditions": (plain.get("conditions") or None) if is_crossover else None,
            "washout_days": plain.get("washout_days") if is_crossover else None,
            "repeats": (cleaned["repeats"] or 0) / 100,
            "deadline": cleaned["deadline"].isoformat() if cleaned["deadline"] else None,
            "stop_ratings": plain["stop_ratings"] if plain["stop"] == "ratings" else None,
        }


class ScreenForm(StepForm):
    """Step 4: what raters see. Several choices of one list are randomised, by rater or by item."""

    part = ("layouts", "context", "marks", "by", "calculator")
    model = Display

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        display = dict(study_protocol.load_protocol({**document, "sources": []}).display)
        return {**display, "context": ["on" if shown else "off" for shown in display["context"]]}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        if self.is_of_records:  # one layout, always with all steps: what was chosen for the other kind is replaced
            return {"display": {**super().build_part(cleaned), "layouts": ["aligned"], "context": [False]}}
        return {"display": {**super().build_part(cleaned), "context": [value == "on" for value in cleaned["context"]]}}

    def find_field(self, problem: str) -> str | None:
        return super().find_field(problem.removeprefix("display."))


class GuideForm(forms.Form):
    """New instructions for an open study."""

    guide = build_field(StudyProtocol, "guide", rows=14, help_text="Shown with the default guide. Every rater sees the new version before their next item.")  # fmt: skip


def blank_document() -> dict[str, Any]:
    """Return the document before the first step is filled in."""
    return {"sources": [], "ratings_per_item": 3, "seed": secrets.randbelow(2**31)}


def _all_or(selected: list[str], field: forms.Field) -> list[str] | str:
    """Return the selected values, or "all" if none or every one is selected."""
    assert isinstance(field, forms.MultipleChoiceField)
    all_choices: Collection[Any] = list(field.choices)  # type: ignore[arg-type]
    # "all" also includes experiments and actions that are added later.
    return selected if 0 < len(selected) < len(all_choices) else "all"


def _count_name(cast: str, perturbation: str) -> str:
    return f"count-{cast}-{perturbation}"


_MAX_DOCUMENT = 200_000  # characters or bytes


class DocumentForm(forms.Form):
    """A study document, pasted or sent as a file. `protocol` contains the study once the form is valid."""

    file = forms.FileField(required=False, max_length=200)
    text = forms.CharField(
        required=False, max_length=_MAX_DOCUMENT, widget=forms.Textarea(attrs={"spellcheck": "false"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.protocol: StudyProtocol | None = None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        uploaded: UploadedFile | None = cleaned.get("file")
        if self.errors:
            return cleaned
        if not (uploaded or cleaned.get("text")):
            raise forms.ValidationError("Choose a file or paste the text of a study document.")
        try:
            if uploaded and (uploaded.size or 0) > _MAX_DOCUMENT:
                raise ValueError(f"the file is longer than {_MAX_DOCUMENT} bytes")
            text = uploaded.read().decode("utf-8") if uploaded else cleaned["text"]
            self.protocol = lifecycle.parse_protocol(json.loads(text))
        except ProtocolError as error:
            self.add_problems(error.problems)
        # Deeply nested JSON raises RecursionError; bytes that are not UTF-8 raise a ValueError.
        except (ValueError, RecursionError) as error:
            self.add_error(
                "file" if uploaded else "text", f"This is not a study document in valid JSON: {str(error)[:200]}"
            )
        return cleaned

    def add_problems(self, problems: Sequence[str]) -> None:
        """Show all problems beside the field that was used."""
        for problem in problems:
            self.add_error("file" if self.files else "text", problem)
