"""Validate a study document. Every problem is reported with its field, its value and what is allowed."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any, NamedTuple

from ratings.protocol import crossover_rules

TRANSITION, EVIDENCE = KINDS = ("transition_plausibility", "evidence_sufficiency")
PERTURBATIONS = ("none", "obvious", "subtle")
DESIGNS = ("crossed", "balanced", "pool", "crossover")
CROSSED = ("crossed", "crossover")  # every rater rates every item
CONDITIONS = ("sources", "twins", "screens")  # what the two sessions of a crossover compare
LAYOUTS = ("plain", "aligned", "balance", "confirm")
MARKS = ("off", "if_not_plausible", "always")
STOPS = ("complete", "deadline", "ratings")
FIELDS = (
    "name", "slug", "kind", "question", "sources", "experiments", "actions", "design", "conditions", "washout_days",
    "ratings_per_item", "raters", "items_per_rater", "lease_minutes", "display", "practice", "repeats", "repeat_distance", "stop", "stop_ratings",
    "deadline", "withdrawal", "feedback", "vetting", "allow_unblinded", "consent", "contact", "seed", "guide",
)  # fmt: skip
MAX_RATERS = 200
# The seed ends at 2**53: larger integers are not exact in programs that read JSON numbers as floating point.
LIMITS = {
    "ratings_per_item": (1, 50), "raters": (1, MAX_RATERS), "items_per_rater": (1, 5000), "lease_minutes": (5, 1440),
    "washout_days": (0, 365),
    "practice": (0, 3), "repeat_distance": (1, 1000), "stop_ratings": (1, 500_000), "seed": (0, 2**53),
    "count": (1, 5000),  # count is checked for each source, not for the document
}  # fmt: skip
MAX_LENGTHS = {"slug": 80, "question": 300, "guide": 5000, "consent": 5000, "contact": 200}
MAX_REPEATS = 0.5

_CHOICES = {"kind": KINDS, "design": DESIGNS, "conditions": CONDITIONS, "stop": STOPS, "withdrawal": ("keep", "drop"), "vetting": ("rules", "person")}  # fmt: skip
_SWITCHES = ("feedback", "allow_unblinded")
_REQUIRED = ("kind", "ratings_per_item", "seed")
_ARMS: dict[str, tuple[Any, ...]] = {"layouts": LAYOUTS, "context": (False, True), "marks": MARKS}
_RESERVED = ("new",)  # the URL of the page that creates studies
# Control characters, line separators, marks that reverse the writing direction, unpaired surrogates: they hide text
# from readers.
_INVISIBLE = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PARAGRAPHS = ("guide", "consent")  # here line breaks and tabs are text
_INVISIBLE_MESSAGE = "must not contain control characters or marks that reverse the writing direction"
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")  # no double hyphens, so that a name has one possible address
Document = Mapping[str, Any]


class KnownNames(NamedTuple):
    """The names that exist in this laboratory. If `actions` is empty, names of actions are not checked."""

    casts: Collection[str]
    experiments: Collection[str]
    actions: Collection[str] = ()


def list_problems(data: Document, known: KnownNames) -> list[str]:
    """Return every problem of the document. A rule that combines fields is checked only if each of its fields is
    valid by itself.
    """
    messages = (
        _find_unknown_fields(data)
        + _find_all_text_problems(data)
        + _find_choice_problems(data)
        + _find_number_problems(data)
    )
    messages += _find_other_problems(data) + find_display_problems(data.get("display", {}))
    messages += _find_unknown_names("experiments", data, known.experiments) + _find_unknown_names(
        "actions", data, known.actions
    )
    messages += find_source_problems(data, known.casts)
    # The field is the text before the first of : [ .
    invalid_fields = {problem.partition(":")[0].partition("[")[0].partition(".")[0] for problem in messages}
    # A rule that combines fields could not handle a value of the wrong type, and its message would repeat the first
    # problem.
    return messages + [
        said for fields, rule in _RULES if not invalid_fields.intersection(fields) for said in rule(data)
    ]


def make_slug(name: str) -> str:
    """Return the name in small letters, digits and hyphens; "" if nothing remains."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))[:80].strip("-")


def find_text_problems(key: str, value: Any) -> list[str]:
    """Return the problems of the text field `key`, such as the guide."""
    if not isinstance(value, str) or len(value) > MAX_LENGTHS[key]:
        return [f"{key}: is {_format_value(value)}; it must be text of at most {MAX_LENGTHS[key]} characters"]
    # Line breaks and tabs are allowed in longer texts, and only there.
    text = re.sub("[\t\n\r]", " ", value) if key in _PARAGRAPHS else value
    return [f"{key}: {_INVISIBLE_MESSAGE}"] if _INVISIBLE.search(text) else []


