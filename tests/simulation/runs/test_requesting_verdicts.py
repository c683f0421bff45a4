"""Requesting missing panel verdicts again."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from simulation.models import Episode, EvidenceReview, Experiment, MissingReview, ModelCall, Run
from simulation.runs import control, create
from tests.support import model_casts
from tests.support.model_server import Server
from tests.support.steps import run_to_end

pytestmark = pytest.mark.django_db
REFUSES = {"fault": "wrong_enum", "model": "judge-two"}


@pytest.fixture
def model_cast_server(caffeine: Experiment, model_server: Server) -> Server:
    model_casts.create_cast(panel=("judge-two",))
    return model_server


@pytest.fixture
def run(model_cast_server: Server) -> Run:
    """An episode that ended without the verdict of its panel's second judge."""
    chosen = Experiment.objects.filter(slug="caffeine-hplc-analysis")
    made = create.create_episode_run(chosen, "model_cast_server", 1, seed=1)
    model_cast_server.set_faults(REFUSES)
    run_to_end(made)
    assert (episode().status, missing()) == ("submitted", [("judge-two", "no_verdict")])
    return made


def episode() -> Episode:
    return Episode.objects.get()


def missing() -> list[tuple[str, str]]:
    return list(MissingReview.objects.values_list("classifier", "reason"))


def verdict_calls() -> dict[str, int]:
    calls = ModelCall.objects.filter(role="verdict").values_list("speaker", flat=True)
    return {name: list(calls).count(name) for name in set(calls)}


def test_requested_verdict_needs_no_model_call_except_its_own(run: Run, model_cast_server: Server) -> None:
    before = verdict_calls()
    model_cast_server.set_faults()
    assert [control.request_verdicts(run.episodes.all()), control.request_verdicts(run.episodes.all())] == [1, 0]
    assert episode().status == "queued"
    run_to_end(run)
    assert (episode().status, missing()) == ("submitted", [])
    assert set(EvidenceReview.objects.values_list("classifier", "primary")) == {("a-judge", True), ("judge-two", False)}
    assert verdict_calls() == {**before, "judge-two": before["judge-two"] + 1}
    assert control.request_verdicts(run.episodes.all()) == 0


def test_requested_verdict_that_is_refused_again_stays_missing(run: Run) -> None:
    verdict = EvidenceReview.objects.get().sufficient
    control.request_verdicts(run.episodes.all())
    run_to_end(run)
    assert (episode().status, missing()) == ("submitted", [("judge-two", "no_verdict")])
    assert EvidenceReview.objects.get().sufficient == verdict
    assert MissingReview.objects.get().requested_at is None
    assert control.request_verdicts(run.episodes.all()) == 1  # and can be requested once more


def test_requested_verdict_without_a_key_stays_missing_and_does_not_block(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    control.request_verdicts(run.episodes.all())
    run_to_end(run)
    assert (episode().status, missing()) == ("submitted", [("judge-two", "credentials")])


def test_stopping_a_verdict_request_restores_the_status_of_the_ended_episode(
    run: Run, model_cast_server: Server
) -> None:
    model_cast_server.set_faults()
    control.request_verdicts(run.episodes.all())
    assert control.stop_run(run) == 1
    row = episode()
    assert (row.status, row.ended_at is not None, missing()) == ("submitted", True, [("judge-two", "no_verdict")])
    assert MissingReview.objects.get().requested_at is None


def test_missing_verdict_can_be_requested_on_the_pages_of_episode_and_run(
    run: Run, model_cast_server: Server, client: Client
) -> None:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    pages = reverse("simulation:episode", args=[episode().code]), reverse("simulation:run", args=[run.code])
    for page in pages:
        assert "Request missing verdicts again" in client.get(page).content.decode()
    said = client.post(reverse("simulation:request_verdicts", args=[episode().code]), follow=True).content.decode()
    assert "1 missing verdict requested again." in said and "Requested again" in said
    said = client.post(reverse("simulation:request_run_verdicts", args=[run.code]), follow=True).content.decode()
    assert "No verdict was requested" in said
    model_cast_server.set_faults()
    run_to_end(run)
    for page in pages:
        assert "Request missing verdicts again" not in client.get(page).content.decode()
