"""Tests of password rules and password hashing."""

from typing import Any

import pytest
from django.contrib.auth.hashers import identify_hasher, make_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from tests.support.account_steps import PASSWORD
from wetbench_site import settings as site_settings

pytestmark = pytest.mark.django_db


def test_passwords_are_hashed_with_argon2_and_old_hashes_still_work(settings: Any) -> None:
    settings.PASSWORD_HASHERS = site_settings.PASSWORD_HASHERS
    old = make_password(PASSWORD, hasher="pbkdf2_sha256")
    kim = User.objects.create(username="kim", password=old)
    assert kim.check_password(PASSWORD)
    kim.refresh_from_db()
    assert identify_hasher(kim.password).algorithm == "argon2" and "m=19456,t=2,p=1" in kim.password


@pytest.mark.parametrize("wrong", ["eleven char", "password1234", "x" * 129])
def test_password_that_is_too_short_common_or_too_long_is_rejected(wrong: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(wrong)
    validate_password("twelve chars" + "x" * 116)  # 128


def create_superuser(monkeypatch: pytest.MonkeyPatch, password: str, name: str = "kim") -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", password)
    call_command("createsuperuser", username=name, email=f"{name}@example.org", interactive=False, verbosity=0)


@pytest.mark.parametrize(
    ("password", "rules"),
    [
        ("", ["at least 12 characters"]),
        ("password123", ["at least 12 characters", "too common"]),
        ("anna-lovelace", ["too similar to the username"]),
    ],
)
def test_createsuperuser_without_input_rejects_a_weak_password(
    monkeypatch: pytest.MonkeyPatch, password: str, rules: list[str]
) -> None:
    with pytest.raises(CommandError, match="No account was created") as refused:
        create_superuser(monkeypatch, password, name="annalovelace")
    assert all(rule in str(refused.value) for rule in rules), refused.value
    assert not User.objects.exists()


def test_createsuperuser_checks_the_name_that_the_environment_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USERNAME": "annalovelace", "EMAIL": "kim@example.org", "PASSWORD": "annalovelace1"}.items():
        monkeypatch.setenv(f"DJANGO_SUPERUSER_{name}", value)
    with pytest.raises(CommandError, match="too similar to the username"):
        call_command("createsuperuser", interactive=False, verbosity=0)
    assert not User.objects.exists()


def test_createsuperuser_without_input_accepts_a_good_password_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    create_superuser(monkeypatch, PASSWORD)
    assert User.objects.get().is_superuser and User.objects.get().check_password(PASSWORD)
    monkeypatch.delenv("DJANGO_SUPERUSER_PASSWORD")
    call_command("createsuperuser", username="boss", email="boss@example.org", interactive=False, verbosity=0)
    assert not User.objects.get(username="boss").has_usable_password()  # signs in by link
