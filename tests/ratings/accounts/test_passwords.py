"""Tests of password rules and password hashing."""

from typing import Any

import pytest
from django.contrib.auth.hashers import identify_hasher, make_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

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
