import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from ratings.models import Study
from ratings.protocol import PlanError, ProtocolError, protocols
from ratings.raters import inviting, mailing
from ratings.results import empty_cells
from ratings.stats.nouns import counted
from ratings.studies import StudyError, crossover, lifecycle
from ratings.studies.pool import pool


class Command(BaseCommand):
    help = "Make a study from a study document; with --open, freeze its items and print a link for each seat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("protocol", type=Path, metavar="PROTOCOL.json")
        parser.add_argument("--open", action="store_true", help="open it at once")
        parser.add_argument(
            "--raters", type=int, help="number of seats; prints their links. Default: as few as will do"
        )
        parser.add_argument("--json", action="store_true", help="print the plan as JSON instead; not with --open")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="where the site is, unless WETBENCH_URL says"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["raters"] is not None and not (options["open"] and 1 <= options["raters"] <= protocols.MOST_RATERS):
            most = protocols.MOST_RATERS
            raise CommandError(f"--raters is a number of seats from 1 to {most} and goes with --open", returncode=2)
        if options["json"] and options["open"]:
            raise CommandError("--json prints the plan of a draft; it does not go with --open", returncode=2)
        try:
            self._make(_document(options["protocol"]), options)
        except ProtocolError as error:
            raise CommandError(f"{options['protocol']}:\n{error}", returncode=2) from error
        except (PlanError, StudyError) as error:
            raise CommandError(f"Nothing was made: {error}", returncode=1) from error

    @transaction.atomic
    def _make(self, document: Any, options: dict[str, Any]) -> None:
        study = lifecycle.create_study(lifecycle.read_protocol(document))
        lines = [f"Made study {study.slug} ({study.code}), a draft"]
        if options["json"]:
            lines = [json.dumps(_plan(study, options["raters"]), indent=2, ensure_ascii=False)]
        else:
            lines += _warnings(study, options["raters"])
        lines += [] if options["json"] else _tell_left_out(study)
        if options["open"]:
            lifecycle.open_study(study, options["raters"])
            seats = list(study.raters.order_by("pk"))
            lines.append(f"Opened it: {study.items.count()} items, {len(seats)} seats")
            if options["raters"] is not None:
                address = mailing.address_of(site=options["url"])
                lines += [f"{seat.label}  {mailing.link(inviting.invite(seat), address)}" for seat in seats]
        self.stdout.write("\n".join(lines))


def _plan(study: Study, raters: int | None) -> dict[str, Any]:
    """The plan as opening would make it now, or why it cannot be made."""
    try:
        return empty_cells.plan_to_json(study, raters)
    except PlanError as error:
        return {"study": study.slug, "problems": [str(error)]}


def _warnings(study: Study, raters: int | None) -> list[str]:
    """What its results will lack, line by line; nothing where the pool cannot fill it yet."""
    try:
        found = empty_cells.forecast(study, raters)
    except PlanError as error:
        return [f"It cannot be opened yet: {error}"]
    if found.skipped:
        return [found.skipped]
    lines = [f"  {_said(line)}" for line in found.by_design]
    head = "Results that will be empty with this design:" if lines else "This design leaves no result empty."
    if expected := [f"  {_said(line)}" for line in found.by_expected]:
        lines += ["Results that will be empty by the answers expected (they were in every rehearsal):", *expected]
    more = sum(not one.sure and not one.expected for one in found.warnings)
    rest = f"{counted(more, 'result')} more may be empty, depending on the answers: see its page Who rates what."
    return [head, *lines, *([rest] if more else [])]


def _tell_left_out(study: Study) -> list[str]:
    """Say how many items people can read in another study, and on how many steps two sources are the same."""
    stock = pool.take_stock(protocols.stored(study.protocol), study)
    left_out = f"Left out: {counted(stock.left_out, 'item')} that stand in an unblinded study, themselves or in another version"
    shown = (
        f"Not left out: {counted(stock.shown, 'item')} of episodes that stand in an unblinded study of the other kind"
    )
    told = [f"{left_out} (allow_unblinded)" if stock.left_out else "", shown if stock.shown else ""]
    return [line for line in (*told, crossover.say_alike(stock.alike)) if line]


def _said(line: empty_cells.Line) -> str:
    return f"no {line.missing} of {'; '.join(line.results)}: {line.reasons[0]}. To change it, {line.change}."


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", returncode=2) from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path}: not JSON: {error}", returncode=2) from error
