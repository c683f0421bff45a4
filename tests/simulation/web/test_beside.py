"""Two attempts at one experiment side by side: the choice, the steps of both, and what is refused."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from simulation.models import Episode
from tests.support import run_factory

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


def attempt(cast: str, replicate: int, steps: int, slug: str = "caffeine") -> Episode:
    row = run_factory.episode(slug, cast, replicate, "submitted")
    for number in range(1, steps + 1):
        run_factory.transition(row, number)
    return row


def page(staff: Client, row: Episode, **query: object) -> str:
    return staff.get(reverse("simulation:beside", args=[row.code]), query).content.decode()


def test_the_attempts_of_the_same_experiment_are_offered_those_of_people_first(staff: Client) -> None:
    row = attempt("offline", 1, 1)
    other, person = attempt("offline", 2, 1), attempt("human", 1, 1)
    attempt("offline", 1, 1, "zebrafish")
    shown = page(staff, row)
    offered = [shown.index(f'<option value="{one.code}"') for one in (person, other)]
    assert offered == sorted(offered) and shown.count("<option") == 3  # and "Choose an attempt"
    linked = staff.get(reverse("simulation:episode", args=[row.code])).content.decode()
    assert reverse("simulation:beside", args=[row.code]) in linked


def test_both_are_shown_step_by_step_and_the_shorter_one_says_that_it_has_ended(staff: Client) -> None:
    person, model = attempt("human", 1, 2), attempt("offline", 1, 3)
    shown = page(staff, person, **{"with": str(model.code)})
    assert shown.count('<li class="beside">') == 3 and "The episode of human ended before step 3." in shown
    assert "human, replicate 1" in shown and "offline, replicate 1" in shown
    assert shown.count(f"1 {person.transitions.get(number=1).action_name}</h3>") == 2


def test_long_attempts_come_in_pages_with_the_same_number_of_queries(
    staff: Client, django_assert_max_num_queries
) -> None:
    first, second = attempt("human", 1, 3), attempt("offline", 1, 45)
    with django_assert_max_num_queries(20):
        shown = page(staff, first, **{"with": str(second.code), "page": 3})
    assert shown.count('<li class="beside">') == 5 and "before step 45." in shown


def test_an_attempt_at_another_experiment_or_none_at_all_is_no_page(staff: Client) -> None:
    row, other = attempt("offline", 1, 1), attempt("offline", 1, 1, "zebrafish")
    address = reverse("simulation:beside", args=[row.code])
    for wanted in (other.code, row.code, uuid.uuid4(), "x"):
        assert staff.get(address, {"with": str(wanted)}).status_code == 404
    assert "No other episodes of this experiment" in page(staff, row)
