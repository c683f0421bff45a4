"""python manage.py invite_raters STUDY FILE"""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.raters import email_messages
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Invite people to the open rater places of a study by e-mail, one address a line. Either all are invited or none."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("file", metavar="FILE", help="file of e-mail addresses, or - for standard input")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="base of the links, unless WETBENCH_URL is set"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        build_url = email_messages.make_url_builder(site=options["url"])
        try:
            result = email_messages.invite_addresses(
                lifecycle.get_study(options["study"]), _read_text(options["file"]), None, build_url
            )
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"{result.sent} sent")
        if result.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in result.failed), returncode=1)


def _read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}", returncode=2) from error
