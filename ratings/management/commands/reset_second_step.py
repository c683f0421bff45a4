from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ratings.accounts import second_step, sessions
from wetbench_site.observability.audit_log import security_event


class Command(BaseCommand):
    help = "For somebody who has lost their telephone and backup codes: the second step is off and every session over."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['user'][:80]!r}.", returncode=2)
        if not second_step.forget(user):
            raise CommandError(f"{user.get_username()} has no second step.", returncode=2)
        sessions.end_all(user, "second step reset")
        security_event("second step reset", None, user=user.pk)
        self.stdout.write(f"{user.get_username()} signs in without a second step now, and is signed out everywhere.")
