"""Side-by-side comparison of two episodes of one experiment."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from simulation.models import Episode
from tests.support import run_factory

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff_client(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


def create_episode(cast: str, replicate: int, steps: int, slug: str = "caffeine") -> Episode:
    row = run_factory.create_episode(slug, cast, replicate, "submitted")
    for number in range(1, steps + 1):
        run_factory.create_transition(row, number)
    return row


def get_comparison(staff_client: Client, row: Episode, **query: object) -> str:
    return staff_client.get(reverse("simulation:beside", args=[row.code]), query).content.decode()


def test_comparison_offers_episodes_of_the_same_experiment_with_human_ones_first(staff_client: Client) -> None:
    row = create_episode("offline", 1, 1)
    other, person = create_episode("offline", 2, 1), create_episode("human", 1, 1)
    create_episode("offline", 1, 1, "zebrafish")
    shown = get_comparison(staff_client, row)
    offered = [shown.index(f'<option value="{one.code}"') for one in (person, other)]
    assert offered == sorted(offered) and shown.count("<option") == 3  # and "Choose an attempt"
    linked = staff_client.get(reverse("simulation:episode", args=[row.code])).content.decode()
    assert reverse("simulation:beside", args=[row.code]) in linked


def test_comparison_shows_steps_side_by_side_and_marks_the_end_of_the_shorter_one(staff_client: Client) -> None:
    person, model = create_episode("human", 1, 2), create_episode("offline", 1, 3)
    shown = get_comparison(staff_client, person, **{"with": str(model.code)})
    assert shown.count('<li class="beside">') == 3 and "The episode of human ended before step 3." in shown
    assert "human, replicate 1" in shown and "offline, replicate 1" in shown
    assert shown.count(f"1 {person.transitions.get(number=1).action_name}</h3>") == 2


def test_comparison_of_long_episodes_is_paginated_with_few_queries(
    staff_client: Client, django_assert_max_num_queries
) -> None:
    first, second = create_episode("human", 1, 3), create_episode("offline", 1, 45)
    with django_assert_max_num_queries(20):
        shown = get_comparison(staff_client, first, **{"with": str(second.code), "page": 3})
    assert shown.count('<li class="beside">') == 5 and "before step 45." in shown


def test_comparison_with_another_experiment_or_an_unknown_episode_is_404(staff_client: Client) -> None:
    row, other = create_episode("offline", 1, 1), create_episode("offline", 1, 1, "zebrafish")
    address = reverse("simulation:beside", args=[row.code])
    for wanted in (other.code, row.code, uuid.uuid4(), "x"):
        assert staff_client.get(address, {"with": str(wanted)}).status_code == 404
    assert "No other episodes of this experiment" in get_comparison(staff_client, row)
