"""What a crossover study may ask for: two conditions, read by every rater in two sessions. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

FIELDS = (
    "kind", "design", "conditions", "washout_days", "sources", "items_per_rater", "repeats", "display",
)  # fmt: skip
_OTHERS = 'choose design "crossed" or "balanced" instead'
Document = Mapping[str, Any]


def problems(data: Document) -> list[str]:
    """Return what a crossover cannot be combined with, each with what to choose instead; [] for other designs."""
    if data.get("design") != "crossover":
        return _only_in_a_crossover(data)
    conditions = data.get("conditions")
    found = _refused(data)
    if conditions is None:
        return [*found, "conditions: is missing; a crossover compares sources, twins or screens"]
    arms = _arms(data.get("display", {}))
    if conditions == "screens":
        return (
            found
            if arms == 2
            else [*found, f"display: makes {arms} screens; a crossover of screens compares exactly 2"]
        )
    if arms != 1:
        found.append(
            f"display: makes {arms} screens; a crossover of {conditions} has one screen for all: keep one of each list, "
            'or compare screens with conditions "screens"'
        )
    return found + (_sources(data["sources"]) if conditions == "sources" else _twins(data["sources"]))


def _only_in_a_crossover(data: Document) -> list[str]:
    given = [name for name in ("conditions", "washout_days") if data.get(name) is not None]
    return [f'{name}: is {data[name]!r}; it goes with design "crossover" alone: leave it out' for name in given]


def _refused(data: Document) -> list[str]:
    found = []
    if data["kind"] == "evidence_sufficiency":
        found.append(f"design: a record of evidence has no versions to cross over: {_OTHERS}")
    if data.get("repeats"):
        found.append(
            f"repeats: is {data['repeats']}; in a crossover no item is shown twice: choose 0, or measure agreement with "
            "oneself in a study of another design"
        )
    if data.get("items_per_rater") is not None:
        found.append(
            f"items_per_rater: is {data['items_per_rater']}; in a crossover every rater rates every item: leave it out and "
            "ask for fewer items"
        )
    return found


def _arms(display: Mapping[str, Any]) -> int:
    lists = ("layouts", "context", "marks")
    many = 1
    for name in lists:
        many *= len(display.get(name, [None]))
    return many


def _sources(sources: list[Mapping[str, Any]]) -> list[str]:
    """Two casts that are asked for the same: each planted error, or none, as often from the one as from the other."""
    if not sources:  # imported items, which are checked when the study opens
        return []
    casts = list(dict.fromkeys(source["cast"] for source in sources))
    if len(casts) != 2:
        return [f"sources: name {_many(len(casts), 'cast')}; a crossover of sources compares exactly 2"]
    asked = [{s.get("perturbation", "none"): s["count"] for s in sources if s["cast"] == cast} for cast in casts]
    if asked[0] == asked[1]:
        return []
    one, other = (", ".join(f"{count} {name}" for name, count in sorted(part.items())) for part in asked)
    return [f"sources: {casts[0]} has {one} and {casts[1]} has {other}; both must be asked for the same"]


def _twins(sources: list[Mapping[str, Any]]) -> list[str]:
    """One cast of originals, and as many twins in all."""
    if not sources:
        return []
    counts = Counter[str]()
    originals = [source["cast"] for source in sources if source.get("perturbation", "none") == "none"]
    for source in sources:
        counts["originals" if source.get("perturbation", "none") == "none" else "twins"] += source["count"]
    if len(originals) == 1 and counts["originals"] == counts["twins"]:
        return []
    return [
        f"sources: name {_many(len(originals), 'cast')} of originals, {_many(counts['originals'], 'original')} and "
        f"{_many(counts['twins'], 'twin')}; a crossover of twins has one cast of originals and as many twins as originals"
    ]


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
