"""python manage.py remind_raters STUDY"""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.management.input_files import add_study_argument, add_url_option, exit_with_2
from ratings.raters import email_messages, mailings
from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Send a reminder to every rater of an open study with items left, and to invited people who have not joined."

    def add_arguments(self, parser: CommandParser) -> None:
        add_study_argument(parser)
        add_url_option(parser)

    @exit_with_2(StudyError)
    def handle(self, *args: Any, **options: Any) -> None:
        build_url = email_messages.make_url_builder(site=options["url"])
        result = mailings.send_reminders(lifecycle.get_study(options["study"]), None, build_url)
        self.stdout.write(f"{result.sent} sent")
        if result.without_address:
            self.stdout.write(f"no e-mail address: {', '.join(result.without_address)}")
        if result.failed:
            raise CommandError("\n".join(f"{label}: {error}" for label, error in result.failed), returncode=1)
