"""python manage.py check_transitions FILE.jsonl [--json], or --stored [--again]"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.checker import suite
from simulation.checker.checks import CheckedLine, check_lines
from simulation.checker.findings import ERROR, INFO
from simulation.lab import catalogue
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.management.command_options import ProgressLine, tolerate_closed_pipe
from simulation.runs import transition_checks
from wetbench_site.safe_output import SafeCommand

_MAX_PRINTED_CHARACTERS = 300


class Command(SafeCommand):
    # The command needs neither database nor pages, and must run where those are broken.
    requires_system_checks = ()
    help = (
        "Check transitions of any simulator, one JSON object per line, or the stored transitions and twins. "
        "Exit 0 if every line was parsed, 1 if not, 2 if there is no such file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", help="a JSONL file, or - for standard input")
        parser.add_argument("--json", action="store_true", help="print one JSON object per line instead of text")
        stored_help = "check stored transitions and twins that were not checked yet"
        parser.add_argument("--stored", action="store_true", help=stored_help)
        parser.add_argument("--again", action="store_true", help="with --stored: check all of them again")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["file"]) == options["stored"]:
            raise CommandError("give either a file to check or --stored, but not both", returncode=2)
        if options["stored"] and options["json"]:
            raise CommandError("--stored prints a table, so it cannot be combined with --json", returncode=2)
        if options["again"] and not options["stored"]:
            raise CommandError("--again requires --stored", returncode=2)
        with tolerate_closed_pipe(self.stdout):
            if options["stored"]:
                self._check_stored_rows(options["again"])
            else:
                self._check_file(options)

    def _check_stored_rows(self, recheck_all: bool) -> None:
        progress = ProgressLine("checked")
        tally = transition_checks.check_stored(recheck_all, lambda done: progress.show_progress(f"checked: {done}"))
        progress.show_progress(f"checked: {tally.rows_checked}", last=True)
        self.stdout.write(f"{'':<12}" + "".join(f"{kind:>10}" for kind in transition_checks.ROW_KINDS))
        for name, counts in tally.list_table_rows():
            self.stdout.write(f"{name:<12}" + "".join(f"{count:>10}" for count in counts))
        if tally.failed:
            raise CommandError(f"{tally.failed} rows could not be checked; the log has the reasons", returncode=1)

    def _check_file(self, options: dict[str, Any]) -> None:
        result = suite.SuiteResult()
        with _open_file(options["file"]) as stream:
            for line in check_lines(stream, _load_catalogue()):
                result.add_line(line)
                if line.report is None:
                    self.stderr.write(f"line {line.number}: {escape_for_terminal(line.error)}")
                elif options["json"]:
                    self.stdout.write(json.dumps({"id": line.data.get("id"), **line.report.to_json()}))
                else:
                    self._print_report(line)
        if not options["json"]:
            self._print_summary(result)
        if result.malformed:
            raise CommandError(f"{result.malformed} lines could not be parsed", returncode=1)

    def _print_report(self, line: CheckedLine) -> None:
        assert line.report is not None
        name = escape_for_terminal(line.data.get("id", line.number))
        self.stdout.write(f"{name} {escape_for_terminal(line.data['action']['name'])}: {line.report.verdict}")
        for finding in line.report.findings:
            if finding.severity != INFO:
                compared = finding.severity == ERROR and finding.expected
                expectation = f" (expected {finding.expected}, got {finding.got})" if compared else ""
                text = escape_for_terminal(f"{finding.text[:200]}{expectation}")
                self.stdout.write(f"  {finding.code} {finding.severity}: {text}")
        if line.report.undecided:
            self.stdout.write(f"  not decided: {', '.join(line.report.undecided)}")

    def _print_summary(self, result: suite.SuiteResult) -> None:
        if not result.recall.whole and not result.false_alarms.whole:
            return
        self.stdout.write("\ncode   found  false alarms")
        for code, errors_found, alarms in suite.count_findings_by_code(result):
            self.stdout.write(f"{code}  {errors_found:>6}  {alarms:>12}")
        self.stdout.write(f"errors found: {result.recall}")
        self.stdout.write(f"correct transitions called wrong: {result.false_alarms}")
        self.stdout.write(f"undecidable: {result.undecidable}")


def escape_for_terminal(text: Any) -> str:
    """Return text of unknown origin on one line, without control characters that affect a terminal."""
    text_value = str(text) if isinstance(text, str | int | float) and len(repr(text)) < 10**5 else type(text).__name__
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text_value[:_MAX_PRINTED_CHARACTERS])


@contextmanager
def _open_file(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        is_file = Path(name).is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise CommandError(f"no such file: {escape_for_terminal(name)}", returncode=2)
    with Path(name).open("rb") as stream:
        yield stream


def _load_catalogue() -> Catalogue | None:
    """Return the built-in catalogue, for options and defaults, or None if it cannot be loaded; the checks can work without it."""
    try:
        return catalogue.load_catalogue(settings.BASE_DIR / "fixtures" / "actions")[0]
    except LabError:
        return None
