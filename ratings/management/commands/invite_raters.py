"""python manage.py invite_raters STUDY FILE"""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.management.input_files import add_study_argument, add_url_option, exit_with_2
from ratings.raters import email_messages, mailings
from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Invite people to the open rater places of a study by e-mail, one address a line. Either all are invited or none."

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument("file", metavar="FILE", help="file of e-mail addresses, or - for standard input")
        add_url_option(parser)

    @exit_with_2(StudyError)
    def handle(self, *args: Any, **options: Any) -> None:
        build_url = email_messages.make_url_builder(site=options["url"])
        study = lifecycle.get_study(options["study"])
        invitees = mailings.parse_addresses(_read_text(options["file"]))
        result = mailings.invite_people(study, invitees, None, build_url)
        self.stdout.write(f"{result.sent} sent")
        if result.links:
            self.stdout.write(f"{mailings.NO_EMAIL}: nothing was sent. Send these links yourself, one to each person:")
        for link in result.links:
            self.stdout.write("\t".join(part for part in link if part))
        if result.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in result.failed), returncode=1)


def _read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}", returncode=2) from error