def _find_unknown_fields(data: Document) -> list[str]:
    return [f"{key}: unknown field; known fields: {', '.join(FIELDS)}" for key in data if key not in FIELDS]


def _find_all_text_problems(data: Document) -> list[str]:
    messages = [said for key in MAX_LENGTHS for said in find_text_problems(key, data.get(key, ""))]
    slug = data.get("slug", "")
    if isinstance(slug, str) and slug and not any(said.startswith("slug:") for said in messages):
        messages += _find_slug_problems(slug)
    return _find_name_problems(data.get("name"), bool(slug)) + messages


def _find_slug_problems(slug: str) -> list[str]:
    if not _SLUG.fullmatch(slug):
        return [f"slug: is {_format_value(slug)}; it must be small letters and digits with single hyphens"]
    return [f"slug: {slug!r} is reserved for a page of this site; choose another one"] if slug in _RESERVED else []


def _find_name_problems(name: Any, has_slug: bool) -> list[str]:
    if not isinstance(name, str) or not name.strip() or len(name) > 120:
        return [f"name: is {_format_value(name)}; it must be text of 1 to 120 characters"]
    if _INVISIBLE.search(name):
        return [f"name: is {_format_value(name)}; it {_INVISIBLE_MESSAGE}"]
    if has_slug:
        return []
    if not make_slug(name):
        return ["slug: the name has no letters to derive it from; enter one in small letters, digits and hyphens"]
    return _find_slug_problems(make_slug(name))


def _find_choice_problems(data: Document) -> list[str]:
    values = {key: data.get(key) for key in _CHOICES if key in data or key in _REQUIRED}
    return [
        f"{key}: is {_format_value(value)}; allowed: {', '.join(_CHOICES[key])}"
        for key, value in values.items()
        if value not in _CHOICES[key]
    ]


def _find_number_problems(data: Document) -> list[str]:
    fields = [key for key in LIMITS if key in _REQUIRED or (key != "count" and data.get(key) is not None)]
    return [said for key in fields for said in _check_number(data, key)]


def _check_number(data: Document, key: str, place: str = "") -> list[str]:
    value, (low, high) = data.get(key), LIMITS[key]
    # True is an int in Python, but no number in a document.
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return []
    return [f"{place}{key}: is {_format_value(value)}; it must be a whole number from {low} to {high}"]


def _find_other_problems(data: Document) -> list[str]:
    messages = []
    repeats, deadline = data.get("repeats", 0), data.get("deadline")
    if isinstance(repeats, bool) or not isinstance(repeats, int | float) or not 0 <= repeats <= MAX_REPEATS:
        messages.append(f"repeats: is {_format_value(repeats)}; it must be a share from 0 to {MAX_REPEATS}")
    if deadline is not None and not _is_iso_date(deadline):
        messages.append(f"deadline: is {_format_value(deadline)}; it must be a day such as 2027-03-31")
    for key in _SWITCHES:
        if not isinstance(data.get(key, False), bool):
            messages.append(f"{key}: is {_format_value(data[key])}; allowed: true, false")
    return messages


def _is_iso_date(value: Any) -> bool:
    try:
        # Compared again: fromisoformat also accepts 20270331 and weeks, which other readers of the document may not.
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def find_display_problems(display: Any) -> list[str]:
    """Return the problems of the display arms."""
    known = (*_ARMS, "by")
    if not isinstance(display, Mapping):
        return [f"display: is {_format_value(display)}; it must be an object with {', '.join(known)}"]
    messages = [f"display.{key}: unknown field; known: {', '.join(known)}" for key in display if key not in known]
    messages += [said for key in _ARMS if key in display for said in _find_arm_problems(key, display[key])]
    if display.get("by", "rater") not in ("rater", "item"):
        messages.append(f"display.by: is {_format_value(display['by'])}; allowed: rater, item")
    return messages


def _find_arm_problems(key: str, value: Any) -> list[str]:
    allowed = _ARMS[key]
    allowed_text = ", ".join(str(one).lower() for one in allowed)
    # Compared by type and text: 1 equals True in Python, and the value may not be hashable.
    known = [(type(one), repr(one)) for one in allowed]
    if not isinstance(value, list) or not value or any((type(one), repr(one)) not in known for one in value):
        return [f"display.{key}: is {_format_value(value)}; it must be a list, not empty, of: {allowed_text}"]
    return [f"display.{key}: contains the same value twice"] if len(set(value)) < len(value) else []


def _find_unknown_names(key: str, data: Document, known: Collection[str]) -> list[str]:
    chosen = data.get(key, "all")
    if chosen == "all":
        return []
    if not isinstance(chosen, list) or not chosen:
        return [f'{key}: is {_format_value(chosen)}; it must be "all" or a list of: {_format_names(known)}']
    unchecked = key == "actions" and not known  # without a list of actions nothing is known about their names
    unknown = [name for name in chosen if not isinstance(name, str) or not (unchecked or name in known)]
    return [f"{key}: {_format_value(name)} is not known; known {key}: {_format_names(known)}" for name in unknown]


