"""The study protocol: the definition of a study, frozen when it opens. `document_errors` lists what a document may
contain.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from ratings.protocol import document_errors
from ratings.protocol.document_errors import (
    CROSSED,
    EVIDENCE,
    FIELDS,
    KINDS,
    MAX_RATERS,
    PERTURBATIONS,
    TRANSITION,
    KnownNames,
    make_slug,
)

__all__ = [
    "FIELDS",
    "KINDS",
    "MAX_RATERS",
    "PERTURBATIONS",
    "QUESTIONS",
    "Display",
    "ProtocolError",
    "SourceRequest",
    "StudyProtocol",
    "find_guide_problems",
    "find_problems",
    "load_protocol",
    "make_slug",
    "parse_protocol",
]  # fmt: skip
QUESTIONS = {
    TRANSITION: "Could these results have come from this action in a real laboratory?",
    EVIDENCE: "Is what was done and measured enough to say that the goal has been reached?",
}


WASHOUT_DAYS = 14  # days; between the sessions of a crossover, so that raters forget the pairs


class ProtocolError(ValueError):
    """The document cannot be used; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class SourceRequest:
    """A number of items of one cast with one perturbation."""

    cast: str
    perturbation: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} {'' if self.perturbation == 'none' else self.perturbation + ' '}items by {self.cast}"


@dataclass(frozen=True)
class Display:
    """The display arms of a study. One value of each list is drawn at random for each rater, or for each item of a
    rater.
    """

    layouts: tuple[str, ...] = ("aligned",)
    context: tuple[bool, ...] = (False,)
    marks: tuple[str, ...] = ("off",)
    by: str = "rater"  # or "item"


@dataclass(frozen=True)
class StudyProtocol:
    """A validated study document. Empty `experiments` and `actions` mean all; `raters` None means the smallest
    sufficient number.
    """

    name: str
    slug: str
    kind: str
    question: str
    sources: tuple[SourceRequest, ...]
    experiments: tuple[str, ...]
    ratings_per_item: int
    raters: int | None  # None: computed from the items when the study opens
    seed: int
    guide: str
    actions: tuple[str, ...] = ()
    design: str = "balanced"  # "crossed", "balanced", "pool" or "crossover"
    conditions: str | None = None  # crossover: "sources", "twins" or "screens"
    washout_days: int = WASHOUT_DAYS  # crossover: from the end of a rater's session 1 to the start of their session 2
    items_per_rater: int | None = None  # the maximum; None: no maximum
    lease_minutes: int = 30  # pool: length of a reservation
    display: Display = Display()
    practice: int = 3  # practice items, 0 to 3
    repeats: float = 0.0  # share of a rater's items shown again on occasion 2
    repeat_distance: int = 10  # items between the two, at least
    stop: str = "complete"  # "complete", "deadline" or "ratings"
    stop_ratings: int | None = None
    deadline: date | None = None
    withdrawal: str = "keep"  # or "drop" the ratings of a rater who withdraws
    feedback: bool = False  # raters see their own result once the study is unblinded
    allow_unblinded: bool = False  # may contain versions of items in an unblinded study
    vetting: str = "rules"  # rules accept their own planted errors; "person": a person vets every twin
    consent: str = ""
    contact: str = ""  # whom raters can ask

    @property
    def is_crossover(self) -> bool:
        """Whether every rater rates two conditions in two sessions."""
        return self.design == "crossover"

    @property
    def is_crossed(self) -> bool:
        """Whether every rater rates every item."""
        return self.design in CROSSED

    @property
    def planted_share(self) -> float | None:
        """The share of items with a planted error; None without any source."""
        total = sum(source.count for source in self.sources)
        return sum(s.count for s in self.sources if s.perturbation != "none") / total if total else None

    def to_document(self) -> dict[str, Any]:
        # Every field is written out, so that a later change of a default does not change a stored study.
        """Return the document with every field written out."""
        sources = [{"cast": s.cast, "perturbation": s.perturbation, "count": s.count} for s in self.sources]
        # Fields without a value are left out: null would be a value that the validation rejects.
        optional = {"raters": self.raters, "items_per_rater": self.items_per_rater, "stop_ratings": self.stop_ratings}
        crossover = {"conditions": self.conditions, "washout_days": self.washout_days} if self.is_crossover else {}
        return {
            "name": self.name,
            "slug": self.slug,
            "kind": self.kind,
            "question": self.question,
            "sources": sources,
            "experiments": list(self.experiments) or "all",
            "actions": list(self.actions) or "all",
            "design": self.design,
            **crossover,
            "ratings_per_item": self.ratings_per_item,
            **{name: value for name, value in optional.items() if value is not None},
            "lease_minutes": self.lease_minutes,
            "display": {
                "layouts": list(self.display.layouts),
                "context": list(self.display.context),
                "marks": list(self.display.marks),
                "by": self.display.by,
            },
            "practice": self.practice,
            "repeats": self.repeats,
            "repeat_distance": self.repeat_distance,
            "stop": self.stop,
            **({"deadline": self.deadline.isoformat()} if self.deadline else {}),
            "withdrawal": self.withdrawal,
            "feedback": self.feedback,
            "vetting": self.vetting,
            "allow_unblinded": self.allow_unblinded,
            "consent": self.consent,
            "contact": self.contact,
            "seed": self.seed,
            "guide": self.guide,
        }


