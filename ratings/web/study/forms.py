"""The four steps of the builder. Each form writes its own part of a study document, which is checked as a whole."""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django import forms

from ratings.protocol import StudyProtocol, protocols
from ratings.protocol.choices import WORDS
from ratings.protocol.protocol_problems import (  # fmt: skip
    CONDITIONS,
    DESIGNS,
    EVIDENCE,
    KINDS,
    LAYOUTS,
    LIMITS,
    LONGEST,
    MARKS,
    MOST_REPEATS,
    PERTURBATIONS,
    STOPS,
)
from ratings.studies import lifecycle
from ratings.studies.pool import pool
from simulation.models import Experiment


class Option(NamedTuple):
    """One choice with a sentence about it, for `_study_options.html`."""

    value: str
    name: str
    why: str
    chosen: bool


class SourceRow(NamedTuple):
    """One cell of the source table: how many items of this cast and perturbation are wanted."""

    cast: str
    perturbation: str
    field: forms.BoundField


def _pick(key: str, values: Sequence[str], many: bool = False, **kwargs: Any) -> forms.ChoiceField:
    choices = [(value, WORDS[key][value].name) for value in values]
    if many:
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **kwargs)
    return forms.ChoiceField(choices=choices, widget=forms.RadioSelect, **kwargs)


def _whole(key: str, **kwargs: Any) -> forms.IntegerField:
    low, high = LIMITS[key]
    return forms.IntegerField(min_value=low, max_value=high, **kwargs)


def _text(key: str, rows: int = 0, **kwargs: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows}) if rows else forms.TextInput()
    return forms.CharField(max_length=LONGEST[key], required=False, widget=widget, **kwargs)


