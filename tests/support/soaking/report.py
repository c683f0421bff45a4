"""The report of a soak test: as JSON for programs, as Markdown for people."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.soaking.rater import RaterCounts, SoakRater


def sum_counts(raters: Sequence[SoakRater]) -> RaterCounts:
    """All raters as one."""
    total = RaterCounts()
    for counts in (rater.counts for rater in raters):
        total.confirmed += counts.confirmed
        total.corrected += counts.corrected
        total.repeated_clicks += counts.repeated_clicks
        total.retries += counts.retries
        total.faults += counts.faults
        total.errors += counts.errors
        total.seconds += counts.seconds
    return total


def find_visible_errors(every: RaterCounts) -> dict[str, Any]:
    """Return what no rater should have met. A 500 counts even if the next try succeeded: an outage must be answered with 503."""
    errors = {"a rater saw an error": dict(every.errors), "the web server answered 500": every.faults["500"]}
    return {name: details for name, details in errors.items() if details}


def build_report(
    options: dict[str, Any],
    raters: Sequence[SoakRater],
    failures: Counter[str],
    episodes: dict[str, Any],
    violations: dict[str, Any],
) -> dict[str, Any]:
    """Return counts of everything that happened, and the violations found after it."""
    total = sum_counts(raters)
    median, p95 = (float(np.percentile(total.seconds, share)) if total.seconds else None for share in (50, 95))
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": options,
        "raters": {
            "raters": len(raters),
            "answers confirmed": total.confirmed,
            "of them corrections": total.corrected,
            "pressed twice": total.repeated_clicks,
            "retries": total.retries,
            "faults followed by a retry": dict(sorted(total.faults.items())),
            "errors visible to a rater": dict(sorted(total.errors.items())),
            "seconds to a confirmed answer": {"p50": median, "p95": p95, "longest": max(total.seconds, default=None)},
        },
        "struck": dict(sorted(failures.items())),
        "played": episodes,
        "wrong": violations,
    }


def write_report(folder: Path, report: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak-report.json").write_text(json.dumps(report, indent=2, default=str) + "\n", encoding="utf-8")
    page = folder / "soak-report.md"
    page.write_text(format_report(report), encoding="utf-8")
    return page


def format_report(report: dict[str, Any]) -> str:
    verdict = "Something is wrong" if report["wrong"] else "Nothing lost, nothing doubled"
    parts = [f"# {verdict}", f"{report['at']}, with {_format_pairs(report['asked'])}."]
    for name in ("raters", "struck", "played", "wrong"):
        parts.append(f"## {name.capitalize()}\n\n" + (_format_list(report[name]) or "Nothing."))
    return "\n\n".join(parts) + "\n"


def _format_list(values: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {_format_value(value)}" for name, value in values.items())


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return _format_pairs(value) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _format_pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_format_value(value)}" for name, value in values.items())
