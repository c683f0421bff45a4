"""The audit's own process: started on a scratch copy, watched, and killed when its report is no longer needed.

A process of its own keeps what the audit writes, caches and loads away from those that serve raters, and can be given a lower
priority than they have. It is `ratings.studies.blinding_audit.copy.child`, which returns messages as lines of JSON on its standard output.
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
from ratings.studies.blinding_audit.copy.scratch import ScratchCopy, scratch_copy
from ratings.studies.blinding_audit.copy.scratch_postgres import VARIABLE
from ratings.studies.blinding_audit.errors import AuditError
from ratings.studies.blinding_audit.reports import Progress

log = logging.getLogger("wetbench.audit")
# Databases that the child must not reach, and servers that it must not send anything to.
_REMOVED = ("DATABASE_URL", "CELERY_BROKER_URL", VARIABLE, "EMAIL_HOST", "EMAIL_HOST_PASSWORD")
# One thread for each library that computes: more would take the processors from those who serve raters.
_OF_CHILD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WETBENCH_LOG_LEVEL": "ERROR"}


def inspect_copy(study: Study, progress: Progress | None = None) -> dict[str, Any]:
    """Copy the database, inspect the study there in a process of its own and return the report.

    `progress` is called about once a second with the raters that have been visited and all raters (0 until these are known);
    an exception that it raises ends the audit. AuditError if there is no copy or no report.
    """
    report_progress = progress or (lambda done, of: None)
    report_progress(0, 0)
    with scratch_copy() as copy, _started(study, copy) as child:
        return _follow(child, study, report_progress)


@contextmanager
def _started(study: Study, copy: ScratchCopy) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the child; it is dead at the end of the block.

    It also ends by itself when its standard input is closed, which happens if this process is killed.
    """
    command = [
        sys.executable,
        "-m",
        "ratings.studies.blinding_audit.copy.child",
        str(study.pk),
        copy.made_at.isoformat(),
    ]
    child = subprocess.Popen(
        command, cwd=settings.BASE_DIR, env=_environment(copy), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                pipe.close()


def _environment(copy: ScratchCopy) -> dict[str, str]:
    """This process's environment, with the copy as its database: the pages are those of the live site."""
    removed = {name for variable in _REMOVED for name in (variable, f"{variable}_FILE")}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return {**kept, **_OF_CHILD, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings", "DATABASE_URL": copy.url}


def _follow(child: "subprocess.Popen[bytes]", study: Study, progress: Progress) -> dict[str, Any]:
    """Pass the child's progress on until its report comes."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    assert child.stdout
    reader = threading.Thread(target=_read, args=(child.stdout, lines), daemon=True)
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


def _read(pipe: IO[bytes], lines: "queue.SimpleQueue[bytes]") -> None:
    """Put each line into the queue, and an empty one at the end."""
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # the pipe was closed: nobody waits for the rest
        pass
    lines.put(b"")


def _explain_end(study: Study, code: int) -> str:
    """Why there is no report. What went wrong is in the log alone: it may quote items."""
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    log.error("the process of the audit of study %s ended without a report: %s", study.pk, reason)
    hint = ", as when memory is short" if code == -signal.SIGKILL else ""
    return f"The audit's process ended without a report ({reason}{hint}); see the log. Nothing was changed; start the audit again"
