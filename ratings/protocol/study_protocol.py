"""The study protocol: the definition of a study, frozen when it opens.

`StudyProtocol` declares each field once: its type and limits, its label and help text in the builder. `CHOICES` names and
explains the values of fields with few values. The builder's forms, the words on a study's page and the table in
docs/studies.md are made from them. `document_rules` has the rules that combine fields.
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, PlainValidator, ValidationInfo, model_validator
from pydantic_core import CoreSchema, core_schema

from ratings.blinding import item_view
from ratings.protocol import document_rules
from wetbench_site import validation
from wetbench_site.text import UNSTORABLE
from wetbench_site.validation import Allowed, StrictModel, format_problem, reject, reject_parts


class Choice(NamedTuple):
    """The name of a choice, and what it means for the study."""

    name: str
    explanation: str


class Design(NamedTuple):
    """How a study assigns items to raters. Every part has to be stated for every design."""

    name: str
    explanation: str
    is_crossed: bool  # every rater rates every item
    is_pool: bool  # raters reserve items one at a time, so that nothing is assigned beforehand
    has_sessions: bool  # every rater rates two conditions in two sessions


DESIGNS = {
    "crossed": Design("Crossed", "Every rater rates every item. Best for comparing raters; the most work for each.", is_crossed=True, is_pool=False, has_sessions=False),
    "balanced": Design("Balanced", "Each item is rated by a fixed number of raters; every pair of raters shares roughly the same number of items.", is_crossed=False, is_pool=False, has_sessions=False),
    "pool": Design("Pool", "Raters take the next item that still needs a rating, for as long as they like. For when raters come and go.", is_crossed=False, is_pool=True, has_sessions=False),
    "crossover": Design("Crossover", "Every rater rates every item, in two sessions with a washout between them: each pair in one condition in session 1, in the other in session 2. For comparing two conditions within raters.", is_crossed=True, is_pool=False, has_sessions=True),
}  # fmt: skip
CHOICES: dict[str, dict[str, Choice]] = {
    "kind": {
        "transition_plausibility": Choice("Transition plausibility", "Raters see one step: could it have had this outcome?"),
        "evidence_sufficiency": Choice("Evidence sufficiency", "Raters see a full record: does it show that the goal was reached?"),
    },
    "vetting": {
        "rules": Choice("Rules, for their own errors", "Errors planted by offline rules are accepted automatically; a person vets those created by a model."),
        "person": Choice("A person, for every twin", "No twin is used before a person has accepted it in the vetting queue."),
    },
    "design": {name: Choice(design.name, design.explanation) for name, design in DESIGNS.items()},
    "conditions": {
        "": Choice("None", "The design is not a crossover."),
        "sources": Choice("Two sources", "The same steps, simulated by two casts or with errors planted by two casts. Request the same numbers from both."),
        "twins": Choice("Original and twin", "Each step as it was simulated, and with a planted error. Request as many twins as originals."),
        "screens": Choice("Two screens", "Every item on each of two screens. Choose exactly two in the last step."),
    },
    "stop": {
        "complete": Choice("Every item has its ratings", "The study is complete when nothing is left to rate."),
        "deadline": Choice("The deadline has passed", "Collection ends on this date; results use the ratings received by then."),
        "ratings": Choice("A number of ratings is reached", "Enter the number below."),
    },
    "withdrawal": {
        "keep": Choice("Keep what they rated", "Only items they have not rated are reassigned."),
        "drop": Choice("Drop what they rated", "Their ratings are not counted, and all their items are reassigned."),
    },
    "layouts": {
        "plain": Choice("Plain", "Inputs and outputs as two lists. Closest to the paper; the baseline for comparisons."),
        "aligned": Choice("Aligned", "Each output beside the input it came from, changes tinted. Draws attention to changes, less to what is missing."),
        "balance": Choice("Aligned with balance", "Also the sums of volumes, amounts and cells. Does part of the rater's work for errors of amount."),
        "confirm": Choice("Confirm", "A first verdict on aligned, then the balance, then the final verdict; both are stored. The fair way to measure an aid."),
    },
    "context": {
        "off": Choice("Hidden", "The step by itself."),
        "on": Choice("Shown", "The goal and the previous steps. A known goal leans raters towards “it worked as hoped”."),
    },
    "marks": {
        "off": Choice("Off", "A verdict and a confidence, nothing more."),
        "if_not_plausible": Choice("If not plausible", "Raters who answer not plausible tick what looks wrong: did they find the error, or guess?"),
        "always": Choice("Always", "Raters tick the row that looks weakest, whatever they decide. Changes the task."),
    },
    "by": {
        "rater": Choice("Rater by rater", "One screen for all of a rater's items: quick to get used to, compared between people."),
        "item": Choice("Item by item", "A rater sees every screen: compared within people, at the price of switching."),
    },
}  # fmt: skip
# The label and the help text of fields in the builder.
FIELD_TEXTS: dict[str, Choice] = {
    "name": Choice("Name", "Raters will see this name, so do not mention models or sources."),
    "slug": Choice("Short name", "Used in the URL. Leave blank to derive it from the name."),
    "question": Choice("Question", "Leave blank to use the default question."),
    "conditions": Choice("Crossover only: what the two sessions compare", ""),
    "washout_days": Choice("Crossover only: days between the sessions", "Washout between the end of a rater’s session 1 and the earliest start of session 2. Leave blank for 14 days; 0 for trials."),
    "ratings_per_item": Choice("Ratings per item", "Different raters per item. Two let you measure agreement; three give a majority."),
    "raters": Choice("Raters", "Rater places created when the study opens; you can add more later. Leave blank for the smallest number that works."),
    "items_per_rater": Choice("Maximum items per rater", "Leave blank for no limit."),
    "stop_ratings": Choice("Number of ratings", ""),
    "lease_minutes": Choice("Reservation time (minutes)", "Pool only: an item that was shown but not rated becomes available to other raters after this time. Late ratings are still stored."),
    "practice": Choice("Practice items", "Shown before the first item, with explained answers. Three are enough to learn the scale; 0 for none."),
    "repeats": Choice("Repeat items (%)", "This share of each rater's own items is shown a second time to measure test-retest agreement. No other result uses the second answers."),
    "repeat_distance": Choice("Minimum gap before a repeat", ""),
    "stop": Choice("Complete when", ""),
    "deadline": Choice("Deadline", "Shown to raters. The study does not close by itself."),
    "withdrawal": Choice("When a rater withdraws", ""),
    "feedback": Choice("Show raters their own result once the study is unblinded", ""),
    "review": Choice("Let raters review their items once the study is unblinded", "Each rater then sees which of their items had a planted error, why it is wrong, and how many other raters gave which answer. A rater who has opened this review is never assigned these items again, in any study."),
    "vetting": Choice("Who checks planted errors", ""),
    "allow_unblinded": Choice("Allow items that are in an unblinded study", "Members of that study can see where these items came from. If not allowed, they are left out together with all their other versions. In either case no rater is assigned an item whose source their account can see elsewhere. The blinding certificate records this choice."),
    "consent": Choice("Consent text", "What raters agree to before they start. Leave blank to use the default text."),
    "contact": Choice("Contact", "Whom raters can contact with questions: a name and an e-mail address."),
    "seed": Choice("Seed", "Determines which items are drawn and their order, so a study with the same seed is reproducible. Leave blank for a random seed."),
    "guide": Choice("Study-specific instructions", "Shown to raters with the default guide. You can change them while the study is open; each rating records the version its rater had read."),
    "layouts": Choice("Layout", ""),
    "context": Choice("Goal and earlier steps", ""),
    "marks": Choice("Marking rows that look wrong", ""),
    "by": Choice("If you select several, they are randomised", ""),
    "calculator": Choice("Offer a calculator beside the item", "Sums, differences, ratios and dilutions of the values shown. Each rating records how often it was used."),
}  # fmt: skip
TRANSITION, EVIDENCE = KINDS = tuple(CHOICES["kind"])
LAYOUTS, MARKS, STOPS = (tuple(CHOICES[key]) for key in ("layouts", "marks", "stop"))
if set(LAYOUTS) != {item_view.PLAIN, item_view.ALIGNED, item_view.BALANCE, item_view.CONFIRM}:
    raise RuntimeError(f"the layouts {', '.join(LAYOUTS)} are not those that ratings/blinding/item_view.py shows")
PERTURBATIONS = ("none", "obvious", "subtle")
QUESTIONS = {
    TRANSITION: "Could these results have come from this action in a real laboratory?",
    EVIDENCE: "Is what was done and measured enough to say that the goal has been reached?",
}
MAX_RATERS = 200
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")  # no double hyphens, so that a name has one possible address
# Characters that hide text from readers. Line breaks and tabs are allowed in paragraphs.
_INVISIBLE_IN_LINE = re.compile(rf"[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|{UNSTORABLE.pattern}")
_LINE_BREAKS = re.compile("[\t\n\r]")


class ProtocolError(ValueError):
    """The document cannot be used; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class KnownNames(NamedTuple):
    """The names that exist in this laboratory. If `actions` is empty, names of actions are not checked."""

    casts: Collection[str]
    experiments: Collection[str]
    actions: Collection[str] = ()


