"""The inspection of one study on a scratch copy: all checks, and the report of what they found."""

from datetime import datetime
from typing import Any

from ratings.models import Study
from ratings.studies.blinding_audit import elsewhere, orders, payloads, tells, wording
from ratings.studies.blinding_audit.crawl import looking, responses
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.reports import Progress, report
from ratings.studies.blinding_audit.sealed import sealed


def inspect(study: Study, copied_at: datetime, progress: Progress | None = None) -> dict[str, Any]:
    """Return the report. RuntimeError in a process that does not work on a scratch copy (`guard`)."""
    return report(study, _run_checks(study, progress), copied_at)


def _run_checks(study: Study, progress: Progress | None) -> list[Check]:
    secrets = sealed(study)
    found = [*payloads.checks(study, secrets), *elsewhere.checks(study), *orders.checks(study)]
    found += [*tells.checks(study), *wording.checks(study)]
    raters = study.raters.count()
    seen = responses.Responses(study, secrets)
    for done in looking.look(seen):
        if progress:
            progress(min(done, raters), raters)
    return [*found, *seen.checks()]
