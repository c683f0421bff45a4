"""The page of a twin: where it differs, who says it is wrong, and who vetted that."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from simulation.models import Twin
from simulation.runs import vetting
from tests.support import call_factories, run_factory

DIFF = [
    {"path": "new_materials[0].properties.volume", "before": "111 mL", "after": "1 kL"},
    {"path": "new_observations[0].value", "before": None, "after": "<b>7</b>"},
]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def staff(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def twin(db: None) -> Twin:
    """A model's twin with two differences, of which it calls one an error."""
    call_factories.run()
    call_factories.run("twins")
    step = run_factory.transition(call_factories.episode(1), 2)
    made = run_factory.twin(step, "subtle", cast="small", kind="", rule="", field="", why="the sample grew", diff=DIFF)
    call_factories.call(made, 0, purpose="perturb")
    return made


def of_twin(twin: Twin, name: str = "twin") -> str:
    return reverse(f"simulation:{name}", args=[twin.code])


def page(client: Client, address: str) -> str:
    return re.sub(r"\s+", " ", client.get(address).content.decode())


def test_a_twins_page_shows_where_it_differs_why_and_its_calls(staff: Client, twin: Twin) -> None:
    shown = page(staff, of_twin(twin))
    assert "2 differences" in shown and "the sample grew" in shown and "twin maker: perturb" in shown
    assert re.search(r"new_materials\[0\]\.properties\.volume</th>.*?111 mL.*?1 kL", shown)
    assert "&lt;b&gt;7&lt;/b&gt;" in shown and "<b>7" not in shown
    assert "#step-2" in shown


def test_a_models_twin_is_to_be_vetted_and_the_list_says_so(staff: Client, twin: Twin) -> None:
    for address in (of_twin(twin), reverse("simulation:twins"), reverse("simulation:run", args=[twin.run.code])):
        assert "to be vetted" in page(staff, address)


def test_a_twin_that_was_vetted_says_by_whom_and_as_what(staff: Client, twin: Twin) -> None:
    answers = vetting.Answers("accepted", "obvious", wrong=True, only_change=True, tell=False, field=DIFF[0]["path"])
    vetting.decide(twin, answers, User.objects.get(username="ada"))
    shown = page(staff, of_twin(twin))
    assert "to be vetted" not in shown and "By ada" in shown and "the error</span>" in shown
    assert "error type</dt><dd>obvious" in shown and "Vet again" in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "conservation"},  # planted by rules: known already
        {"perturbation": "none", "why": ""},  # another model's plain answer
        {"status": "unusable", "outcome": None, "error": "it says no SECRET"},
    ],
)
def test_what_needs_no_vetting_is_not_sent_there(staff: Client, twin: Twin, changes: dict[str, object]) -> None:
    Twin.objects.filter(pk=twin.pk).update(**changes)
    assert "to be vetted" not in page(staff, of_twin(twin)) and "Vet this twin" not in page(staff, of_twin(twin))


def test_an_unusable_twin_says_why_and_is_asked_for_again(staff: Client, twin: Twin) -> None:
    nothing = {"outcome": None, "diff": [], "why": ""}
    Twin.objects.filter(pk=twin.pk).update(status="unusable", error="it does not differ from the original", **nothing)
    shown = page(staff, of_twin(twin))
    assert "it does not differ from the original" in shown and "left out of studies" in shown
    assert "it does not differ" in page(staff, reverse("simulation:run", args=[twin.run.code]))
    assert "a twin that does not differ" in page(staff, reverse("simulation:run", args=[twin.run.code]))
    answer = staff.post(of_twin(twin, "retry_twin"), {"from": "twin"})
    assert answer["Location"] == of_twin(twin)
    twin.refresh_from_db()
    assert twin.status == "queued"


@pytest.mark.parametrize("status", [status for status, _ in Twin.STATUSES])
def test_a_twin_has_a_page_and_a_line_in_every_state(staff: Client, twin: Twin, status: str) -> None:
    why = {"reason": "no_twin", "error": "busy"} if status in ("failed", "blocked", "waiting") else {}
    Twin.objects.filter(pk=twin.pk).update(status=status, **why)
    for address in (of_twin(twin), reverse("simulation:twins"), reverse("simulation:run", args=[twin.run.code])):
        assert (status if status != "cancelled" else "stopped") in page(staff, address)


@pytest.mark.parametrize("name", ["simulation:twin", "ratings:vet"])
def test_twins_exist_for_staff_alone(client: Client, twin: Twin, name: str) -> None:
    client.force_login(User.objects.create_user("rater"))
    address = reverse(name, args=[twin.code])
    assert client.get(address).status_code == client.post(address).status_code == 404
    twin.refresh_from_db()
    assert twin.vetted_at is None


def test_a_twin_page_takes_as_many_queries_for_twenty_calls_and_places_as_for_ten(staff: Client, twin: Twin) -> None:
    counted = []
    for attempts in (range(2, 11), range(11, 21)):
        for attempt in attempts:
            call_factories.failed_call(twin, 0, attempt=attempt)
        Twin.objects.filter(pk=twin.pk).update(diff=[{**DIFF[0], "path": f"p{n}"} for n in range(attempt)])
        with CaptureQueriesContext(connection) as caught:
            staff.get(of_twin(twin))
        counted.append(len(caught))
    assert counted[0] == counted[1]
