"""python manage.py sign_in_link USER"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from ratings.accounts import signing_in
from ratings.management.input_files import add_url_option
from ratings.raters import email_messages
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Create a sign-in link for a member of staff. It is valid for a day and replaces any earlier one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        add_url_option(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        staff = User.objects.filter(is_staff=True, is_active=True)
        user = staff.filter(username=options["user"]).first()
        if user is None:
            known = ", ".join(staff.values_list("username", flat=True)) or "none yet; create one with createsuperuser"
            raise CommandError(f"There is no staff user {options['user']!r}. Known: {known}", returncode=2)
        build_url = email_messages.make_url_builder(site=options["url"])
        self.stdout.write(build_url(f"/sign-in/{signing_in.create_link(user, 'admin')}/"))
