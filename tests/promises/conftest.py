"""The objects and people of `access_world`, created once for all tests of a module; each test rolls back its own changes."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.support import access_world
from tests.support.access_world import World


@pytest.fixture(scope="module")
def shared_world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield access_world.build_world()
        transaction.set_rollback(True)


@pytest.fixture
def world(shared_world: World) -> World:
    """Return a copy, so that values that a test stores on the rows' objects end with it."""
    return copy.deepcopy(shared_world)
