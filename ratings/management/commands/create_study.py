"""python manage.py create_study PROTOCOL.json [--open] [--raters N] [--json]"""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from ratings.management.input_files import add_url_option
from ratings.models import Study
from ratings.protocol import PlanError, ProtocolError, study_protocol
from ratings.raters import email_messages, invitations
from ratings.results import empty_cells
from ratings.studies import StudyError, designs, lifecycle, pool
from wetbench_site.safe_output import SafeCommand
from wetbench_site.text import format_count


class Command(SafeCommand):
    help = "Create a study from a study document. With --open, freeze its items and print a link for each rater."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("protocol", type=Path, metavar="PROTOCOL.json")
        parser.add_argument("--open", action="store_true", help="open it at once")
        help_text = "number of raters; prints their links. Default: as few as possible"
        parser.add_argument("--raters", type=int, help=help_text)
        parser.add_argument("--json", action="store_true", help="print the plan as JSON; not with --open")
        add_url_option(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        raters, limit = options["raters"], study_protocol.MAX_RATERS
        if raters is not None and not (options["open"] and 1 <= raters <= limit):
            raise CommandError(f"--raters must be from 1 to {limit} and needs --open", returncode=2)
        if options["json"] and options["open"]:
            raise CommandError("--json prints the plan of a draft and cannot be combined with --open", returncode=2)
        path: Path = options["protocol"]
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}", returncode=2) from error
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{path}: not JSON: {error}", returncode=2) from error
        try:
            self._create_study(document, options)
        except ProtocolError as error:
            raise CommandError(f"{path}:\n{error}", returncode=2) from error
        except (PlanError, StudyError) as error:
            raise CommandError(f"Nothing was created: {error}", returncode=1) from error

    @transaction.atomic
    def _create_study(self, document: Any, options: dict[str, Any]) -> None:
        # In one transaction with opening, so that no draft remains of a study that cannot be opened.
        study = lifecycle.create_study(lifecycle.parse_protocol(document))
        lines = [f"Created study {study.slug} ({study.code}), a draft"]
        if options["json"]:
            # The plan with which the study would be opened now, or the problem that prevents it.
            try:
                plan = empty_cells.describe_plan(study, options["raters"])
            except PlanError as error:
                plan = {"study": study.slug, "problems": [str(error)]}
            lines = [json.dumps(plan, indent=2, ensure_ascii=False)]
        else:
            lines += [*_describe_empty_results(study, options["raters"]), *_describe_left_out(study)]
        if options["open"]:
            lifecycle.open_study(study, options["raters"])
            raters = list(study.raters.order_by("pk"))
            lines.append(f"Opened it: {study.items.count()} items, {len(raters)} raters")
            if options["raters"] is not None:
                address = email_messages.make_url_builder(site=options["url"])
                links = [email_messages.build_link(invitations.create_invitation(rater), address) for rater in raters]
                lines += [f"{rater.label}  {link}" for rater, link in zip(raters, links, strict=True)]
        self.stdout.write("\n".join(lines))


def _describe_empty_results(study: Study, raters: int | None) -> list[str]:
    """Return lines on the results that will be empty, or one line that explains why they cannot be predicted."""
    try:
        forecast = empty_cells.forecast_empty_results(study, raters)
    except PlanError as error:
        return [f"It cannot be opened yet: {error}"]
    if forecast.skipped:
        return [forecast.skipped]
    lines = [f"  {_describe_empty_result(line)}" for line in forecast.by_design]
    heading = "Results that will be empty with this design:" if lines else "This design leaves no result empty."
    if expected_lines := [f"  {_describe_empty_result(line)}" for line in forecast.by_expected]:
        lines += ["Results that will be empty with the expected answers (empty in every simulation):", *expected_lines]
    more = sum(not one.sure and not one.is_expected for one in forecast.warnings)
    advice = "depending on the answers: see the study's page Assignments."
    return [heading, *lines, *([f"{format_count(more, 'result')} more may be empty, {advice}"] if more else [])]


def _describe_left_out(study: Study) -> list[str]:
    """Return sentences on items that are in an unblinded study, and on steps for which two sources are identical."""
    inventory = pool.take_stock(study_protocol.load_protocol(study.protocol), study)
    left_out = f"Left out: {format_count(inventory.left_out, 'item')} that are in an unblinded study, as they are or in another version"
    readable = f"Not left out: {format_count(inventory.shown, 'item')} of episodes that are in an unblinded study of the other kind"
    sentences = [f"{left_out} (allow_unblinded)" if inventory.left_out else "", readable if inventory.shown else ""]
    return [line for line in (*sentences, designs.describe_identical_cases(inventory.alike)) if line]


def _describe_empty_result(line: empty_cells.SuggestedChange) -> str:
    return f"no {line.missing} of {'; '.join(line.results)}: {line.reasons[0]}. To change it, {line.change}."
