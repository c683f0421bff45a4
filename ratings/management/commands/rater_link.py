"""python manage.py rater_link STUDY LABEL"""

from typing import Any

from django.core.management.base import CommandParser

from ratings.management.input_files import add_study_argument, add_url_option, exit_with_2
from ratings.raters import email_messages, invitations
from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Create a new personal link for a rater of an open study. Earlier links of this rater stop working."

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        parser.add_argument("label", metavar="LABEL", help="the rater, for example R01")
        add_url_option(parser)

    @exit_with_2(StudyError)
    def handle(self, *args: Any, **options: Any) -> None:
        rater = invitations.get_rater(lifecycle.get_study(options["study"]), options["label"])
        token = invitations.create_invitation(rater)
        self.stdout.write(email_messages.build_link(token, email_messages.make_url_builder(site=options["url"])))