class StepForm(forms.Form):
    """A step over the document as it stands. Once valid, `document` has this step's part in it."""

    part: ClassVar[tuple[str, ...]] = ()
    explained: ClassVar[tuple[str, ...]] = ()  # fields whose every choice is shown with a sentence

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        self.document = dict(document)
        super().__init__(*args, **{**kwargs, "initial": self.read(self.document)})

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Initial values of the fields."""
        return {key: document[key] for key in self.part if key in document}

    def write(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """This step's part of the document; what is None is left out of it."""
        return {key: cleaned[key] for key in self.part}

    def place(self, problem: str) -> str | None:
        """The field of this form that a problem of the document belongs to."""
        name = problem.partition(":")[0]
        return name if name in self.fields else None

    @property
    def options(self) -> dict[str, list[Option]]:
        return {name: list(self._options(name)) for name in self.explained}

    def _options(self, name: str) -> Iterator[Option]:
        value = self[name].value()
        chosen = [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        for key, said in list(field.choices):  # type: ignore[arg-type]
            yield Option(str(key), str(said), WORDS[name][str(key)].why, str(key) in chosen)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            merged = {**self.document, **self.write(cleaned)}
            self.document = {key: value for key, value in merged.items() if value is not None}
            self.add_problems(lifecycle.problems_of(self.document))
        return cleaned

    def add_problems(self, problems: Sequence[str]) -> None:
        """Put each problem of this step's part beside its field; those of other steps are told where they belong."""
        for problem in problems:
            if (field := self.place(problem)) is not None:
                self.add_error(field, problem.partition(": ")[2])

    @property
    def protocol(self) -> StudyProtocol:
        return protocols.stored(self.document)


class QuestionForm(StepForm):
    """Step 1: what is asked, and what raters are told."""

    part = ("name", "slug", "kind", "question", "guide", "consent", "contact")
    explained = ("kind",)

    name = forms.CharField(max_length=120, help_text="Raters see it: let it name no source.")
    slug = _text("slug", label="Short name", help_text="For the address. Empty: made from the name.")
    kind = _pick("kind", KINDS, initial=KINDS[0])
    question = _text("question", help_text="Empty: the standing question of the kind.")
    guide = _text("guide", 6, label="Instructions of your own", help_text="Shown to raters with the standing ones. They can be changed while the study runs; each rating keeps the version its rater had read.")  # fmt: skip
    consent = _text("consent", 4, label="Consent text", help_text="What raters agree to before they begin. Empty: the standing text.")  # fmt: skip
    contact = _text("contact", help_text="Whom raters can ask: a name and an e-mail address.")

    def write(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """Browsers send line breaks as two characters; the document has one."""
        return {key: value.replace("\r\n", "\n") for key, value in super().write(cleaned).items()}


class ItemsForm(StepForm):
    """Step 2: how many items of which sources, from which experiments and actions."""

    part = ("sources", "experiments", "actions", "allow_unblinded", "vetting", "seed")
    explained = ("vetting",)

    experiments = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)
    actions = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, required=False)
    allow_unblinded = forms.BooleanField(required=False, label="Allow items that stand in an unblinded study", help_text="Who has a role there can read where they came from. Left out otherwise, with all other versions of them. Allowed or not, nobody is given an item that their account can read elsewhere; the blinding certificate states the choice.")  # fmt: skip
    vetting = _pick("vetting", ("rules", "person"), label="Who checks planted errors")
    seed = _whole("seed", required=False, help_text="Draws items and orders: the same seed, the same study. Empty: one is drawn.")  # fmt: skip

    def __init__(self, *args: Any, document: Mapping[str, Any], **kwargs: Any) -> None:
        asked = [source["cast"] for source in document["sources"]]
        self._wrongs = ("none",) if document.get("kind") == EVIDENCE else PERTURBATIONS
        self._casts = list(dict.fromkeys([*pool.stocked_casts(), *asked]))
        super().__init__(*args, document=document, **kwargs)
        self._offer("experiments", list(Experiment.objects.values_list("slug", "name")))
        self._offer("actions", [(name, name) for name in lifecycle.known_actions()])
        for cast in self._casts:
            for perturbation in self._wrongs:
                self.fields[_count_name(cast, perturbation)] = _count_field(cast, perturbation)

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = choices
        field.help_text = "None ticked: all of them." if choices else "None is loaded yet: run manage.py load_lab."

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        counts = {_count_name(s["cast"], s.get("perturbation", "none")): s["count"] for s in document["sources"]}
        chosen = {key: [] if document.get(key, "all") == "all" else document[key] for key in ("experiments", "actions")}
        plain = {"allow_unblinded": document.get("allow_unblinded", False), "vetting": document.get("vetting", "rules")}
        return {**counts, **chosen, **plain, "seed": document["seed"]}

    def write(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "sources": [
                {"cast": row.cast, "perturbation": row.perturbation, "count": n}
                for row in self.source_rows()
                if (n := cleaned.get(row.field.name))
            ],
            "experiments": _all_or(cleaned["experiments"], self.fields["experiments"]),
            "actions": _all_or(cleaned["actions"], self.fields["actions"]),
            "allow_unblinded": cleaned["allow_unblinded"],
            "vetting": cleaned["vetting"],
            "seed": secrets.randbelow(2**31) if cleaned["seed"] is None else cleaned["seed"],
        }

    def source_rows(self) -> Iterator[SourceRow]:
        for cast in self._casts:
            for perturbation in self._wrongs:
                yield SourceRow(cast, perturbation, self[_count_name(cast, perturbation)])

    def place(self, problem: str) -> str | None:
        name = problem.partition(":")[0]
        if not name.startswith("sources["):
            return super().place(problem)
        asked = self.document["sources"][int(name[8 : name.index("]")])]
        return _count_name(asked["cast"], asked["perturbation"])


