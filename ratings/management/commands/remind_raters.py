"""python manage.py remind_raters STUDY"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.raters import email_messages
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Send a reminder to every rater of an open study with items left, and to invited people who have not joined."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="base of the links, unless WETBENCH_URL is set"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = email_messages.send_reminders(
                lifecycle.get_study(options["study"]), None, email_messages.make_url_builder(site=options["url"])
            )
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"{result.sent} sent")
        if result.without_address:
            self.stdout.write(f"no e-mail address: {', '.join(result.without_address)}")
        if result.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in result.failed), returncode=1)
