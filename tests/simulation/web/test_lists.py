"""The lists of episodes, runs, twins and experiments: sorted, filtered, and with actions on the chosen rows."""

import html
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from simulation.models import Episode, EvidenceReview, Run, Twin
from simulation.runs import people
from simulation.web.twin_forms import TwinsForm
from tests.support import call_factories, run_factory

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


def get_page(client: Client, name: str, query: str = "") -> str:
    answer = client.get(f"{reverse(f'simulation:{name}')}?{query}")
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def list_rows(client: Client, query: str = "") -> list[str]:
    """Return the experiments of the listed episodes, in the order of the page."""
    return re.findall(r'<th scope="row"><a href="[^"]*">(\w+), replicate', get_page(client, "episodes", query))


def create_ended(slug: str, sufficient: bool | None, steps: int, seconds: int) -> Episode:
    episode = run_factory.create_episode(slug)
    start = timezone.make_aware(datetime(2026, 5, 1))
    changes: dict[str, Any] = {"next_number": steps + 1, "started_at": start}
    Episode.objects.filter(pk=episode.pk).update(**changes, ended_at=start + timedelta(seconds=seconds))
    if sufficient is not None:
        EvidenceReview.objects.create(episode=episode, classifier="rules", sufficient=sufficient, verdict={})
    return episode


@pytest.fixture
def three_episodes() -> list[Episode]:
    return [create_ended("alpha", True, 9, 30), create_ended("beta", False, 4, 90), create_ended("gamma", None, 6, 60)]


@pytest.mark.parametrize(
    ("query", "slugs"),
    [
        ("sort=episode", ["Alpha", "Beta", "Gamma"]),
        ("sort=-actions", ["Alpha", "Gamma", "Beta"]),  # 9, 6, 4
        ("sort=-duration", ["Beta", "Gamma", "Alpha"]),  # 90 s, 60 s, 30 s
        ("sort=-outcome", ["Alpha", "Beta", "Gamma"]),  # sufficient, not sufficient, no verdict
        ("outcome=insufficient", ["Beta"]),
        ("outcome=sufficient", ["Alpha"]),
        ("q=gam", ["Gamma"]),
        ("outcome=odd", ["Gamma", "Beta", "Alpha"]),  # unknown values are ignored; newest first
    ],
)
@pytest.mark.usefixtures("three_episodes")
def test_episodes_are_sorted_and_filtered_by_the_url(staff: Client, query: str, slugs: list[str]) -> None:
    assert list_rows(staff, query) == slugs


@pytest.mark.usefixtures("three_episodes")
def test_episodes_show_a_colored_outcome_their_duration_and_cost(staff: Client) -> None:
    page = get_page(staff, "episodes")
    assert page.count('pill--ok">sufficient') == 1 and page.count('pill--warn">not sufficient') == 1
    assert ">1 min 30 s<" in page and ">30 s<" in page and page.count(">free<") == 3


def test_cost_of_an_episode_is_the_sum_of_its_calls(staff: Client) -> None:
    call_factories.create_llm_run()
    episode = call_factories.create_llm_episode(1, "submitted")
    calls = [call_factories.create_answered_call(episode, number) for number in (1, 2)]
    total = sum(call.cost or 0 for call in calls)
    assert (total and f">${total:,.2f}" in get_page(staff, "episodes")) or f">${total:.4f}" in get_page(
        staff, "episodes"
    )


def test_twins_of_chosen_episodes_are_created_of_their_steps_only(staff: Client, three_episodes: list[Episode]) -> None:
    for episode in three_episodes:
        for number in (1, 2):
            run_factory.create_transition(episode, number)
    chosen = [str(episode.code) for episode in three_episodes[:2]]
    answer = staff.post(reverse("simulation:act_on_episodes"), {"episode": chosen, "do": "twins"}, follow=True)
    page = html.unescape(answer.content.decode())
    assert "Only steps of the 2 chosen episodes" in page and "8 twins" in page  # 4 steps, each obvious and subtle
    assert re.findall(r'name="experiments" value="(\w+)" checked', page) == ["alpha", "beta"]
    typed = {"experiments": ["alpha", "beta", "gamma"], "cast": "offline", "error": "subtle", "per_transition": 1}
    typed |= {"episodes": chosen, "submission_id": "a" * 32}
    staff.post(reverse("simulation:new_twins"), typed)
    assert {twin.transition.episode.experiment.slug for twin in Twin.objects.all()} == {"alpha", "beta"}
    assert Twin.objects.count() == 4


def test_complete_run_offers_twins_of_its_own_episodes(staff: Client, three_episodes: list[Episode]) -> None:
    run_factory.create_transition(three_episodes[0], 1)
    run = three_episodes[0].run
    address = f"{reverse('simulation:new_twins')}?run={run.code}"
    page = staff.get(reverse("simulation:run", args=[run.code])).content.decode()
    assert f'href="{address}"' in page and reverse("ratings:new_study") in page
    assert "Only steps of the run of" in staff.get(address).content.decode()
    Episode.objects.filter(pk=three_episodes[0].pk).update(status="running")
    assert address not in staff.get(reverse("simulation:run", args=[run.code])).content.decode()


