"""Rules for the document of a crossover study: two conditions, rated by every rater in two sessions."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

FIELDS = (
    "kind", "design", "conditions", "washout_days", "sources", "items_per_rater", "repeats", "display",
)  # fmt: skip
_OTHER_DESIGNS = 'choose design "crossed" or "balanced" instead'
Document = Mapping[str, Any]


def find_crossover_problems(data: Document) -> list[str]:
    """Return what in this document cannot be combined with a crossover, each with an alternative.

    For other designs, return the fields that only a crossover may have.
    """
    if data.get("design") != "crossover":
        return _find_crossover_only_fields(data)
    conditions = data.get("conditions")
    messages = _find_excluded_options(data)
    if conditions is None:
        return [*messages, "conditions: is missing; a crossover compares sources, twins or screens"]
    n_screens = _count_screens(data.get("display", {}))
    # The two screens are the conditions; with any other number of arms the sessions could not be balanced.
    if conditions == "screens":
        return (
            messages
            if n_screens == 2
            else [*messages, f"display: makes {n_screens} screens; a crossover of screens compares exactly 2"]
        )
    if n_screens != 1:
        messages.append(
            f"display: makes {n_screens} screens; a crossover of {conditions} has one screen for all: keep one of each list, "
            'or compare screens with conditions "screens"'
        )
    return messages + (
        _check_equal_sources(data["sources"]) if conditions == "sources" else _check_equal_twins(data["sources"])
    )


def _find_crossover_only_fields(data: Document) -> list[str]:
    fields = [name for name in ("conditions", "washout_days") if data.get(name) is not None]
    return [f'{name}: is {data[name]!r}; it requires design "crossover": leave it out' for name in fields]


def _find_excluded_options(data: Document) -> list[str]:
    messages = []
    if data["kind"] == "evidence_sufficiency":
        messages.append(f"design: a record of evidence has no versions to compare: {_OTHER_DESIGNS}")
    if data.get("repeats"):
        messages.append(
            f"repeats: is {data['repeats']}; in a crossover no item is shown twice: choose 0, or measure test-retest "
            "agreement in a study with another design"
        )
    if data.get("items_per_rater") is not None:
        messages.append(
            f"items_per_rater: is {data['items_per_rater']}; in a crossover every rater rates every item: leave it out and "
            "request fewer items"
        )
    return messages


def _count_screens(display: Mapping[str, Any]) -> int:
    fields = ("layouts", "context", "marks")
    n_screens = 1
    for name in fields:
        n_screens *= len(display.get(name, [None]))
    return n_screens


def _check_equal_sources(sources: list[Mapping[str, Any]]) -> list[str]:
    """Return a problem unless two casts are requested with the same number of each planted error, and of none."""
    if not sources:  # only imported items, which are checked when the study opens
        return []
    # No set: a set has no fixed order, and the message must be the same each time.
    casts = list(dict.fromkeys(source["cast"] for source in sources))
    if len(casts) != 2:
        return [f"sources: contains {_format_count(len(casts), 'cast')}; a crossover of sources compares exactly 2"]
    # Equal counts per planted error: otherwise the error rate would differ between the conditions and explain the
    # difference by itself.
    counts_by_cast = [
        {s.get("perturbation", "none"): s["count"] for s in sources if s["cast"] == cast} for cast in casts
    ]
    if counts_by_cast[0] == counts_by_cast[1]:
        return []
    first, second = (", ".join(f"{count} {name}" for name, count in sorted(part.items())) for part in counts_by_cast)
    return [f"sources: {casts[0]} has {first} and {casts[1]} has {second}; both must have the same counts"]


def _check_equal_twins(sources: list[Mapping[str, Any]]) -> list[str]:
    """Return a problem unless there is one cast of originals and as many twins as originals."""
    if not sources:
        return []
    counts = Counter[str]()
    originals = [source["cast"] for source in sources if source.get("perturbation", "none") == "none"]
    for source in sources:
        # Each twin needs its own original, because no pair is used in two cases.
        counts["originals" if source.get("perturbation", "none") == "none" else "twins"] += source["count"]
    if len(originals) == 1 and counts["originals"] == counts["twins"]:
        return []
    return [
        f"sources: contains {_format_count(len(originals), 'cast')} of originals, {_format_count(counts['originals'], 'original')} and "
        f"{_format_count(counts['twins'], 'twin')}; a crossover of twins has one cast of originals and as many twins as originals"
    ]


def _format_count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
