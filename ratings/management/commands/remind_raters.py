from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.raters import mailing, posting
from ratings.studies import StudyError, lifecycle


class Command(BaseCommand):
    help = "Send a reminder to every rater of an open study with work left, and to those invited who have not come."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument(
            "--url", default="http://127.0.0.1:8000", help="where the site is, unless WETBENCH_URL says"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            posted = posting.remind(lifecycle.find(options["study"]), None, mailing.address_of(site=options["url"]))
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"{posted.sent} sent")
        if posted.without:
            self.stdout.write(f"without an address: {', '.join(posted.without)}")
        if posted.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in posted.failed), returncode=1)
