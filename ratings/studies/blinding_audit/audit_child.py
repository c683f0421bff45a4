"""python -m ratings.studies.blinding_audit.audit_child STUDY COPIED_AT: inspect one study on a scratch copy. Started
by `audit_runner`.

STUDY is the study's primary key. Each line of standard output is a JSON object: {"progress": [done, of]}, and at the end
{"report": ...}, or {"refused": reason}. Log lines go to standard error.
"""

import json
import logging
import os
import sys
import threading
from datetime import datetime
from typing import Any, TextIO

import django

_NICENESS = 10  # a tenth of the processor time of a rater's page when both compete for one processor


def main() -> int:
    os.nice(_NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Accidental prints go to standard error, so that they do not mix with the messages.
    messages, sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8"), sys.stderr
    django.setup()
    try:
        _inspect_study(int(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), messages)
    except Exception:  # the log redacts the traceback; the interpreter would print it in full
        logging.getLogger("wetbench.audit").exception("the audit failed")
        return 1
    return 0


def _inspect_study(key: int, copied_at: datetime, messages: TextIO) -> None:
    from django.conf import settings

    from ratings.models import Study
    from ratings.studies.blinding_audit import audit_runner, inspection, scratch_copy
    from ratings.studies.blinding_audit.findings import AuditError

    # The copy has the addresses of real raters.
    settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    # Raises unless the database is marked as a copy: a wrong DATABASE_URL must not cost any rating.
    scratch_copy.allow_writes()
    try:
        study = Study.objects.filter(pk=key).first()
        if study is None:
            raise AuditError("The study is not in the copy: it was deleted as the audit began")
        audit_runner.require_opened(study)
        report = inspection.run_inspection(study, copied_at, lambda *done: _write_message(messages, {"progress": done}))
        _write_message(messages, {"report": report})
    except AuditError as error:
        _write_message(messages, {"refused": str(error)})


def _write_message(messages: TextIO, message: dict[str, Any]) -> None:
    messages.write(json.dumps(message) + "\n")
    # The parent shows the progress while the audit runs.
    messages.flush()


def _end_with_parent() -> None:
    """End this process when its standard input is closed: the parent has ended, and nobody needs the report."""
    while os.read(0, 1024):  # not sys.stdin, whose lock would be in the way when the interpreter ends
        pass
    # At once, without cleaning up: another thread may be computing for minutes.
    os._exit(3)


if __name__ == "__main__":
    sys.exit(main())