@pytest.mark.parametrize(
    ("code", "reason"),
    [("nonsense", "not a valid UUID"), ("00000000-0000-0000-0000-000000000001", "no longer exists")],
)
def test_twins_of_an_unknown_run_are_refused(three_episodes: list[Episode], code: str, reason: str) -> None:
    run_factory.create_transition(three_episodes[0], 1)
    typed = {"experiments": ["alpha"], "cast": "offline", "error": "subtle", "per_transition": 1, "run": code}
    form = TwinsForm({**typed, "submission_id": "a" * 32})
    assert not form.is_valid() and reason in str(form.errors["run"])
    assert form.build_size({"alpha": 0})["total"] == 0


def test_several_episodes_are_stopped_at_once_and_the_list_keeps_its_filter(staff: Client) -> None:
    rows = [run_factory.create_episode("alpha", replicate=n, status="queued") for n in (1, 2, 3)]
    Episode.objects.filter(pk=rows[2].pk).update(status="submitted")
    address = f"{reverse('simulation:act_on_episodes')}?status=queued"
    answer = staff.post(address, {"episode": [str(row.code) for row in rows], "do": "stop"})
    assert answer["Location"] == f"{reverse('simulation:episodes')}?status=queued"
    assert [row.status for row in Episode.objects.order_by("pk")] == ["cancelled", "cancelled", "submitted"]
    assert "2 episodes stopped. 1 episode had ended already." in get_page(staff, "episodes")


@pytest.mark.parametrize("name", ["episodes", "runs"])
@pytest.mark.parametrize("chosen", [[], ["nonsense"]])
def test_action_on_no_row_says_what_to_do(staff: Client, name: str, chosen: list[str]) -> None:
    data = {"do": "stop", "episode": chosen, "run": chosen}
    answer = staff.post(reverse(f"simulation:act_on_{name}"), data, follow=True)
    assert f"Choose at least one {name[:-1]} first." in answer.content.decode()


def test_several_runs_are_paused_resumed_and_stopped_at_once(staff: Client) -> None:
    experiment = run_factory.create_experiment("alpha", data={"materials": []})
    Episode.objects.create(
        run=run_factory.create_run("episodes", "x"), experiment=experiment, cast="x", replicate=1, seed=1, initial=[]
    )
    Episode.objects.create(
        run=run_factory.create_run("episodes", "y"), experiment=experiment, cast="y", replicate=1, seed=1, initial=[]
    )
    codes = [str(run.code) for run in Run.objects.all()]
    send = reverse("simulation:act_on_runs")
    staff.post(send, {"run": codes, "do": "pause"})
    assert Run.objects.filter(paused_at__isnull=False).count() == 2 and get_page(staff, "runs").count(">Paused<") == 2
    staff.post(send, {"run": codes, "do": "resume"})
    assert not Run.objects.filter(paused_at__isnull=False).exists()
    staff.post(send, {"run": codes[:1], "do": "stop"})
    assert Episode.objects.filter(status="cancelled").count() == 1
    page = get_page(staff, "runs")
    assert "1 run stopped." in page and page.count(">In progress<") == 1 and ">Complete<" in page
    assert len(re.findall(r'name="run" value', page)) == 1  # only runs that can still change


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("error=subtle", 2),
        ("vetting=rules", 2),
        ("vetting=waiting", 2),
        ("checker=none", 4),
        ("checker=error", 0),
        ("kind=odd_kind", 2),
        ("q=caffeine", 4),
        ("cast=nobody", 4),  # unknown: ignored
    ],
)
def test_twins_are_filtered_by_error_kind_checker_and_vetting(staff: Client, query: str, shown: int) -> None:
    episode = run_factory.create_episode()
    for number in (1, 2):
        step = run_factory.create_transition(episode, number)
        run_factory.create_twin(step, "obvious", kind="odd_kind")
        run_factory.create_twin(step, "subtle", kind="", rule="")
    page = get_page(staff, "twins", query)
    assert page.count('id="twin-') == shown
    assert ("No twins match" in page) == (shown == 0)


def test_experiments_have_group_headings_and_a_filter(staff: Client) -> None:
    for name, group in (("beta", "Chemistry"), ("alpha", "Zoology"), ("gamma", "Chemistry")):
        run_factory.create_experiment(name, group=group)
    page = get_page(staff, "experiments")
    assert page.count('scope="rowgroup"') == 2 and page.index("Beta") < page.index("Gamma") < page.index("Alpha")
    filtered = get_page(staff, "experiments", "group=Zoology")
    assert "Alpha</a>" in filtered and "Beta</a>" not in filtered
    assert "No experiments match" in get_page(staff, "experiments", "q=nothing")


def test_lists_use_the_same_queries_for_more_rows(staff: Client) -> None:
    counts = []
    for replicates in (range(1, 4), range(4, 12)):
        for replicate in replicates:
            step = run_factory.create_transition(run_factory.create_episode(replicate=replicate), 1)
            run_factory.create_twin(step, "subtle")
            Run.objects.create(submission_id=f"more-{replicate}", kind="episodes", cast="offline", seed=replicate)
        for name in ("episodes", "runs", "twins"):
            with CaptureQueriesContext(connection) as caught:
                get_page(staff, name)
            counts.append(len(caught))
    assert counts[:3] == counts[3:]
    assert people.HUMAN_CAST in get_page(staff, "episodes")  # a choice of the filter
