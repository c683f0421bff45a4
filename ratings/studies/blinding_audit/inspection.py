"""The inspection of one study on a scratch copy: run all checks and return the report."""

from datetime import datetime
from typing import Any

from ratings.models import Study
from ratings.studies.blinding_audit import form_tests, order_tests, other_studies, payloads, style_tests
from ratings.studies.blinding_audit.crawl import responses, visit_raters
from ratings.studies.blinding_audit.findings import Check
from ratings.studies.blinding_audit.reports import OnProgress, build_report
from ratings.studies.blinding_audit.sealed_values import collect_sealed_values


def run_inspection(study: Study, copied_at: datetime, progress: OnProgress | None = None) -> dict[str, Any]:
    """Run all checks and return the report. Raises RuntimeError in a process that does not work on a scratch copy
    (`guard`).
    """
    return build_report(study, _run_checks(study, progress), copied_at)


def _run_checks(study: Study, progress: OnProgress | None) -> list[Check]:
    secrets = collect_sealed_values(study)
    all_checks = [
        *payloads.check_payloads(study, secrets),
        *other_studies.check_other_studies(study),
        *order_tests.check_orders(study),
    ]
    all_checks += [*form_tests.check_forms(study), *style_tests.check_styles(study)]
    raters = study.raters.count()
    # Pages last: they take the longest, and only they have a progress to report.
    sent_responses = responses.ResponseChecks(study, secrets)
    for n_visited in visit_raters.visit_all_raters(sent_responses):
        if progress:
            progress(min(n_visited, raters), raters)
    return [*all_checks, *sent_responses.list_checks()]
