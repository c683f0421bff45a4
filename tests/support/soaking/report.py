"""What a soak has come to: as JSON for a machine, as Markdown for a person."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.soaking.rater import Counts, Rater


def gathered(raters: Sequence[Rater]) -> Counts:
    """All raters as one."""
    every = Counts()
    for counts in (rater.counts for rater in raters):
        every.confirmed += counts.confirmed
        every.corrected += counts.corrected
        every.pressed_twice += counts.pressed_twice
        every.retries += counts.retries
        every.faults += counts.faults
        every.errors += counts.errors
        every.seconds += counts.seconds
    return every


def wrong(every: Counts) -> dict[str, Any]:
    """What no rater should have met. A 500 is wrong even if the next try was taken: whatever is away is answered 503."""
    found = {"a rater saw an error": dict(every.errors), "the web server answered 500": every.faults["500"]}
    return {name: shown for name, shown in found.items() if shown}


def document(
    told: dict[str, Any], raters: Sequence[Rater], struck: Counter[str], played: dict[str, Any], found: dict[str, Any]
) -> dict[str, Any]:
    """Counts of all that happened, and what was wrong after it."""
    every = gathered(raters)
    half, most = (float(np.percentile(every.seconds, share)) if every.seconds else None for share in (50, 95))
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": told,
        "raters": {
            "seats": len(raters),
            "answers confirmed": every.confirmed,
            "of them corrections": every.corrected,
            "pressed twice": every.pressed_twice,
            "tries beyond the first": every.retries,
            "faults that were tried again": dict(sorted(every.faults.items())),
            "errors that a rater saw": dict(sorted(every.errors.items())),
            "seconds to a confirmed answer": {"p50": half, "p95": most, "longest": max(every.seconds, default=None)},
        },
        "struck": dict(sorted(struck.items())),
        "played": played,
        "wrong": found,
    }


def write(folder: Path, whole: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak-report.json").write_text(json.dumps(whole, indent=2, default=str) + "\n", encoding="utf-8")
    page = folder / "soak-report.md"
    page.write_text(text(whole), encoding="utf-8")
    return page


def text(whole: dict[str, Any]) -> str:
    verdict = "Something is wrong" if whole["wrong"] else "Nothing lost, nothing doubled"
    parts = [f"# {verdict}", f"{whole['at']}, with {_pairs(whole['asked'])}."]
    for name in ("raters", "struck", "played", "wrong"):
        parts.append(f"## {name.capitalize()}\n\n" + (_lines(whole[name]) or "Nothing."))
    return "\n\n".join(parts) + "\n"


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return _pairs(value) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_shown(value)}" for name, value in values.items())
