"""Hidden steps on the pages: the form of a run, lists of episodes, and the page of an episode."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from simulation.jobs import jobs
from simulation.lab.hidden_steps.masks import Drawing
from simulation.models import Experiment, Job, Run
from simulation.offline.hidden_steps import essential_steps, protocol_runs
from simulation.runs import create
from simulation.runs.protocol_masks import MaskOrder
from tests.support import model_casts
from tests.support.steps import run_to_end

ADDRESS = "/episodes/new/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def colonies(lab: None) -> Experiment:
    Experiment.objects.filter(slug="gfp-colony-screening").update(essential_steps=[1, 4, 6, 7, 8, 9])
    return Experiment.objects.get(slug="gfp-colony-screening")


def fill_form(**fields: Any) -> dict[str, Any]:
    ordered = {"experiments": ["gfp-colony-screening"], "cast": "offline-gaps", "replicates": "2", "seed": "1"}
    return {**ordered, "submission_id": "0" * 32, **fields}


def read(response: Any) -> str:
    return " ".join(response.content.decode().split())


def run_jobs() -> None:
    for job in Job.objects.exclude(status__in=Job.ENDED):
        jobs.run_job_here(job)


def test_form_orders_masks_and_shows_their_number_first(staff_client: Client, colonies: Experiment) -> None:
    sent = fill_form(hide="0, 2", draws="3", mask_mode="nested", help_mode="prefix", mask_seed="4")
    shown = read(staff_client.get(ADDRESS, sent, headers=HTMX))
    assert "<strong>8 episodes</strong> will be created: 1 experiment × 4 masks × 2 replicates" in shown
    answers = [staff_client.post(ADDRESS, sent) for _ in range(2)]
    job = Job.objects.get()
    assert {answer.headers["Location"] for answer in answers} == {reverse("ratings:job", args=[job.code])}
    assert "Run with hidden steps" in read(staff_client.get(answers[0].headers["Location"]))
    run_jobs()
    run = Run.objects.get()
    assert reverse("simulation:run", args=[run.code]) in read(staff_client.get(answers[0].headers["Location"]))
    assert staff_client.post(ADDRESS, sent).headers["Location"] == answers[0].headers["Location"]
    assert run.conditions == {"hide": [0, 2], "draws": 3, "mode": "nested", "help": "prefix", "mask_seed": 4}
    assert run.episodes.count() == 8
    # Without numbers of hidden steps, the other fields mean nothing.
    assert staff_client.post(ADDRESS, fill_form(submission_id="1" * 32, draws="3")).status_code == 302
    assert not Run.objects.get(submission_id="1" * 32).conditions


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hide": "one"}, "Enter numbers from 0 to 30 divided by commas."),
        ({"hide": "2,2"}, "Enter each number from 0 to 30 at most once."),
        ({"hide": "31"}, "Enter each number from 0 to 30 at most once."),
        ({"hide": "1,2,3,4,5,6", "draws": "20"}, "These are up to 120 masks, and one form can order 100."),
        ({"hide": "7", "draws": "1"}, "gfp-colony-screening has 6"),
    ],
)
def test_wrong_masks_are_refused_on_the_form(
    staff_client: Client, colonies: Experiment, fields: dict[str, str], words: str
) -> None:
    response = staff_client.post(ADDRESS, fill_form(**fields))
    assert response.status_code == 422 and words in read(response) and "<details open>" in read(response)
    assert not Run.objects.exists()


def test_request_runs_no_protocol_and_the_worker_finds_essential_steps_once(
    staff_client: Client, lab: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    run_protocol = protocol_runs.run_protocol

    def count_runs(spec: Any, *arguments: Any, **options: Any) -> Any:
        runs.append(spec.slug)
        return run_protocol(spec, *arguments, **options)

    monkeypatch.setattr(essential_steps, "run_protocol", count_runs)
    assert staff_client.post(ADDRESS, fill_form(hide="1", draws="1")).status_code == 302
    assert runs == [] and Experiment.objects.get(slug="gfp-colony-screening").essential_steps is None
    run_jobs()
    steps = Experiment.objects.get(slug="gfp-colony-screening").essential_steps
    assert steps == [1, 4, 6, 7, 8, 9] and Run.objects.get().episodes.count() == 2
    runs.clear()
    sent = fill_form(hide="1", draws="1", submission_id="2" * 32)
    assert staff_client.post(ADDRESS, sent).status_code == 302
    run_jobs()
    assert len(runs) == 2  # the whole protocol, and the mask
    # Too few essential steps, if they are found only by the worker.
    Experiment.objects.update(essential_steps=None)
    address = staff_client.post(ADDRESS, fill_form(hide="9", submission_id="3" * 32)).headers["Location"]
    run_jobs()
    assert "gfp-colony-screening has 6" in read(staff_client.get(address)) and Run.objects.count() == 2


def test_protocol_prompts_are_the_default_of_a_run_with_hidden_steps(
    staff_client: Client, colonies: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_casts.create_cast()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "key")
    assert '<option value="" selected>' in read(staff_client.get(ADDRESS))
    for number, hide in enumerate(("1", "")):
        sent = fill_form(cast="model_cast_server", hide=hide, draws="1", prompt_set="", submission_id=str(number) * 32)
        assert staff_client.post(ADDRESS, sent).status_code == 302
    run_jobs()
    names = {run.submission_id: run.setup["prompt_set"]["name"] for run in Run.objects.all()}
    assert names == {"0" * 32: "wetbench-protocol", "1" * 32: "wetbench"}


def test_pages_name_the_hidden_steps_and_what_they_had_counted_for(staff_client: Client, colonies: Experiment) -> None:
    order = MaskOrder((1,), Drawing(help="prefix"))
    run = create.create_episode_run([colonies], "offline", 1, seed=1, masks=order)
    episode = run.episodes.get()
    step = episode.mask["hidden"][0]
    words = f"hidden step {step}; the steps before are done for the agent"
    run_to_end(run)
    shown = read(staff_client.get(f"/episodes/{episode.code}/"))
    assert f"Protocol: {words}. It is excluded from benchmarks and studies." in shown
    assert f"{step}. (one step is missing here)" in shown
    assert "What the hidden steps had counted for, by the checklist" in shown and "Met: " in shown
    given = shown.count('<span class="pill">given</span>')
    assert given == step - 1 and (given == 0 or f"The first {given} step" in shown)
    for address in ("/episodes/", f"/runs/{run.code}/"):
        assert words in read(staff_client.get(address)), address


def test_episodes_without_a_protocol_show_none(staff_client: Client, colonies: Experiment) -> None:
    episode = create.create_episode_run([colonies], "offline", 1, seed=1).episodes.get()
    shown = read(staff_client.get(f"/episodes/{episode.code}/"))
    assert 'id="protocol"' not in shown and "excluded from benchmarks" not in shown
