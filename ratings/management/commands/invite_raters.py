import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.raters import mailing, posting
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Invite people to the free seats of an open study by e-mail, one address a line; all of them or none."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("file", metavar="FILE", help="the addresses; - reads standard input")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="where the site is, unless WETBENCH_URL says"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        address = mailing.address_of(site=options["url"])
        try:
            posted = posting.invite_all(lifecycle.find(options["study"]), _text(options["file"]), None, address)
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"{posted.sent} sent")
        if posted.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in posted.failed), returncode=1)


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}", returncode=2) from error