def parse_protocol(
    data: Any, casts: Collection[str], experiments: Collection[str], actions: Collection[str] = ()
) -> StudyProtocol:
    """Return the protocol of a JSON document, given the names in this laboratory. Raises ProtocolError with all
    problems.
    """
    if not isinstance(data, Mapping):
        raise ProtocolError(["the document must be a JSON object"])
    if messages := find_problems(data, casts, experiments, actions):
        raise ProtocolError(messages)
    return load_protocol(data)


def find_problems(
    data: Mapping[str, Any], casts: Collection[str], experiments: Collection[str], actions: Collection[str] = ()
) -> list[str]:
    """Return everything that is wrong with the document; each problem starts with its field."""
    return document_errors.list_problems(data, KnownNames(casts, experiments, actions))


def find_guide_problems(text: Any) -> list[str]:
    """Return the problems of a study's own instructions."""
    return document_errors.find_text_problems("guide", text)


# Not validated again: rules that became stricter later must not make a study that is running unreadable.
def load_protocol(data: Mapping[str, Any]) -> StudyProtocol:
    """Return the protocol of a stored document, which was validated when it was stored. Missing fields take the
    default.
    """
    experiments, actions = data.get("experiments", "all"), data.get("actions", "all")
    simple_fields = {name: data[name] for name in _SIMPLE_FIELDS if data.get(name) is not None}
    return StudyProtocol(
        name=data["name"].strip(),
        slug=data.get("slug") or make_slug(data["name"]),
        kind=data["kind"],
        question=data.get("question") or QUESTIONS[data["kind"]],
        sources=tuple(SourceRequest(s["cast"], s.get("perturbation", "none"), s["count"]) for s in data["sources"]),
        experiments=() if experiments == "all" else tuple(experiments),
        actions=() if actions == "all" else tuple(actions),
        ratings_per_item=data["ratings_per_item"],
        raters=data.get("raters"),
        seed=data["seed"],
        guide=data.get("guide", ""),
        display=_load_display(data.get("display", {})),
        deadline=date.fromisoformat(data["deadline"]) if data.get("deadline") else None,
        **simple_fields,
    )


def _load_display(data: Mapping[str, Any]) -> Display:
    defaults = Display()
    return Display(
        layouts=tuple(data.get("layouts", defaults.layouts)),
        context=tuple(data.get("context", defaults.context)),
        marks=tuple(data.get("marks", defaults.marks)),
        by=data.get("by", defaults.by),
    )


_SIMPLE_FIELDS = (
    "design", "conditions", "washout_days", "items_per_rater", "lease_minutes", "practice", "repeats", "repeat_distance",
    "stop", "stop_ratings", "withdrawal", "feedback", "vetting", "allow_unblinded", "consent",
    "contact",
)  # fmt: skip
