"""The blinding audit compares everything that a study's raters are sent with everything that they must not learn.

It works on a scratch copy of the database, in a separate process; only the report is written to the live database.

The report names the location and the kind of each leak, never an item and its source together: it may be read by people
who do not know the sources yet, and is exported as the blinding certificate. If the text of an item names a model,
maker, cast or source, the report gives the item's code without that name. Names that a person declared things in the
laboratory are listed without the items.
"""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from ratings.models import Assignment, BlindingAudit, Study, StudyEvent
from ratings.models.study_events import Audited
from ratings.studies import access
from ratings.studies.blinding_audit.findings import DECLARED, OTHER_STUDIES, Check
from ratings.studies.blinding_audit.findings import AuditError as AuditError
from ratings.studies.blinding_audit.scratch_copy import SETTING_NAME, ScratchCopy, create_scratch_copy
from ratings.studies.lifecycle import Actor
from simulation.jobs import Outcome, Work, jobs
from simulation.models import Job
from wetbench_site.text import hash_text

log = logging.getLogger("wetbench.audit")
JOB_KIND = "audit"
OnProgress = Callable[[int, int], None]  # raters visited, and all raters
# Since 2 `passed` of an undecided check is null; since 3 checks have their power; since 4 other studies are checked; since 5
# names that were declared things in the laboratory are listed, and the power to detect a style is measured; since 6 the
# audit works on a copy, and `copied_at` is the time of the copy.
REPORT_VERSION = 6
# Databases that the child must not connect to, and servers that it must not send anything to.
_REMOVED_VARIABLES = ("DATABASE_URL", "CELERY_BROKER_URL", SETTING_NAME, "EMAIL_HOST", "EMAIL_HOST_PASSWORD")
# One thread for each numerical library: more would take processors from the processes that serve raters.
_CHILD_VARIABLES = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WETBENCH_LOG_LEVEL": "ERROR",
    "DJANGO_SETTINGS_MODULE": "wetbench_site.settings",
}  # fmt: skip


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
    return hash_text(json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def inspect_copy(study: Study, progress: OnProgress | None = None) -> dict[str, Any]:
    """Copy the database, inspect the study there in a separate process and return the report.

    `progress` is called about once a second with the raters that have been visited and all raters (0 until these are
    known); an exception that it raises ends the audit. Raises AuditError if there is no copy or no report.
    """
    report_progress = progress or (lambda done, of: None)
    report_progress(0, 0)
    with create_scratch_copy() as copy, _start_child(study, copy) as child:
        return _await_report(child, study, report_progress)


@contextmanager
def _start_child(study: Study, copy: ScratchCopy) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the child on the copy and kill it at the end of the block. Its pages are those of the live site."""
    command = [sys.executable, "-m", "ratings.studies.blinding_audit.audit_child"]
    command += [str(study.pk), copy.made_at.isoformat()]
    environment = _build_environment(copy)
    # Its standard input is a pipe that nothing is written to: when this process is killed, it closes and the child ends.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdin=pipe, stdout=pipe) as child:
        try:
            yield child
        finally:
            child.kill()


def _build_environment(copy: ScratchCopy) -> dict[str, str]:
    removed = {name for variable in _REMOVED_VARIABLES for name in (variable, f"{variable}_FILE")}
    remaining = {name: value for name, value in os.environ.items() if name not in removed}
    return {**remaining, **_CHILD_VARIABLES, "DATABASE_URL": copy.url}


def _await_report(child: "subprocess.Popen[bytes]", study: Study, progress: OnProgress) -> dict[str, Any]:
    """Pass on the child's progress until its report arrives, and return the report. Raises AuditError without one."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    assert child.stdout
    # A thread, because a read of a pipe has no timeout.
    threading.Thread(target=_queue_lines, args=(child.stdout, lines), daemon=True).start()
    done, of = 0, 0
    while True:
        try:
            line = lines.get(timeout=settings.POLL_SECONDS)
        except queue.Empty:
            progress(done, of)  # the child may compute for minutes; a request to stop is noticed here
            continue
        if not line:
            code = child.wait()
            reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            # The cause is in the log alone: it may quote items.
            log.error("the audit process of study %s ended without a report: %s", study.pk, reason)
            hint = ", possibly because memory ran out" if code == -signal.SIGKILL else ""
            advice = "see the log. Nothing was changed. Start the audit again"
            raise AuditError(f"The audit process ended without a report ({reason}{hint}); {advice}")
        message: dict[str, Any] = json.loads(line)
        if "report" in message:
            return dict(message["report"])
        if "refused" in message:
            raise AuditError(message["refused"])
        done, of = message["progress"]
        progress(done, of)


def _queue_lines(pipe: IO[bytes], lines: "queue.SimpleQueue[bytes]") -> None:
    """Put each line into the queue, and an empty one at the end."""
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # the pipe was closed: nobody needs the rest
        pass
    lines.put(b"")


def run_audit(study: Study, by: Actor = None, progress: OnProgress | None = None) -> BlindingAudit:
    """Audit the study, store the report and log it. Raises AuditError if no report can be made."""
    report = inspect_study(study, progress)
    with transaction.atomic():
        return store_report(study, report, by)


def inspect_study(study: Study, progress: OnProgress | None = None) -> dict[str, Any]:
    """Return the report on the study as it is now, without storing it. Raises AuditError if no report can be made.

    Do not call inside a transaction: SQLite cannot copy the database there.
    """
    require_opened(study)
    return inspect_copy(study, progress)


def store_report(study: Study, report: dict[str, Any], by: Actor = None) -> BlindingAudit:
    """Store the report and log it, in the transaction of the caller."""
    passed, digest = bool(report["passed"]), compute_digest(report)
    audit = BlindingAudit.objects.create(study=study, by=by, passed=passed, report=report, sha256=digest)
    StudyEvent.record_event(study, Audited(passed=passed), by)
    return audit


def find_latest_audit(study: Study) -> BlindingAudit | None:
    """Return the blinding certificate, which is the report of the last audit; None before the first."""
    # Two audits may end at the same time: then the later row is the later one.
    return study.audits.order_by("-at", "-pk").first()


def request_audit(study: Study, by: User | None = None) -> Job:
    """Return the job of the audit of this study that is under way, or start one. Raises AuditError without items."""
    # Refused at once, so that the page can show the reason; the job checks again when it starts.
    require_opened(study)
    return jobs.request_job(JOB_KIND, {"study": study.pk}, subject=access.format_subject(study), user=by)


def find_unfinished_audit(study: Study) -> Job | None:
    """Return the job of the last audit that was requested for this study, or None if that audit ended with a report."""
    subject = access.format_subject(study)
    # Not those of a deleted draft that had the same slug.
    audit_jobs = Job.objects.filter(subject=subject, kind=JOB_KIND, created_at__gte=study.created_at)
    last_job: Job | None = audit_jobs.order_by("-pk").first()
    return last_job if last_job and last_job.status != "done" else None


@jobs.register_handler(JOB_KIND)
def _run_audit_job(work: Work) -> Outcome:
    study = Study.objects.filter(pk=work.params["study"]).first()
    if study is None:
        raise jobs.JobFailed("The study no longer exists.")

    def report_progress(done: int, of: int) -> None:
        step = "Raters' pages visited" if of else "Copying the database and comparing the stored items"
        work.report_progress(done, of, step)

    def store() -> Outcome:
        audit = store_report(study, report, work.job.asked_by)
        failed = "The blinding audit failed: the report shows what leaks, and where."
        said, href = (
            "The blinding audit passed." if audit.passed else failed,
            reverse("ratings:audit", args=[study.slug]),
        )
        return {"said": said, "href": href, "label": "The report", "sha256": audit.sha256}

    try:
        report = inspect_study(study, report_progress)
    except AuditError as error:
        raise jobs.JobFailed(f"{error}.") from error
    return work.finish_job(store)
