"""The blinding audit: everything that a study's raters are sent, held against everything they must not learn.

The report names the place and the kind of each leak, never an item and its source together: it may be read by those
who do not know the sources yet, and goes into the export as the blinding certificate. An item whose text names a model,
maker, cast or source is named by its code, without the name. Names that a person declared things in the laboratory are
listed without the items.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone

from ratings.audit.findings import DECLARED, OTHER_STUDIES, Check
from ratings.audit.sealed import sealed
from ratings.audit.visits import ChangedError
from ratings.models import Assignment, BlindingAudit, Study, StudyEvent
from ratings.studies import Actor
from ratings.study_events import Audited

# Since 2 an undecided check has passed null; since 3 checks have their power; since 4 other studies count; since 5
# names that were declared things in the laboratory are listed, and the power to find a style is measured.
VERSION = 5


class AuditError(ValueError):
    """Nothing can be said of this study now; the message says why, for people."""


def run(study: Study, by: Actor = None, progress: Callable[[int, int], None] | None = None) -> BlindingAudit:
    """Look at everything, store the report, and log it. Nothing else is left behind."""
    refuse_unopened(study)
    report = inspect(study, progress)
    with transaction.atomic():
        return store(study, report, by)


def refuse_unopened(study: Study) -> None:
    """AuditError where there is nothing to look at."""
    if study.is_draft or not study.items.exists():
        raise AuditError(f"{study.name} has no items yet: a blinding audit looks at an opened study")


def store(study: Study, report: dict[str, Any], by: Actor = None) -> BlindingAudit:
    """Keep the report and log it, in the transaction of whoever calls."""
    passed = bool(report["passed"])
    audit = BlindingAudit.objects.create(study=study, by=by, passed=passed, report=report, sha256=digest(report))
    StudyEvent.record(study, Audited(passed=passed), by)
    return audit


def inspect(study: Study, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """The report. Whatever is written on the way is undone. AuditError if the study does not keep still for it."""
    try:
        checks = _checks(study, progress)
    except ChangedError as error:
        raise AuditError(
            f"{study.name} was changed while it was being audited, so nothing can be said: audit it again, best while it "
            "is paused"
        ) from error
    return report(study, checks)


def _checks(study: Study, progress: Callable[[int, int], None] | None) -> list[Check]:
    # Not with the module: scikit-learn comes with them, and every process that knows this page would wait for it.
    from ratings.audit import elsewhere, looking, orders, payloads, responses, tells, wording

    secrets = sealed(study)
    found = [*payloads.checks(study, secrets), *elsewhere.checks(study), *orders.checks(study)]
    found += [*tells.checks(study), *wording.checks(study)]
    raters = study.raters.count()
    seen = responses.Responses(study, secrets)
    for done in looking.look(seen):
        if progress:
            progress(min(done, raters), raters)
    return [*found, *seen.checks()]


def report(study: Study, checks: list[Check]) -> dict[str, Any]:
    """What these checks found, as it is stored."""
    told = [check.to_json() for check in checks]
    return {
        "version": VERSION,
        "study": {"slug": study.slug, "code": str(study.code), "kind": study.kind, "status": study.status},
        "at": timezone.now().isoformat(timespec="seconds"),
        "passed": not any(check.failed for check in checks),
        "not_decided": [check.name for check in checks if check.is_undecided],
        "items": study.items.count(),
        "raters": study.raters.count(),
        "assignments": Assignment.objects.filter(rater__study=study).count(),
        "leaks": [leak for one in told for leak in one["leaks"]],
        "other_studies": next((one["measured"] for one in told if one["name"] == OTHER_STUDIES), {}),
        DECLARED: [row for one in told for row in one["measured"].get(DECLARED, [])],
        "known_tells": [tell for one in told for tell in one["measured"].get("known_tells", [])],
        "checks": told,
    }


def digest(report: dict[str, Any]) -> str:
    """SHA-256 of the report in canonical form."""
    text = json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def latest(study: Study) -> BlindingAudit | None:
    """The blinding certificate: what the last audit found."""
    return study.audits.order_by("-at", "-pk").first()