def find_source_problems(data: Document, casts: Collection[str]) -> list[str]:
    """Return the problems of the sources. An empty list is valid in a draft, because its items may be imported."""
    sources = data.get("sources")
    if not isinstance(sources, list) or not all(isinstance(source, Mapping) for source in sources):
        return ['sources: must be a list of {"cast", "perturbation", "count"}']
    messages: list[str] = []
    seen: set[tuple[str, str]] = set()
    for number, source in enumerate(sources):
        place = f"sources[{number}]."
        messages += _check_source(source, place, str(data.get("kind")), casts)
        # `repr`, because a wrong value may be a list, which a set cannot contain.
        key = (repr(source.get("cast")), repr(source.get("perturbation", "none")))
        if key in seen:
            messages.append(f"{place}cast: the same cast and perturbation occur twice")
        seen.add(key)
    return messages


def _check_source(source: Document, place: str, kind: str, casts: Collection[str]) -> list[str]:
    allowed = ("cast", "perturbation", "count")
    messages = [f"{place}{key}: unknown field; known: {', '.join(allowed)}" for key in source if key not in allowed]
    cast, perturbation = source.get("cast"), source.get("perturbation", "none")
    if not isinstance(cast, str) or cast not in casts:
        messages.append(f"{place}cast: {_format_value(cast)} is not known; known casts: {_format_names(casts)}")
    # A record of evidence has no twins, so nothing can be planted in it.
    allowed_perturbations = PERTURBATIONS if kind != EVIDENCE else ("none",)
    if perturbation not in allowed_perturbations:
        messages.append(
            f"{place}perturbation: is {_format_value(perturbation)}; allowed: {', '.join(allowed_perturbations)}"
        )
    return messages + _check_number(source, "count", place)


def _check_rater_count(data: Document) -> list[str]:
    needed, raters, is_crossed = data["ratings_per_item"], data.get("raters"), data.get("design") in CROSSED
    if raters is None or raters == needed or (raters > needed and not is_crossed):
        return []
    if is_crossed:
        return [f"raters: is {raters}; in a crossed design every rater rates every item: {needed}, as ratings_per_item"]
    return [f"raters: is {raters}; {needed} ratings per item need at least {needed} raters"]


def _check_items_per_rater(data: Document) -> list[str]:
    """Return a problem if the raters together cannot rate all items. A pool study can be given more raters later."""
    limit, design = data.get("items_per_rater"), data.get("design", "balanced")
    items = sum(source["count"] for source in data["sources"])
    raters = data["ratings_per_item"] if design in CROSSED else data.get("raters")
    if limit is None or raters is None or design == "pool":
        return []
    needed = -(-items * data["ratings_per_item"] // raters)  # rounded up
    if limit >= needed:
        return []
    return [f"items_per_rater: is {limit}; {items} items among {raters} raters need at least {needed}"]


def _check_stop_rule(data: Document) -> list[str]:
    messages, stop = [], data.get("stop", "complete")
    if stop == "deadline" and not data.get("deadline"):
        messages.append("deadline: is missing; a study that stops at its deadline needs one")
    if stop == "ratings" and data.get("stop_ratings") is None:
        messages.append("stop_ratings: is missing; a study that stops at a number of ratings needs one")
    if stop != "ratings" and data.get("stop_ratings") is not None:
        messages.append(f'stop_ratings: is {data["stop_ratings"]}; it requires stop "ratings"')
    return messages


def _check_evidence_display(data: Document) -> list[str]:
    display = data.get("display", {})
    if data["kind"] != EVIDENCE:
        return []
    messages = []
    if display.get("layouts", ["aligned"]) not in (["plain"], ["aligned"]):
        messages.append("display.layouts: a record of evidence has one layout; allowed: plain alone or aligned alone")
    if display.get("context", [False]) != [False]:
        messages.append("display.context: a record of evidence always shows goal and steps; allowed: false alone")
    return messages


Rule = Callable[[Document], list[str]]
_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (("raters", "ratings_per_item", "design"), _check_rater_count),
    (("items_per_rater", "raters", "ratings_per_item", "design", "sources"), _check_items_per_rater),
    (("stop", "stop_ratings", "deadline"), _check_stop_rule),
    (("kind", "display"), _check_evidence_display),
    (crossover_rules.FIELDS, crossover_rules.find_crossover_problems),
)


# 80 characters: a pasted document may hold megabytes in one value.
def _format_value(value: Any) -> str:
    return repr(value)[:80]


def _format_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none yet"