class RatersForm(StepForm):
    """Step 3: who rates how much, how they are readied, and when it ends."""

    part = (
        "design", "conditions", "washout_days", "ratings_per_item", "raters", "items_per_rater", "lease_minutes", "practice", "repeats",
        "repeat_distance", "stop", "stop_ratings", "deadline", "withdrawal", "feedback",
    )  # fmt: skip
    explained = ("design", "conditions", "stop", "withdrawal")

    design = _pick("design", DESIGNS, initial="balanced")
    conditions = _pick(
        "conditions", ("", *CONDITIONS), required=False, label="Crossover only: what the two sessions compare"
    )
    washout_days = _whole("washout_days", required=False, label="Crossover only: days between the sessions", help_text="Washout, from the end of a rater’s session 1 to the start of their session 2. Nobody can start sooner. Empty: 14; 0 for trials.")  # fmt: skip
    ratings_per_item = _whole("ratings_per_item", label="Ratings per item", initial=3, help_text="By so many different raters. Two are enough to measure agreement, three break ties.")  # fmt: skip
    raters = _whole("raters", required=False, help_text="Seats made at opening; more can be added later. Empty: as few as will do.")  # fmt: skip
    items_per_rater = _whole("items_per_rater", required=False, label="Items per rater, at most", help_text="Empty: no limit.")  # fmt: skip
    lease_minutes = _whole("lease_minutes", required=False, label="Minutes an item is kept", help_text="Pool only: an item shown and not rated goes to others after this. What is rated late is still kept.")  # fmt: skip
    practice = _whole("practice", label="Practice items", help_text="Before the first item, with the answers explained. 3 teach the scale; 0 for none.")  # fmt: skip
    repeats = forms.IntegerField(min_value=0, max_value=int(100 * MOST_REPEATS), required=False, label="Shown again, in per cent", help_text="A share of each rater's own items comes a second time, to see whether raters agree with themselves. Nothing else reads the second answers.")  # fmt: skip
    repeat_distance = _whole("repeat_distance", required=False, label="Items in between, at least")
    stop = _pick("stop", STOPS, label="Complete when")
    stop_ratings = _whole("stop_ratings", required=False, label="That number of ratings")
    deadline = forms.DateField(required=False, widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}), help_text="Raters are told. Nothing closes by itself.")  # fmt: skip
    withdrawal = _pick("withdrawal", ("keep", "drop"), label="When a rater withdraws")
    feedback = forms.BooleanField(required=False, label="Show raters their own result once the study is unblinded")

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        standing = protocols.stored({**document, "sources": []}).to_json()
        values = {key: standing.get(key) for key in self.part}
        return {**values, "conditions": standing.get("conditions", ""), "repeats": round(100 * standing["repeats"])}

    def write(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        plain = super().write(cleaned)
        deadline = cleaned["deadline"]
        return {
            **plain,
            "repeats": (cleaned["repeats"] or 0) / 100,
            "deadline": deadline.isoformat() if deadline else None,
            "stop_ratings": plain["stop_ratings"] if plain["stop"] == "ratings" else None,
            **self._sessions(plain),
        }

    @staticmethod
    def _sessions(plain: Mapping[str, Any]) -> dict[str, Any]:
        """What only a crossover has is dropped when another design is chosen."""
        if plain["design"] != "crossover":
            return {"conditions": None, "washout_days": None}
        return {"conditions": plain["conditions"] or None, "washout_days": plain["washout_days"]}


class ScreenForm(StepForm):
    """Step 4: what raters see; several of a list are compared by chance, rater by rater or item by item."""

    part = ("display",)
    explained = ("layouts", "context", "marks", "by")

    layouts = _pick("layouts", LAYOUTS, many=True, label="Layout")
    context = _pick("context", ("off", "on"), many=True, label="Goal and earlier steps")
    marks = _pick("marks", MARKS, many=True, label="Marking the rows that look wrong")
    by = _pick("by", ("rater", "item"), label="Where several are ticked, chance decides")

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        display = protocols.stored({**document, "sources": []}).display
        context = ["on" if one else "off" for one in display.context]
        return {"layouts": list(display.layouts), "context": context, "marks": list(display.marks), "by": display.by}

    def write(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        context = [one == "on" for one in cleaned["context"]]
        plain = {key: cleaned[key] for key in ("layouts", "marks", "by")}
        return {"display": {**plain, "context": context}}

    def place(self, problem: str) -> str | None:
        return super().place(problem.removeprefix("display."))


class GuideForm(forms.Form):
    """New instructions for a study that runs."""

    guide = _text("guide", 14, label="Instructions of your own", help_text="Shown with the standing ones. Every rater is shown the new version before their next item.")  # fmt: skip


def blank() -> dict[str, Any]:
    """What a document starts from, before the first step is filled in."""
    return {"sources": [], "ratings_per_item": 3, "seed": secrets.randbelow(2**31)}


def _all_or(chosen: list[str], field: forms.Field) -> list[str] | str:
    """ "all" where none or every one of the choices is ticked: those that are added later then count as well."""
    assert isinstance(field, forms.MultipleChoiceField)
    every: Collection[Any] = list(field.choices)  # type: ignore[arg-type]
    return chosen if 0 < len(chosen) < len(every) else "all"


def _count_name(cast: str, perturbation: str) -> str:
    return f"count-{cast}-{perturbation}"


def _count_field(cast: str, perturbation: str) -> forms.IntegerField:
    return forms.IntegerField(min_value=0, max_value=5000, required=False, label=f"Items by {cast}, {perturbation}")
