"""python manage.py createsuperuser"""

import os
from typing import Any

from django.contrib.auth.management.commands.createsuperuser import Command as CreateSuperuser
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError


class Command(CreateSuperuser):
    help = "Create a superuser. A password in DJANGO_SUPERUSER_PASSWORD must obey the password rules of the site."

    def handle(self, *args: Any, **options: Any) -> str | None:
        password = os.environ.get("DJANGO_SUPERUSER_PASSWORD")
        # Django applies the rules only to a password that is typed.
        if not options["interactive"] and password is not None:
            names = [User.USERNAME_FIELD, *User.REQUIRED_FIELDS]
            # A password may not resemble the name or address, which can come from the environment as well.
            given = {name: options[name] or os.environ.get(f"DJANGO_SUPERUSER_{name.upper()}", "") for name in names}
            try:
                validate_password(password, User(**given))
            except ValidationError as error:
                rules = "\n".join(f"- {message}" for message in error.messages)
                raise CommandError(
                    f"No account was created. DJANGO_SUPERUSER_PASSWORD breaks these rules:\n{rules}"
                ) from None
        return super().handle(*args, **options)
