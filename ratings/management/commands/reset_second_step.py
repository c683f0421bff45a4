"""python manage.py reset_second_step USER"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from ratings.accounts import sessions, two_factor
from wetbench_site.observability.logs import log_security_event
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Turn off two-factor authentication of a person who lost their phone and backup codes, and end all their sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['user'][:80]!r}.", returncode=2)
        if not two_factor.delete_devices(user):
            raise CommandError(f"{user.get_username()} has no two-factor authentication.", returncode=2)
        # Somebody who has the lost phone may still be signed in.
        sessions.end_sessions(user, "second step reset")
        log_security_event("second step reset", None, user=user.pk)
        self.stdout.write(
            f"{user.get_username()} can now sign in without two-factor authentication, and was signed out everywhere."
        )
