"""The inspection of one study on a scratch copy: runs all checks and returns the report."""

from datetime import datetime
from typing import Any

from ratings.models import Study
from ratings.studies.blinding_audit import elsewhere, orders, payloads, tells, wording
from ratings.studies.blinding_audit.crawl import looking, responses
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.reports import Progress, report
from ratings.studies.blinding_audit.sealed import sealed


def inspect(study: Study, copied_at: datetime, progress: Progress | None = None) -> dict[str, Any]:
    """Return the report. Raises RuntimeError in a process that does not work on a scratch copy (`guard`)."""
    return report(study, _run_checks(study, progress), copied_at)


def _run_checks(study: Study, progress: Progress | None) -> list[Check]:
    secrets = sealed(study)
    all_checks = [*payloads.checks(study, secrets), *elsewhere.checks(study), *orders.checks(study)]
    all_checks += [*tells.checks(study), *wording.checks(study)]
    raters = study.raters.count()
    # Pages last: they take the longest, and only they have a progress to report.
    sent_responses = responses.Responses(study, secrets)
    for n_visited in looking.look(sent_responses):
        if progress:
            progress(min(n_visited, raters), raters)
    return [*all_checks, *sent_responses.checks()]
