"""The blinding audit compares everything that a study's raters are sent with everything that they must not learn.

It works on a scratch copy of the database, in a separate process; only the report is written to the live database.

The report names the location and the kind of each leak, never an item and its source together: it may be read by people
who do not know the sources yet, and is exported as the blinding certificate. If the text of an item names a model,
maker, cast or source, the report gives the item's code without that name. Names that a person declared things in the
laboratory are listed without the items.
"""

from typing import Any

from django.db import transaction

from ratings.models import BlindingAudit, Study, StudyEvent
from ratings.models.study_events import Audited
from ratings.studies.blinding_audit.copy import process
from ratings.studies.blinding_audit.errors import AuditError as AuditError
from ratings.studies.blinding_audit.reports import OnProgress
from ratings.studies.blinding_audit.reports import build_report as build_report
from ratings.studies.blinding_audit.reports import compute_digest as compute_digest
from ratings.studies.blinding_audit.reports import require_opened as require_opened
from ratings.studies.lifecycle import Actor


def run_audit(study: Study, by: Actor = None, progress: OnProgress | None = None) -> BlindingAudit:
    """Audit the study, store the report and log it. Raises AuditError if no report can be made."""
    report_document = inspect_study(study, progress)
    with transaction.atomic():
        return store_report(study, report_document, by)


def inspect_study(study: Study, progress: OnProgress | None = None) -> dict[str, Any]:
    """Return the report on the study as it is now, without storing it. Raises AuditError if no report can be made.

    Do not call inside a transaction: SQLite cannot copy the database there.
    """
    require_opened(study)
    return process.inspect_copy(study, progress)


def store_report(study: Study, report: dict[str, Any], by: Actor = None) -> BlindingAudit:
    """Store the report and log it, in the transaction of the caller."""
    passed = bool(report["passed"])
    audit = BlindingAudit.objects.create(
        study=study, by=by, passed=passed, report=report, sha256=compute_digest(report)
    )
    StudyEvent.record_event(study, Audited(passed=passed), by)
    return audit


def find_latest_audit(study: Study) -> BlindingAudit | None:
    """Return the blinding certificate, which is the report of the last audit; None before the first."""
    # Two audits may end at the same time: then the later row is the later one.
    return study.audits.order_by("-at", "-pk").first()
