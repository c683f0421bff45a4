"""The study document: what a study is to be, frozen when it opens. `protocol_problems` says what may stand in it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from ratings.protocol import protocol_problems
from ratings.protocol.protocol_problems import (
    CROSSED,
    EVIDENCE,
    FIELDS,
    KINDS,
    MOST_RATERS,
    PERTURBATIONS,
    TRANSITION,
    Known,
    slug_of,
)

__all__ = [
    "FIELDS", "KINDS", "MOST_RATERS", "PERTURBATIONS", "QUESTIONS", "Display", "ProtocolError", "SourceRequest",
    "StudyProtocol", "guide_problems", "problems", "read", "slug_of", "stored",
]  # fmt: skip
QUESTIONS = {
    TRANSITION: "Could these results have come from this action in a real laboratory?",
    EVIDENCE: "Is what was done and measured enough to say that the goal has been reached?",
}


WASHOUT_DAYS = 14


class ProtocolError(ValueError):
    """The document cannot be used; `problems` says everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class SourceRequest:
    """So many items made by this cast, with this perturbation."""

    cast: str
    perturbation: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} {'' if self.perturbation == 'none' else self.perturbation + ' '}items by {self.cast}"


@dataclass(frozen=True)
class Display:
    """The arms of a study: each rater, or each item of a rater, is given one of every list by chance."""

    layouts: tuple[str, ...] = ("aligned",)
    context: tuple[bool, ...] = (False,)
    marks: tuple[str, ...] = ("off",)
    by: str = "rater"  # or "item"


@dataclass(frozen=True)
class StudyProtocol:
    """A checked study document. `experiments` and `actions` empty mean all; `raters` None means as few as will do."""

    name: str
    slug: str
    kind: str
    question: str
    sources: tuple[SourceRequest, ...]
    experiments: tuple[str, ...]
    ratings_per_item: int
    raters: int | None
    seed: int
    guide: str
    actions: tuple[str, ...] = ()
    design: str = "balanced"  # "crossed", "balanced", "pool" or "crossover"
    conditions: str | None = None  # crossover: "sources", "twins" or "screens"
    washout_days: int = WASHOUT_DAYS  # crossover: from the end of a rater's session 1 to the start of their session 2
    items_per_rater: int | None = None  # at most
    lease_minutes: int = 30  # pool: how long an item that was shown and not rated is kept for its rater
    display: Display = Display()
    practice: int = 3  # practice items, 0 to 3
    repeats: float = 0.0  # share of a rater's items shown again on occasion 2
    repeat_distance: int = 10  # items between the two, at least
    stop: str = "complete"  # "complete", "deadline" or "ratings"
    stop_ratings: int | None = None
    deadline: date | None = None
    withdrawal: str = "keep"  # or "drop": what becomes of the ratings of a rater who withdraws
    feedback: bool = False  # raters see their own result once the study is unblinded
    allow_unblinded: bool = False  # whether it may hold versions of what stands in an unblinded study
    vetting: str = "rules"  # rules vet what they planted themselves; "person": a person accepts every twin
    consent: str = ""
    contact: str = ""  # whom raters can ask

    @property
    def is_crossover(self) -> bool:
        """Whether every rater reads two conditions in two sessions."""
        return self.design == "crossover"

    @property
    def is_crossed(self) -> bool:
        """Whether every rater rates every item."""
        return self.design in CROSSED

    @property
    def prevalence(self) -> float | None:
        """The share of items with a planted error; None without any source."""
        every = sum(source.count for source in self.sources)
        return sum(s.count for s in self.sources if s.perturbation != "none") / every if every else None

    def to_json(self) -> dict[str, Any]:
        """The document again, every field written out."""
        sources = [{"cast": s.cast, "perturbation": s.perturbation, "count": s.count} for s in self.sources]
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


def read(
    data: Any, casts: Collection[str], experiments: Collection[str], actions: Collection[str] = ()
) -> StudyProtocol:
    """The protocol from its JSON, given what this laboratory has. ProtocolError lists all problems."""
    if not isinstance(data, Mapping):
        raise ProtocolError(["the document must be a JSON object"])
    if found := problems(data, casts, experiments, actions):
        raise ProtocolError(found)
    return stored(data)


def problems(
    data: Mapping[str, Any], casts: Collection[str], experiments: Collection[str], actions: Collection[str] = ()
) -> list[str]:
    """Everything that is wrong with the document; each problem starts with its field."""
    return protocol_problems.problems(data, Known(casts, experiments, actions))


def guide_problems(text: Any) -> list[str]:
    """What is wrong with a study's own instructions."""
    return protocol_problems.text_problems("guide", text)


def stored(data: Mapping[str, Any]) -> StudyProtocol:
    """The protocol of a study whose document was read before: checked against nothing, what is left out is standing."""
    chosen, actions = data.get("experiments", "all"), data.get("actions", "all")
    plain = {name: data[name] for name in _PLAIN if data.get(name) is not None}
    return StudyProtocol(
        name=data["name"].strip(),
        slug=data.get("slug") or slug_of(data["name"]),
        kind=data["kind"],
        question=data.get("question") or QUESTIONS[data["kind"]],
        sources=tuple(SourceRequest(s["cast"], s.get("perturbation", "none"), s["count"]) for s in data["sources"]),
        experiments=() if chosen == "all" else tuple(chosen),
        actions=() if actions == "all" else tuple(actions),
        ratings_per_item=data["ratings_per_item"],
        raters=data.get("raters"),
        seed=data["seed"],
        guide=data.get("guide", ""),
        display=_display(data.get("display", {})),
        deadline=date.fromisoformat(data["deadline"]) if data.get("deadline") else None,
        **plain,
    )


def _display(data: Mapping[str, Any]) -> Display:
    standing = Display()
    return Display(
        layouts=tuple(data.get("layouts", standing.layouts)),
        context=tuple(data.get("context", standing.context)),
        marks=tuple(data.get("marks", standing.marks)),
        by=data.get("by", standing.by),
    )


_PLAIN = (
    "design", "conditions", "washout_days", "items_per_rater", "lease_minutes", "practice", "repeats", "repeat_distance",
    "stop", "stop_ratings", "withdrawal", "feedback", "vetting", "allow_unblinded", "consent",
    "contact",
)  # fmt: skip
