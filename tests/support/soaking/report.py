"""The report of a soak test: as JSON for programs, as Markdown for people."""

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
    total = Counts()
    for counts in (rater.counts for rater in raters):
        total.confirmed += counts.confirmed
        total.corrected += counts.corrected
        total.pressed_twice += counts.pressed_twice
        total.retries += counts.retries
        total.faults += counts.faults
        total.errors += counts.errors
        total.seconds += counts.seconds
    return total


def wrong(every: Counts) -> dict[str, Any]:
    """Return what no rater should have met. A 500 counts even if the next try succeeded: an outage must be answered with 503."""
    errors = {"a rater saw an error": dict(every.errors), "the web server answered 500": every.faults["500"]}
    return {name: details for name, details in errors.items() if details}


def document(
    told: dict[str, Any], raters: Sequence[Rater], struck: Counter[str], played: dict[str, Any], found: dict[str, Any]
) -> dict[str, Any]:
    """Return counts of everything that happened, and the violations found after it."""
    total = gathered(raters)
    median, p95 = (float(np.percentile(total.seconds, share)) if total.seconds else None for share in (50, 95))
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": told,
        "raters": {
            "seats": len(raters),
            "answers confirmed": total.confirmed,
            "of them corrections": total.corrected,
            "pressed twice": total.pressed_twice,
            "retries": total.retries,
            "faults followed by a retry": dict(sorted(total.faults.items())),
            "errors visible to a rater": dict(sorted(total.errors.items())),
            "seconds to a confirmed answer": {"p50": median, "p95": p95, "longest": max(total.seconds, default=None)},
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
