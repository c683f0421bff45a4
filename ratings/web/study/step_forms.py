"""The forms of the builder's four steps. Each form edits its own part of a study document, which is validated as a whole."""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django import forms

from ratings.protocol import StudyProtocol, study_protocol
from ratings.protocol.choices import CHOICES
from ratings.protocol.document_errors import (  # fmt: skip
    CONDITIONS,
    DESIGNS,
    EVIDENCE,
    KINDS,
    LAYOUTS,
    LIMITS,
    MARKS,
    MAX_LENGTHS,
    MAX_REPEATS,
    PERTURBATIONS,
    STOPS,
)
from ratings.studies import lifecycle
from ratings.studies.pool import pool
from simulation.models import Experiment


class ChoiceOption(NamedTuple):
    """One choice with an explanation, for `_study_options.html`."""

    value: str
    name: str
    explanation: str
    chosen: bool


class SourceRow(NamedTuple):
    """One cell of the source table: the number of items requested of this cast and perturbation."""

    cast: str
    perturbation: str
    field: forms.BoundField


def _choice_field(key: str, values: Sequence[str], multiple: bool = False, **kwargs: Any) -> forms.ChoiceField:
    choices = [(value, CHOICES[key][value].name) for value in values]
    if multiple:
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **kwargs)
    return forms.ChoiceField(choices=choices, widget=forms.RadioSelect, **kwargs)


def _integer_field(key: str, **kwargs: Any) -> forms.IntegerField:
    low, high = LIMITS[key]
    return forms.IntegerField(min_value=low, max_value=high, **kwargs)


def _text_field(key: str, rows: int = 0, **kwargs: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows}) if rows else forms.TextInput()
    return forms.CharField(max_length=MAX_LENGTHS[key], required=False, widget=widget, **kwargs)


class StepForm(forms.Form):
    """One step of the builder for a study document. Once valid, `document` contains this step's part."""

    part: ClassVar[tuple[str, ...]] = ()
    explained: ClassVar[tuple[str, ...]] = ()  # fields whose choices are shown with an explanation

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        self.document = dict(document)
        super().__init__(*args, **{**kwargs, "initial": self.load_values(self.document)})

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the initial values of the fields."""
        return {key: document[key] for key in self.part if key in document}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's part of the document; keys with None are left out."""
        return {key: cleaned[key] for key in self.part}

    def find_field(self, problem: str) -> str | None:
        """Return the name of the field that a problem of the document belongs to, or None."""
        name = problem.partition(":")[0]
        return name if name in self.fields else None

    @property
    def choice_options(self) -> dict[str, list[ChoiceOption]]:
        return {name: list(self._iter_options(name)) for name in self.explained}

    def _iter_options(self, name: str) -> Iterator[ChoiceOption]:
        value = self[name].value()
        selected = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        for key, label in list(field.choices):  # type: ignore[arg-type]
            yield ChoiceOption(str(key), str(label), CHOICES[name][str(key)].explanation, str(key) in selected)

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
    explained = ("kind",)

    name = forms.CharField(max_length=120, help_text="Raters will see this name, so do not mention models or sources.")
    slug = _text_field("slug", label="Short name", help_text="Used in the URL. Leave blank to derive it from the name.")
    kind = _choice_field("kind", KINDS, initial=KINDS[0])
    question = _text_field("question", help_text="Leave blank to use the default question.")
    guide = _text_field("guide", 6, label="Study-specific instructions", help_text="Shown to raters with the default guide. You can change them while the study is open; each rating records the version its rater had read.")  # fmt: skip
    consent = _text_field("consent", 4, label="Consent text", help_text="What raters agree to before they start. Leave blank to use the default text.")  # fmt: skip
    contact = _text_field("contact", help_text="Whom raters can contact with questions: a name and an e-mail address.")

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Return this step's part. A line break becomes one character, although browsers send two."""
        return {key: value.replace("\r\n", "\n") for key, value in super().build_part(cleaned).items()}


