"""python manage.py unblind STUDY --by USER"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from ratings.studies import StudyError, lifecycle
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Unblind a study permanently: close it if it is open, and show the sources of its items. This is logged."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("study", metavar="STUDY", help="slug or code")
        parser.add_argument("--by", required=True, metavar="USER", help="the member of staff who is responsible")

    def handle(self, *args: Any, **options: Any) -> None:
        staff = User.objects.filter(is_staff=True, is_active=True)
        user = staff.filter(username=options["by"]).first()
        if user is None:
            known = ", ".join(staff.values_list("username", flat=True)) or "none yet"
            raise CommandError(f"There is no staff user {options['by']!r}. Known: {known}", returncode=2)
        try:
            study = lifecycle.get_study(options["study"])
            lifecycle.close_and_unblind(study, user)
        except StudyError as error:
            raise CommandError(str(error), returncode=2) from error
        self.stdout.write(f"{study.slug} is unblinded")
