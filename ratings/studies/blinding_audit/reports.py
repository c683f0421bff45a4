"""The report of a blinding audit as it is stored, with its digest."""

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from ratings.models import Assignment, Study
from ratings.studies.blinding_audit.errors import AuditError
from ratings.studies.blinding_audit.findings import DECLARED, OTHER_STUDIES, Check

Progress = Callable[[int, int], None]  # raters that have been visited, and raters in all
# Since 2 an undecided check has passed null; since 3 checks have their power; since 4 other studies count; since 5
# names that were declared things in the laboratory are listed, and the power to find a style is measured; since 6 the
# audit works on a copy, and `copied_at` is its moment.
VERSION = 6


def refuse_unopened(study: Study) -> None:
    """AuditError if the study has no items that raters could be sent."""
    if study.is_draft or not study.items.exists():
        raise AuditError(f"{study.name} has no items yet: a blinding audit looks at an opened study")


def report(study: Study, checks: Sequence[Check], copied_at: datetime | None = None) -> dict[str, Any]:
    """Return what these checks found, of the study as it was at `copied_at` (by default now)."""
    found = [check.to_json() for check in checks]
    now = timezone.now()
    return {
        "version": VERSION,
        "study": {"slug": study.slug, "code": str(study.code), "kind": study.kind, "status": study.status},
        "copied_at": (copied_at or now).isoformat(timespec="seconds"),
        "at": now.isoformat(timespec="seconds"),
        "passed": not any(check.failed for check in checks),
        "not_decided": [check.name for check in checks if check.is_undecided],
        "items": study.items.count(),
        "raters": study.raters.count(),
        "assignments": Assignment.objects.filter(rater__study=study).count(),
        "leaks": [leak for check in found for leak in check["leaks"]],
        "other_studies": next((check["measured"] for check in found if check["name"] == OTHER_STUDIES), {}),
        DECLARED: [row for check in found for row in check["measured"].get(DECLARED, [])],
        "known_tells": [tell for check in found for tell in check["measured"].get("known_tells", [])],
        "checks": found,
    }


def digest(report: dict[str, Any]) -> str:
    """Return the SHA-256 of the report in canonical form."""
    text = json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
