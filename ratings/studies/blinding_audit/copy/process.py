"""The audit's own process: started on a scratch copy, watched, and killed when its report is no longer needed.

A separate process keeps the audit's writes, caches and load away from the processes that serve raters, and can have a
lower priority. It runs `ratings.studies.blinding_audit.copy.child`, which returns messages as lines of JSON on its
standard output.
"""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.conf import settings

from ratings.models import Study
from ratings.studies.blinding_audit.copy.scratch import ScratchCopy, create_scratch_copy
from ratings.studies.blinding_audit.copy.scratch_postgres import SETTING_NAME
from ratings.studies.blinding_audit.errors import AuditError
from ratings.studies.blinding_audit.reports import OnProgress

log = logging.getLogger("wetbench.audit")
# Databases that the child must not connect to, and servers that it must not send anything to.
_REMOVED_VARIABLES = ("DATABASE_URL", "CELERY_BROKER_URL", SETTING_NAME, "EMAIL_HOST", "EMAIL_HOST_PASSWORD")
# One thread for each numerical library: more would take processors from the processes that serve raters.
_CHILD_VARIABLES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WETBENCH_LOG_LEVEL": "ERROR"}


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
    """Start the child and kill it at the end of the block."""
    command = [
        sys.executable,
        "-m",
        "ratings.studies.blinding_audit.copy.child",
        str(study.pk),
        copy.made_at.isoformat(),
    ]
    # Its standard input is a pipe that nothing is written to: it closes if this process is killed, and the child then
    # ends by itself.
    child = subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=_build_environment(copy), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                pipe.close()


def _build_environment(copy: ScratchCopy) -> dict[str, str]:
    """Return this process's environment with the copy as its database. The pages are then those of the live site."""
    removed = {name for variable in _REMOVED_VARIABLES for name in (variable, f"{variable}_FILE")}
    remaining = {name: value for name, value in os.environ.items() if name not in removed}
    return {
        **remaining,
        **_CHILD_VARIABLES,
        "DJANGO_SETTINGS_MODULE": "wetbench_site.settings",
        "DATABASE_URL": copy.url,
    }


def _await_report(child: "subprocess.Popen[bytes]", study: Study, progress: OnProgress) -> dict[str, Any]:
    """Pass on the child's progress until its report arrives, and return the report. Raises AuditError without one."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    assert child.stdout
    # A thread, because a read of a pipe has no timeout.
    reader = threading.Thread(target=_queue_lines, args=(child.stdout, lines), daemon=True)
    reader.start()
    done, of = 0, 0
    while True:
        try:
            line = lines.get(timeout=settings.POLL_SECONDS)
        except queue.Empty:
            progress(done, of)  # the child may compute for minutes; a request to stop is noticed here
            continue
        if not line:
            raise AuditError(_explain_end(study, child.wait()))
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


def _explain_end(study: Study, code: int) -> str:
    """Return why there is no report."""
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    # The cause is in the log alone: it may quote items.
    log.error("the audit process of study %s ended without a report: %s", study.pk, reason)
    hint = ", possibly because memory ran out" if code == -signal.SIGKILL else ""
    return f"The audit process ended without a report ({reason}{hint}); see the log. Nothing was changed. Start the audit again"