class ItemsForm(StepForm):
    """Step 2: how many items of which sources, from which experiments and actions."""

    part = ("sources", "experiments", "actions", "allow_unblinded", "vetting", "seed")
    explained = ("vetting",)

    experiments = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)
    actions = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)
    allow_unblinded = forms.BooleanField(required=False, label="Allow items that are in an unblinded study", help_text="Members of that study can see where these items came from. If not allowed, they are left out together with all their other versions. In either case no rater is assigned an item whose source their account can see elsewhere. The blinding certificate records this choice.")  # fmt: skip
    vetting = _choice_field("vetting", ("rules", "person"), label="Who checks planted errors")
    seed = _integer_field("seed", required=False, help_text="Determines which items are drawn and their order, so a study with the same seed is reproducible. Leave blank for a random seed.")  # fmt: skip

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        requested_casts = [source["cast"] for source in document["sources"]]
        self._wrongs = ("none",) if document.get("kind") == EVIDENCE else PERTURBATIONS
        # A cast of the document stays in the table even if nothing of it is available any more.
        self._casts = list(dict.fromkeys([*pool.list_stocked_casts(), *requested_casts]))
        super().__init__(*args, document=document, **kwargs)
        self._set_choices("experiments", list(Experiment.objects.values_list("slug", "name")))
        self._set_choices("actions", [(name, name) for name in lifecycle.list_bench_actions()])
        for cast in self._casts:
            for perturbation in self._wrongs:
                self.fields[_count_name(cast, perturbation)] = _count_field(cast, perturbation)

    def _set_choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = choices
        field.help_text = "Select none to use all." if choices else "None has been loaded yet. Run manage.py load_lab."

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        counts = {
            _count_name(source["cast"], source.get("perturbation", "none")): source["count"]
            for source in document["sources"]
        }
        selected = {
            key: [] if document.get(key, "all") == "all" else document[key] for key in ("experiments", "actions")
        }
        other_values = {
            "allow_unblinded": document.get("allow_unblinded", False),
            "vetting": document.get("vetting", "rules"),
        }
        return {**counts, **selected, **other_values, "seed": document["seed"]}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "sources": [
                {"cast": row.cast, "perturbation": row.perturbation, "count": n}
                for row in self.iter_source_rows()
                if (n := cleaned.get(row.field.name))
            ],
            "experiments": _all_or(cleaned["experiments"], self.fields["experiments"]),
            "actions": _all_or(cleaned["actions"], self.fields["actions"]),
            "allow_unblinded": cleaned["allow_unblinded"],
            "vetting": cleaned["vetting"],
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
        "repeat_distance", "stop", "stop_ratings", "deadline", "withdrawal", "feedback",
    )  # fmt: skip
    explained = ("design", "conditions", "stop", "withdrawal")

    design = _choice_field("design", DESIGNS, initial="balanced")
    conditions = _choice_field(
        "conditions", ("", *CONDITIONS), required=False, label="Crossover only: what the two sessions compare"
    )
    washout_days = _integer_field("washout_days", required=False, label="Crossover only: days between the sessions", help_text="Washout between the end of a rater’s session 1 and the earliest start of session 2. Leave blank for 14 days; 0 for trials.")  # fmt: skip
    ratings_per_item = _integer_field("ratings_per_item", label="Ratings per item", initial=3, help_text="Different raters per item. Two let you measure agreement; three give a majority.")  # fmt: skip
    raters = _integer_field("raters", required=False, help_text="Rater places created when the study opens; you can add more later. Leave blank for the smallest number that works.")  # fmt: skip
    items_per_rater = _integer_field("items_per_rater", required=False, label="Maximum items per rater", help_text="Leave blank for no limit.")  # fmt: skip
    lease_minutes = _integer_field("lease_minutes", required=False, label="Reservation time (minutes)", help_text="Pool only: an item that was shown but not rated becomes available to other raters after this time. Late ratings are still stored.")  # fmt: skip
    practice = _integer_field("practice", label="Practice items", help_text="Shown before the first item, with explained answers. Three are enough to learn the scale; 0 for none.")  # fmt: skip
    repeats = forms.IntegerField(min_value=0, max_value=int(100 * MAX_REPEATS), required=False, label="Repeat items (%)", help_text="This share of each rater's own items is shown a second time to measure test-retest agreement. No other result uses the second answers.")  # fmt: skip
    repeat_distance = _integer_field("repeat_distance", required=False, label="Minimum gap before a repeat")
    stop = _choice_field("stop", STOPS, label="Complete when")
    stop_ratings = _integer_field("stop_ratings", required=False, label="Number of ratings")
    deadline = forms.DateField(required=False, widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}), help_text="Shown to raters. The study does not close by itself.")  # fmt: skip
    withdrawal = _choice_field("withdrawal", ("keep", "drop"), label="When a rater withdraws")
    feedback = forms.BooleanField(required=False, label="Show raters their own result once the study is unblinded")

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        # Reading the document as a protocol fills in the defaults of keys that it lacks.
        document_values = study_protocol.load_protocol({**document, "sources": []}).to_document()
        values = {key: document_values.get(key) for key in self.part}
        return {
            **values,
            "conditions": document_values.get("conditions", ""),
            "repeats": round(100 * document_values["repeats"]),
        }

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        plain = super().build_part(cleaned)
        deadline = cleaned["deadline"]
        return {
            **plain,
            "repeats": (cleaned["repeats"] or 0) / 100,
            "deadline": deadline.isoformat() if deadline else None,
            "stop_ratings": plain["stop_ratings"] if plain["stop"] == "ratings" else None,
            **self._build_session_part(plain),
        }

    @staticmethod
    def _build_session_part(plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that only a crossover has. In other designs they are None, which leaves them out."""
        if plain["design"] != "crossover":
            return {"conditions": None, "washout_days": None}
        return {"conditions": plain["conditions"] or None, "washout_days": plain["washout_days"]}


class ScreenForm(StepForm):
    """Step 4: what raters see. Several choices of one list are randomised, by rater or by item."""

    part = ("display",)
    explained = ("layouts", "context", "marks", "by")

    layouts = _choice_field("layouts", LAYOUTS, multiple=True, label="Layout")
    context = _choice_field("context", ("off", "on"), multiple=True, label="Goal and earlier steps")
    marks = _choice_field("marks", MARKS, multiple=True, label="Marking rows that look wrong")
    by = _choice_field("by", ("rater", "item"), label="If you select several, they are randomised")

    def load_values(self, document: Mapping[str, Any]) -> dict[str, Any]:
        display = study_protocol.load_protocol({**document, "sources": []}).display
        context = ["on" if shown else "off" for shown in display.context]
        return {"layouts": list(display.layouts), "context": context, "marks": list(display.marks), "by": display.by}

    def build_part(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        context = [value == "on" for value in cleaned["context"]]
        plain = {key: cleaned[key] for key in ("layouts", "marks", "by")}
        return {"display": {**plain, "context": context}}

    def find_field(self, problem: str) -> str | None:
        return super().find_field(problem.removeprefix("display."))


class GuideForm(forms.Form):
    """New instructions for an open study."""

    guide = _text_field("guide", 14, label="Study-specific instructions", help_text="Shown with the default guide. Every rater sees the new version before their next item.")  # fmt: skip


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


def _count_field(cast: str, perturbation: str) -> forms.IntegerField:
    return forms.IntegerField(min_value=0, max_value=5000, required=False, label=f"Items by {cast}, {perturbation}")
