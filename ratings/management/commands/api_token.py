"""python manage.py api_token create|list|revoke"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from ratings.api import tokens
from ratings.api.tokens import SCOPE_DESCRIPTIONS, TokenError
from ratings.management.input_files import exit_with_2
from ratings.models import ApiToken
from ratings.studies import StudyError, lifecycle
from wetbench_site.observability.logs import log_security_event
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Create, list or revoke tokens of the read API: `create USER`, `list [USER]`, `revoke CODE`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("do", choices=("create", "list", "revoke"))
        parser.add_argument("which", nargs="?", default="", metavar="USER|CODE")
        parser.add_argument("--name", default="", help="what the token is for")
        parser.add_argument(
            "--scope", action="append", default=[], help=f"repeat for several: {', '.join(SCOPE_DESCRIPTIONS)}"
        )
        parser.add_argument(
            "--study", action="append", help="slug; repeat for several. Default: all studies that USER may read"
        )
        parser.add_argument(
            "--days", type=int, default=tokens.DEFAULT_DAYS, help=f"days until it expires, at most {tokens.MAX_DAYS}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        {"create": self._create_token, "list": self._list_tokens, "revoke": self._revoke_token}[options["do"]](options)

    @exit_with_2(TokenError, StudyError)
    def _create_token(self, options: dict[str, Any]) -> None:
        limit = [lifecycle.get_study(name) for name in options["study"]] if options["study"] else None
        user, terms = self._get_user(options["which"]), (options["name"], options["scope"], options["days"])
        token, text = tokens.create_token(user, *terms, limit)
        log_security_event("api token made", None, token=str(token.code))
        # The only time the token can be shown: the database stores its hash.
        self.stdout.write(text)

    def _list_tokens(self, options: dict[str, Any]) -> None:
        rows = ApiToken.objects.select_related("user").order_by("user__username", "-pk")
        for token in rows.filter(user=self._get_user(options["which"])) if options["which"] else rows:
            used = f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never"
            facts = (str(token.code), token.user.username, token.name, token.validity_state)
            expires = f"expires {token.expires_at:%Y-%m-%d}"
            self.stdout.write("  ".join((*facts, expires, f"used {used}", ",".join(token.scopes))))

    def _revoke_token(self, options: dict[str, Any]) -> None:
        # Compared as text, so that a code that is no UUID is not found instead of raising.
        token = next((row for row in ApiToken.objects.all() if str(row.code) == options["which"]), None)
        if token is None:
            raise CommandError(f"There is no token {options['which']!r}; `api_token list` shows all", returncode=2)
        outcome = "revoked" if tokens.revoke_token(token) else "was already revoked"
        log_security_event("api token revoked", None, token=str(token.code))
        self.stdout.write(f"{token.name} of {token.user.get_username()} {outcome}")

    def _get_user(self, name: str) -> User:
        if user := User.objects.filter(username=name).first():
            return user
        raise CommandError(f"There is no user {name!r}", returncode=2)
