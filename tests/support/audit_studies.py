"""Studies of a finished laboratory, their blinding audits, and the text of what leaks."""

from typing import Any

from ratings.models import (
    EVIDENCE,
    TRANSITION,
    Study,
)
from ratings.studies import lifecycle
from ratings.studies.blinding_audit import audit_runner

SLUG = "zebrafish-genotyping"


def open_study_to_audit(kind: str = TRANSITION, each: int = 3, **changes: Any) -> Study:
    sources = [("offline", "none", each), ("offline", "obvious", each), ("offline", "subtle", each)]
    if kind == EVIDENCE:
        sources = [("offline", "none", 1), ("offline-lapses", "none", 3)]
    document = {
        "name": "Round one",
        "kind": kind,
        "sources": [{"cast": c, "perturbation": p, "count": n} for c, p, n in sources],
        "ratings_per_item": 1,
        "seed": 8,
        **changes,
    }
    study = lifecycle.create_study(lifecycle.parse_protocol(document))
    lifecycle.open_study(study, changes.get("raters", 3))
    study.refresh_from_db()
    return study


def run_audit(study: Study) -> dict[str, Any]:
    return audit_runner.inspect_study(study)


def describe_leaks(report: dict[str, Any], name: str) -> str:
    """Return what the check of this name found; the check must have failed."""
    check = next(one for one in report["checks"] if one["name"] == name)
    assert not check["passed"] and not report["passed"]
    return "\n".join(f"{leak['where']}: {leak['what']}" for leak in check["leaks"])


def add_leak(settings: Any, middleware: str) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"tests.support.leaking_middleware.{middleware}"]
