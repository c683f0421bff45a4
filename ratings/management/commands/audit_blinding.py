"""python manage.py audit_blinding STUDY|--all"""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.models import BlindingAudit, Study
from ratings.studies import StudyError, lifecycle
from ratings.studies.blinding_audit import auditing
from ratings.studies.blinding_audit.auditing import AuditError


class Command(BaseCommand):
    help = "Check everything that a study's raters are sent. Fails and lists the leaks if anything reveals the source of items."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", nargs="?", metavar="STUDY", help="slug or code")
        parser.add_argument("--all", action="store_true", help="audit all studies that have been opened")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["study"]) == options["all"]:
            raise CommandError("Name a study, or use --all", returncode=2)
        audits = [self._audit(study) for study in self._studies(options)]
        if failed := [audit.study.slug for audit in audits if not audit.passed]:
            raise CommandError(f"Blinding leaks in: {', '.join(failed)}", returncode=1)

    def _studies(self, options: dict[str, Any]) -> list[Study]:
        if options["all"]:
            opened = list(Study.objects.exclude(status="draft").filter(items__isnull=False).distinct().order_by("pk"))
            if not opened:
                raise CommandError("No study has been opened yet", returncode=2)
            return opened
        try:
            return [lifecycle.find(options["study"])]
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error

    def _audit(self, study: Study) -> BlindingAudit:
        try:
            audit = auditing.run(study, progress=self._show)
        except AuditError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write("\n".join(_lines(audit)))
        return audit

    def _show(self, done: int, of: int) -> None:
        if of and sys.stderr.isatty():
            self.stderr.write(f"\rrater {done} of {of}", ending="\n" if done == of else "")


def _lines(audit: BlindingAudit) -> list[str]:
    report = audit.report
    head = (
        f"{audit.study.slug}: {report['items']} items, {report['raters']} raters, {report['assignments']} assignments"
    )
    lines = [f"{head}: {'passed' if audit.passed else 'BLINDING LEAKS'}"]
    for check in report["checks"]:
        label = {"holds": "ok", "leaks": "LEAK"}.get(check["outcome"], check["outcome"])
        lines.append(f"  {label:6}  {check['name']}: {check['skipped'] or str(check['looked_at']) + ' checked'}")
        lines += [f"          {leak['where']}: {leak['what']}" for leak in check["leaks"]]
    lines += [f"  known   {tell}" for tell in report["known_tells"]]
    return [*lines, f"  certificate {audit.sha256}"]
