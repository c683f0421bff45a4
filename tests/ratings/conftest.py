"""Users who open the pages of studies."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.account_steps import PASSWORD


@pytest.fixture
def ada(db: None) -> User:
    """A staff user, for studies of her own."""
    return User.objects.create_user("ada", password="enough-of-ada", is_staff=True)


@pytest.fixture
def staff(client: Client, ada: User) -> Client:
    """Ada's browser."""
    client.force_login(ada)
    return client


@pytest.fixture
def kim(db: None) -> User:
    """A user with a password and an e-mail address."""
    return User.objects.create_user("kim", "kim@example.org", PASSWORD)


@pytest.fixture
def boss(client: Client) -> Client:
    """The browser of a superuser."""
    client.force_login(User.objects.create_superuser("root"))
    return client
