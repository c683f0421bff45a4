"""The study document: read strictly, every problem named with its field, its value and what is allowed."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

KINDS = ("transition_plausibility", "evidence_sufficiency")
PERTURBATIONS = ("none", "obvious", "subtle")
FIELDS = (
    "name", "slug", "kind", "question", "sources", "experiments", "actions", "design", "ratings_per_item", "raters",
    "items_per_rater", "lease_minutes", "display", "practice", "repeats", "repeat_distance", "stop", "stop_ratings",
    "deadline", "withdrawal", "feedback", "vetting", "consent", "contact", "seed", "guide",
)  # fmt: skip
QUESTIONS = {
    "transition_plausibility": "Could these results have come from this action in a real laboratory?",
    "evidence_sufficiency": "Is what was done and measured enough to say that the goal has been reached?",
}

_RESERVED = ("new",)  # the address of the page that makes studies
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MOST_RATERS = 200
_LIMITS = {"ratings_per_item": (1, 50), "raters": (1, MOST_RATERS), "seed": (0, 2**53), "count": (1, 5000)}


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
    design: str = "balanced"  # "crossed", "balanced" or "pool"
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
    vetting: str = "rules"  # rules vet what they planted themselves; "person": a person accepts every twin
    consent: str = ""
    contact: str = ""  # whom raters can ask

    @property
    def prevalence(self) -> float | None:
        """The share of items with a planted error; None without any source."""
        every = sum(source.count for source in self.sources)
        return sum(s.count for s in self.sources if s.perturbation != "none") / every if every else None

    def to_json(self) -> dict[str, Any]:
        """The document again, every field written out."""
        sources = [{"cast": s.cast, "perturbation": s.perturbation, "count": s.count} for s in self.sources]
        optional = {"raters": self.raters, "items_per_rater": self.items_per_rater, "stop_ratings": self.stop_ratings}
        return {
            "name": self.name,
            "slug": self.slug,
            "kind": self.kind,
            "question": self.question,
            "sources": sources,
            "experiments": list(self.experiments) or "all",
            "actions": list(self.actions) or "all",
            "design": self.design,
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
            "consent": self.consent,
            "contact": self.contact,
            "seed": self.seed,
            "guide": self.guide,
        }


def read(data: Any, casts: Collection[str], experiments: Collection[str]) -> StudyProtocol:
    """The protocol from its JSON, given the casts and experiments that exist. ProtocolError lists all problems."""
    if not isinstance(data, Mapping):
        raise ProtocolError(["the document must be a JSON object"])
    if problems := _problems(data, casts, experiments):
        raise ProtocolError(problems)
    return stored(data)


def stored(data: Mapping[str, Any]) -> StudyProtocol:
    """The protocol of a study whose document was read before: checked against nothing, what is left out is standing."""
    chosen, actions = data.get("experiments", "all"), data.get("actions", "all")
    display = data.get("display", {})
    plain = {name: data[name] for name in _PLAIN if name in data}
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
        display=Display(**{name: tuple(value) if name != "by" else value for name, value in display.items()}),
        deadline=date.fromisoformat(data["deadline"]) if data.get("deadline") else None,
        **plain,
    )


_PLAIN = (
    "design", "items_per_rater", "lease_minutes", "practice", "repeats", "repeat_distance", "stop", "stop_ratings",
    "withdrawal", "feedback", "vetting", "consent", "contact",
)  # fmt: skip


def slug_of(name: str) -> str:
    """The name in small letters, digits and hyphens; "" if nothing of it is left."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:80].strip("-")


def _problems(data: Mapping[str, Any], casts: Collection[str], experiments: Collection[str]) -> list[str]:
    problems = [f"{key}: unknown field; known fields: {', '.join(FIELDS)}" for key in data if key not in FIELDS]
    problems += _text_problems(data)
    if data.get("kind") not in KINDS:
        problems.append(f"kind: is {_shown(data.get('kind'))}; allowed: {', '.join(KINDS)}")
    problems += _number_problem(data, "ratings_per_item") + _number_problem(data, "seed")
    if data.get("raters") is not None:
        problems += _number_problem(data, "raters") or _too_few_raters(data)
    return problems + _experiment_problems(data, experiments) + _source_problems(data, casts)


