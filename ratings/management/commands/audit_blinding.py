"""python manage.py audit_blinding STUDY|--all"""

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.models import BlindingAudit, Study
from ratings.studies import StudyError, lifecycle
from ratings.studies.blinding_audit import audit_runner
from ratings.studies.blinding_audit.audit_runner import AuditError
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Check everything that a study's raters are sent. Fails and lists the leaks if anything reveals the source of items."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", nargs="?", metavar="STUDY", help="slug or code")
        parser.add_argument("--all", action="store_true", help="audit all studies that have been opened")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["study"]) == options["all"]:
            raise CommandError("Name a study, or use --all", returncode=2)
        opened = Study.objects.exclude(status="draft").filter(items__isnull=False).distinct().order_by("pk")
        audits = []
        try:
            for study in opened if options["all"] else [lifecycle.get_study(options["study"])]:
                audits.append(audit_runner.run_audit(study, progress=self._report_progress))
                self.stdout.write("\n".join(_format_report(audits[-1])))
        except (StudyError, AuditError) as error:
            raise CommandError(str(error), returncode=2) from error
        if not audits:
            raise CommandError("No study has been opened yet", returncode=2)
        if failed := [audit.study.slug for audit in audits if not audit.passed]:
            raise CommandError(f"Blinding leaks in: {', '.join(failed)}", returncode=1)

    def _report_progress(self, done: int, total: int) -> None:
        if total and sys.stderr.isatty():
            self.stderr.rewrite_line(f"rater {done} of {total}", done == total)


def _format_report(audit: BlindingAudit) -> list[str]:
    report = audit.report
    sizes = ", ".join(f"{report[name]} {name}" for name in ("items", "raters", "assignments"))
    lines = [f"{audit.study.slug}: {sizes}: {'passed' if audit.passed else 'BLINDING LEAKS'}"]
    for check in report["checks"]:
        label = {"holds": "ok", "leaks": "LEAK"}.get(check["outcome"], check["outcome"])
        lines.append(f"  {label:6}  {check['name']}: {check['skipped'] or str(check['looked_at']) + ' checked'}")
        lines += [f"          {leak['where']}: {leak['what']}" for leak in check["leaks"]]
    lines += [f"  known   {tell}" for tell in report["known_tells"]]
    return [*lines, f"  certificate {audit.sha256}"]
