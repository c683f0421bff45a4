"""Password rules and hashing."""

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

MAX_LENGTH = 128  # characters


class Argon2(Argon2PasswordHasher):
    """Argon2id with the minimum parameters that OWASP recommends.

    With Django's default of 100 MiB, a few simultaneous sign-ins would fill the memory of a small server.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1


class MaximumLengthValidator:
    """Limit the length of a password, because the time for hashing grows with it."""

    def validate(self, password: str, user: User | None = None) -> None:
        if len(password) > MAX_LENGTH:
            raise ValidationError(f"This password is longer than {MAX_LENGTH} characters.", "password_too_long")

    def get_help_text(self) -> str:
        return f"Your password can have at most {MAX_LENGTH} characters."