def _text_problems(data: Mapping[str, Any]) -> list[str]:
    problems = []
    name = data.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > 120:
        problems.append(f"name: is {_shown(name)}; it must be text of 1 to 120 characters")
    elif _UNSTORABLE.search(name):
        problems.append(f"name: is {_shown(name)}; it must not contain NUL or half a surrogate pair")
    elif slug_of(name) in _RESERVED and not data.get("slug"):
        problems.append(f"slug: {slug_of(name)!r} is taken by a page of this site; give another one")
    elif not data.get("slug") and not slug_of(name):
        problems.append("slug: the name has no letters to make one of; give one in small letters, digits and hyphens")
    for key, longest in (("slug", 80), ("question", 300), ("guide", 5000)):
        value = data.get(key, "")
        if not isinstance(value, str) or len(value) > longest:
            problems.append(f"{key}: is {_shown(value)}; it must be text of at most {longest} characters")
        elif key == "slug" and value and not _SLUG.fullmatch(value):
            problems.append(f"slug: is {_shown(value)}; it must be small letters and digits with single hyphens")
        elif key == "slug" and value in _RESERVED:
            problems.append(f"slug: {value!r} is taken by a page of this site; give another one")
        elif _UNSTORABLE.search(value):
            problems.append(f"{key}: must not contain the character NUL or half a surrogate pair")
    return problems


def _number_problem(data: Mapping[str, Any], key: str, place: str = "") -> list[str]:
    value, (low, high) = data.get(key), _LIMITS[key]
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return []
    return [f"{place}{key}: is {_shown(value)}; it must be a whole number from {low} to {high}"]


def _too_few_raters(data: Mapping[str, Any]) -> list[str]:
    wanted = data.get("ratings_per_item")
    if isinstance(wanted, int) and data["raters"] < wanted:
        return [f"raters: is {data['raters']}; {wanted} ratings per item need at least {wanted} raters"]
    return []


def _experiment_problems(data: Mapping[str, Any], known: Collection[str]) -> list[str]:
    chosen = data.get("experiments", "all")
    if chosen == "all":
        return []
    if not isinstance(chosen, list) or not chosen:
        return [f'experiments: is {_shown(chosen)}; it must be "all" or a list of: {_listed(known)}']
    unknown = [slug for slug in chosen if not isinstance(slug, str) or slug not in known]
    return [f"experiments: {_shown(slug)} is not known; known experiments: {_listed(known)}" for slug in unknown]


def _source_problems(data: Mapping[str, Any], casts: Collection[str]) -> list[str]:
    sources = data.get("sources")
    if not isinstance(sources, list) or not sources or not all(isinstance(s, Mapping) for s in sources):
        return ['sources: must be a list of {"cast", "perturbation", "count"}, at least one']
    problems: list[str] = []
    seen: set[tuple[Any, Any]] = set()
    for number, source in enumerate(sources):
        place = f"sources[{number}]."
        problems += _one_source(source, place, str(data.get("kind")), casts)
        key = (repr(source.get("cast")), repr(source.get("perturbation", "none")))
        if key in seen:
            problems.append(f"{place}cast: the same cast and perturbation stand there twice")
        seen.add(key)
    return problems


def _one_source(source: Mapping[str, Any], place: str, kind: str, casts: Collection[str]) -> list[str]:
    allowed = ("cast", "perturbation", "count")
    problems = [f"{place}{key}: unknown field; known: {', '.join(allowed)}" for key in source if key not in allowed]
    cast, perturbation = source.get("cast"), source.get("perturbation", "none")
    if not isinstance(cast, str) or cast not in casts:
        problems.append(f"{place}cast: {_shown(cast)} is not known; known casts: {_listed(casts)}")
    possible = PERTURBATIONS if kind != "evidence_sufficiency" else ("none",)
    if perturbation not in possible:
        problems.append(f"{place}perturbation: is {_shown(perturbation)}; allowed: {', '.join(possible)}")
    return problems + _number_problem(source, "count", place)


def _shown(value: Any) -> str:
    return repr(value)[:80]


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none yet"
