"""The page of a twin: differences, explanation and vetting."""

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
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def twin(db: None) -> Twin:
    """Return a twin made by a model, with two differences and an explanation of one error."""
    call_factories.create_llm_run()
    call_factories.create_llm_run("twins")
    step = run_factory.create_transition(call_factories.create_llm_episode(1), 2)
    made = run_factory.create_twin(
        step, "subtle", cast="small", kind="", rule="", field="", explanation="the sample grew", diff=DIFF
    )
    call_factories.create_answered_call(made, 0, purpose="perturb")
    return made


def twin_url(twin: Twin, name: str = "twin") -> str:
    return reverse(f"simulation:{name}", args=[twin.code])


def get_page(client: Client, address: str) -> str:
    return re.sub(r"\s+", " ", client.get(address).content.decode())


def test_twin_page_shows_differences_explanation_and_calls(staff_client: Client, twin: Twin) -> None:
    shown = get_page(staff_client, twin_url(twin))
    assert "2 differences" in shown and "the sample grew" in shown and "twin maker: perturb" in shown
    assert re.search(r"new_materials\[0\]\.properties\.volume</th>.*?111 mL.*?1 kL", shown)
    assert "&lt;b&gt;7&lt;/b&gt;" in shown and "<b>7" not in shown
    assert "#step-2" in shown


def test_twin_made_by_a_model_is_listed_for_vetting(staff_client: Client, twin: Twin) -> None:
    for address in (twin_url(twin), reverse("simulation:twins"), reverse("simulation:run", args=[twin.run.code])):
        assert "to be vetted" in get_page(staff_client, address)


def test_vetted_twin_shows_its_vetter_and_error_type(staff_client: Client, twin: Twin) -> None:
    answers = vetting.VettingAnswers(
        "accepted", "obvious", wrong=True, only_change=True, tell=False, field=DIFF[0]["path"]
    )
    vetting.record_decision(twin, answers, User.objects.get(username="ada"))
    shown = get_page(staff_client, twin_url(twin))
    assert "to be vetted" not in shown and "By ada" in shown and "the error</span>" in shown
    assert "error type</dt><dd>obvious" in shown and "Vet again" in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": "conservation"},  # planted by rules: known already
        {"perturbation": "none", "explanation": ""},  # another model's plain answer
        {"status": "unusable", "outcome": None, "error": "it says no SECRET"},
    ],
)
def test_twin_that_needs_no_vetting_is_not_listed_for_vetting(
    staff_client: Client, twin: Twin, changes: dict[str, object]
) -> None:
    Twin.objects.filter(pk=twin.pk).update(**changes)
    assert "to be vetted" not in get_page(staff_client, twin_url(twin)) and "Vet this twin" not in get_page(
        staff_client, twin_url(twin)
    )


def test_unusable_twin_shows_the_reason_and_can_be_retried(staff_client: Client, twin: Twin) -> None:
    nothing = {"outcome": None, "diff": [], "explanation": ""}
    Twin.objects.filter(pk=twin.pk).update(status="unusable", error="it does not differ from the original", **nothing)
    shown = get_page(staff_client, twin_url(twin))
    assert "it does not differ from the original" in shown and "excluded from studies" in shown
    assert "it does not differ" in get_page(staff_client, reverse("simulation:run", args=[twin.run.code]))
    assert "the twin does not differ" in get_page(staff_client, reverse("simulation:run", args=[twin.run.code]))
    answer = staff_client.post(twin_url(twin, "retry_twin"), {"from": "twin"})
    assert answer["Location"] == twin_url(twin)
    twin.refresh_from_db()
    assert twin.status == "queued"


@pytest.mark.parametrize("status", [status for status, _ in Twin.STATUSES])
def test_twin_page_and_lists_render_in_every_status(staff_client: Client, twin: Twin, status: str) -> None:
    why = {"reason": "no_twin", "error": "busy"} if status in ("failed", "blocked", "waiting") else {}
    Twin.objects.filter(pk=twin.pk).update(status=status, **why)
    for address in (twin_url(twin), reverse("simulation:twins"), reverse("simulation:run", args=[twin.run.code])):
        assert (status if status != "cancelled" else "stopped") in get_page(staff_client, address)


@pytest.mark.parametrize("name", ["simulation:twin", "ratings:vet"])
def test_twin_pages_are_404_for_raters(client: Client, twin: Twin, name: str) -> None:
    client.force_login(User.objects.create_user("rater"))
    address = reverse(name, args=[twin.code])
    assert client.get(address).status_code == client.post(address).status_code == 404
    twin.refresh_from_db()
    assert twin.vetted_at is None


def test_twin_page_uses_the_same_queries_for_ten_and_twenty_calls(staff_client: Client, twin: Twin) -> None:
    counted = []
    for attempts in (range(2, 11), range(11, 21)):
        for attempt in attempts:
            call_factories.create_failed_call(twin, 0, attempt=attempt)
        Twin.objects.filter(pk=twin.pk).update(diff=[{**DIFF[0], "path": f"p{n}"} for n in range(attempt)])
        with CaptureQueriesContext(connection) as caught:
            staff_client.get(twin_url(twin))
        counted.append(len(caught))
    assert counted[0] == counted[1]
