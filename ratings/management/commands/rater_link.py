"""python manage.py rater_link STUDY LABEL"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.raters import email_messages, invitations
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Create a new personal link for a rater of an open study. Earlier links of this rater stop working."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("label", metavar="LABEL", help="the rater, for example R01")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="base of the links, unless WETBENCH_URL is set"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rater = invitations.get_rater(lifecycle.get_study(options["study"]), options["label"])
            token = invitations.create_invitation(rater)
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(email_messages.build_link(token, email_messages.make_url_builder(site=options["url"])))