class DesignLimit(NamedTuple):
    """What a valid study cannot measure because of its design, and what to change."""

    problem: str
    advice: str


class OneOf(Allowed):
    """Metadata of a field whose value is one of these texts."""

    def __new__(cls, values: Collection[str]) -> "OneOf":
        return super().__new__(cls, ", ".join(value for value in values if value))

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def need_allowed(value: Any) -> Any:
            return value if value is None or value in self.text.split(", ") else reject()

        return core_schema.no_info_after_validator_function(need_allowed, handler(source))


def _need_visible_line(value: Any) -> Any:
    if isinstance(value, str) and _INVISIBLE_IN_LINE.search(value):
        raise ValueError("must not contain control characters or marks that reverse the writing direction")
    return value


def _need_visible_paragraphs(value: Any) -> Any:
    if isinstance(value, str):
        _need_visible_line(_LINE_BREAKS.sub(" ", value))
    return value


def _need_name(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() and len(value) <= 120 else reject()


def _need_slug(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 80 or (value and not _SLUG.fullmatch(value)):
        reject()
    return value


def _need_known_cast(value: Any, info: ValidationInfo) -> str:
    assert info.context
    known: Collection[str] = info.context.casts
    return value if isinstance(value, str) and value in known else reject(_join_names(known))


def _need_known_names(value: Any, info: ValidationInfo) -> Any:
    known: Collection[str] = getattr(info.context, str(info.field_name))
    if value == "all":
        return ()
    if not isinstance(value, list) or not value:
        reject(f'"all" or a list of: {_join_names(known)}')
    unchecked = info.field_name == "actions" and not known  # without a list of actions nothing is known about them
    unknown = [name for name in value if not isinstance(name, str) or not (unchecked or name in known)]
    reject_parts([("", format_problem(name, _join_names(known))) for name in unknown])
    return tuple(value)


def _need_arms(value: Any, info: ValidationInfo) -> Any:
    allowed = ARMS[str(info.field_name)]
    # Compared by type and text: 1 equals True in Python, and the value may not be hashable.
    known = [(type(one), repr(one)) for one in allowed]
    if not isinstance(value, list) or not value or any((type(one), repr(one)) not in known for one in value):
        reject()
    if len(set(value)) < len(value):
        raise ValueError("contains the same value twice")
    return tuple(value)


def _parse_day(value: Any) -> date | None:
    try:
        # Compared again: other spellings of a day are parsed too, which other readers of the document may not know.
        if value is None or date.fromisoformat(value).isoformat() == value:
            return None if value is None else date.fromisoformat(value)
    except (TypeError, ValueError):
        pass
    return reject()


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none yet"


Line = Annotated[str, BeforeValidator(_need_visible_line)]
Paragraphs = Annotated[str, BeforeValidator(_need_visible_paragraphs)]
Names = Annotated[tuple[str, ...], PlainValidator(_need_known_names), Allowed('"all" or a list of names')]
ARMS: dict[str, tuple[Any, ...]] = {"layouts": LAYOUTS, "context": (False, True), "marks": MARKS}
_ARM_TEXTS = {key: f"a list, not empty, of: {', '.join(str(one).lower() for one in ARMS[key])}" for key in ARMS}


class SourceRequest(StrictModel):
    """A number of items of one cast with one perturbation."""

    cast: Annotated[str, PlainValidator(_need_known_cast), Allowed("the name of a cast")]
    perturbation: Annotated[str, OneOf(PERTURBATIONS)] = "none"
    count: int = Field(ge=1, le=5000)

    def __str__(self) -> str:
        return f"{self.count} {'' if self.perturbation == 'none' else self.perturbation + ' '}items by {self.cast}"


class Display(StrictModel):
    """The display arms. One value of each list is drawn at random for each rater, or for each of their items; the calculator is the same for all."""

    layouts: Annotated[tuple[str, ...], PlainValidator(_need_arms), Allowed(_ARM_TEXTS["layouts"])] = ("aligned",)
    context: Annotated[tuple[bool, ...], PlainValidator(_need_arms), Allowed(_ARM_TEXTS["context"])] = (False,)
    marks: Annotated[tuple[str, ...], PlainValidator(_need_arms), Allowed(_ARM_TEXTS["marks"])] = ("off",)
    by: Annotated[str, OneOf(CHOICES["by"])] = "rater"
    calculator: bool = True


class StudyProtocol(StrictModel):
    """A validated study document. Empty `experiments` and `actions` mean all; `raters` None means the smallest
    sufficient number. `repeats` is the share of a rater's items that are shown again on occasion 2.
    """

    name: Annotated[Line, BeforeValidator(_need_name), Allowed("text of 1 to 120 characters")] = Field(max_length=120)
    slug: Annotated[
        Line, BeforeValidator(_need_slug), Allowed("at most 80 small letters and digits with single hyphens")
    ] = Field("", max_length=80)
    kind: Annotated[str, OneOf(KINDS)]
    question: Line = Field("", max_length=300)
    sources: Annotated[
        tuple[SourceRequest, ...], Field(strict=False), Allowed('a list of {"cast", "perturbation", "count"}')
    ]
    experiments: Names = ()
    actions: Names = ()
    design: Annotated[str, OneOf(DESIGNS)] = "balanced"
    conditions: Annotated[str | None, OneOf(CHOICES["conditions"])] = None
    washout_days: int = Field(14, ge=0, le=365)
    ratings_per_item: int = Field(ge=1, le=50)
    raters: int | None = Field(None, ge=1, le=MAX_RATERS)
    items_per_rater: int | None = Field(None, ge=1, le=5000)
    stop_ratings: int | None = Field(None, ge=1, le=500_000)
    lease_minutes: int = Field(30, ge=5, le=1440)
    display: Annotated[Display, Allowed("an object with layouts, context, marks, by, calculator")] = Display()
    practice: int = Field(3, ge=0, le=3)
    repeats: Annotated[float, Field(ge=0, le=0.5), Allowed("a share from 0 to 0.5")] = 0.0
    repeat_distance: int = Field(10, ge=1, le=1000)
    stop: Annotated[str, OneOf(STOPS)] = "complete"
    deadline: Annotated[date | None, BeforeValidator(_parse_day), Allowed("a day such as 2027-03-31")] = None
    withdrawal: Annotated[str, OneOf(CHOICES["withdrawal"])] = "keep"
    feedback: bool = False
    review: bool = False
    vetting: Annotated[str, OneOf(CHOICES["vetting"])] = "rules"
    allow_unblinded: bool = False
    consent: Paragraphs = Field("", max_length=5000)
    contact: Line = Field("", max_length=200)
    # Larger integers are not exact in programs that read JSON numbers as floating point.
    seed: int = Field(ge=0, le=2**53)
    guide: Paragraphs = Field("", max_length=5000)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """A number without a value is one that is left out."""
        return {key: value for key, value in data.items() if value is not None or key not in _NUMBERS}

    @property
    def is_evidence(self) -> bool:
        return self.kind == EVIDENCE

    @property
    def is_crossover(self) -> bool:
        return DESIGNS[self.design].has_sessions

    @property
    def is_crossed(self) -> bool:
        return DESIGNS[self.design].is_crossed

    @property
    def is_pool(self) -> bool:
        return DESIGNS[self.design].is_pool

    @property
    def planted_share(self) -> float | None:
        """The share of items with a planted error; None without any source."""
        total = sum(source.count for source in self.sources)
        return sum(s.count for s in self.sources if s.perturbation != "none") / total if total else None

    def to_document(self) -> dict[str, Any]:
        """Return the document with every field written out, so that a later change of a default does not change it."""
        # Fields without a value are left out: null would be a value that the validation rejects.
        values = {name: getattr(self, name) for name in FIELDS}
        values |= {} if self.is_crossover else {"conditions": None, "washout_days": None}
        values |= {
            "sources": [dict(source) for source in self.sources],
            "experiments": list(self.experiments) or "all",
            "actions": list(self.actions) or "all",
            "display": {name: list(value) if name in ARMS else value for name, value in self.display},
            "deadline": self.deadline.isoformat() if self.deadline else None,
        }
        return {name: value for name, value in values.items() if value is not None}


FIELDS = tuple(StudyProtocol.model_fields)
_NUMBERS = ("washout_days", "raters", "items_per_rater", "stop_ratings", "lease_minutes", "practice", "repeat_distance")


def parse_protocol(data: Any, known: KnownNames) -> StudyProtocol:
    """Return the protocol of a JSON document. Raises ProtocolError with all problems."""
    if not isinstance(data, Mapping):
        raise ProtocolError(["the document must be a JSON object"])
    if problems := find_problems(data, known):
        raise ProtocolError(problems)
    return load_protocol(data)


def find_problems(data: Mapping[str, Any], known: KnownNames) -> list[str]:
    """Return every problem, field first; a rule that combines fields is checked if each of them is valid by itself."""
    problems = validation.find_problems(StudyProtocol, data, known)
    invalid = {re.split(r"[:\[.]", problem, maxsplit=1)[0] for problem in problems}
    # Valid values for those that are not: a rule that needs them is skipped.
    placeholders = {"name": "", "kind": TRANSITION, "sources": [], "ratings_per_item": 1, "seed": 0}
    usable = load_protocol(placeholders | {key: value for key, value in data.items() if key not in invalid})
    return problems + document_rules.find_problems(usable, invalid)


def list_limits(protocol: StudyProtocol) -> list[DesignLimit]:
    """Return what a study with this document cannot measure. It can be opened nevertheless."""
    if protocol.ratings_per_item < 2:
        return [
            DesignLimit(
                "This design cannot measure agreement between raters: every item has one rating.",
                "Ask for two ratings per item to measure agreement, or for three to have a majority as well.",
            )
        ]
    return []


def find_guide_problems(text: str) -> list[str]:
    """Return the problems of a study's own instructions."""
    problems = validation.find_problems(StudyProtocol, {"guide": text}, KnownNames((), ()))
    return [problem for problem in problems if problem.startswith("guide:")]


# Not validated again: rules that became stricter later must not make a study that is running unreadable.
def load_protocol(data: Mapping[str, Any]) -> StudyProtocol:
    """Return the protocol of a document that was validated when it was stored. Missing fields take the default."""
    values = {name: data[name] for name in FIELDS if data.get(name) is not None}
    given = data.get("display", {}).items()
    display: dict[str, Any] = {name: tuple(value) if name in ARMS else value for name, value in given}
    values |= {
        "name": data["name"].strip(),
        "slug": data.get("slug") or make_slug(data["name"]),
        "question": data.get("question") or QUESTIONS[data["kind"]],
        "sources": tuple(SourceRequest.model_construct(**source) for source in data["sources"]),
        "display": Display.model_construct(**display),
    }
    for name in ("experiments", "actions"):
        values[name] = () if data.get(name, "all") == "all" else tuple(data[name])
    if data.get("deadline"):
        values["deadline"] = date.fromisoformat(data["deadline"])
    return StudyProtocol.model_construct(**values)


def make_slug(name: str) -> str:
    """Return the name in small letters, digits and hyphens; "" if nothing remains."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:80].strip("-")


def format_fields_table() -> str:
    """Return the table of the document's fields for docs/studies.md."""
    lines = ["| Field | Allowed | If left out | Meaning |", "|---|---|---|---|"]
    for name, field in StudyProtocol.model_fields.items():
        allowed = validation.describe_allowed(field.annotation, field.metadata)
        if any(isinstance(part, OneOf) for part in field.metadata):
            allowed = ", ".join(f"`{value}`" for value in allowed.split(", "))
        value = dict(field.default) if isinstance(field.default, Display) else field.default
        text = "`all`" if value == () else f"`{value if isinstance(value, str) else json.dumps(value, default=str)}`"
        default = "needed" if field.is_required() else "none" if value in (None, "") else text
        lines.append(f"| `{name}` | {allowed} | {default} | {FIELD_TEXTS.get(name, Choice('', '')).explanation} |")
    return "\n".join(lines)
