"""The report of a blinding audit as it is stored, and its digest."""

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from ratings.models import Assignment, Study
from ratings.studies.blinding_audit.errors import AuditError
from ratings.studies.blinding_audit.findings import DECLARED, OTHER_STUDIES, Check

OnProgress = Callable[[int, int], None]  # raters visited, and all raters
# Since 2 `passed` of an undecided check is null; since 3 checks have their power; since 4 other studies are checked; since 5
# names that were declared things in the laboratory are listed, and the power to detect a style is measured; since 6 the
# audit works on a copy, and `copied_at` is the time of the copy.
REPORT_VERSION = 6


def require_opened(study: Study) -> None:
    """Raise AuditError if the study has no items that raters could be sent."""
    if study.is_draft or not study.items.exists():
        raise AuditError(f"{study.name} has no items yet: open the study before you audit it")


def build_report(study: Study, checks: Sequence[Check], copied_at: datetime | None = None) -> dict[str, Any]:
    """Return the report of these checks on the study as it was at `copied_at` (by default now)."""
    results = [check.to_dict() for check in checks]
    now = timezone.now()
    return {
        "version": REPORT_VERSION,
        "study": {"slug": study.slug, "code": str(study.code), "kind": study.kind, "status": study.status},
        "copied_at": (copied_at or now).isoformat(timespec="seconds"),
        "at": now.isoformat(timespec="seconds"),
        "passed": not any(check.has_failed for check in checks),
        "not_decided": [check.name for check in checks if check.is_undecided],
        "items": study.items.count(),
        "raters": study.raters.count(),
        "assignments": Assignment.objects.filter(rater__study=study).count(),
        "leaks": [leak for check in results for leak in check["leaks"]],
        "other_studies": next((check["measured"] for check in results if check["name"] == OTHER_STUDIES), {}),
        DECLARED: [row for check in results for row in check["measured"].get(DECLARED, [])],
        "known_tells": [tell for check in results for tell in check["measured"].get("known_tells", [])],
        "checks": results,
    }


def compute_digest(report: dict[str, Any]) -> str:
    """Return the SHA-256 of the report in canonical form."""
    # Independent of the order of keys, which a database need not preserve.
    text = json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
