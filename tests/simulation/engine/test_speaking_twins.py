"""Twins made by a language model, over the wire, against a local server."""

import pytest

from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment, ModelCall, Run, Transition, Twin
from simulation.runs import control, queueing
from simulation.scripted_server import Server
from tests.support import speakers
from tests.support.steps import play_out

pytestmark = pytest.mark.both_databases


@pytest.fixture
def step(caffeine: Experiment, model_server: Server) -> Transition:
    """An accepted step of an episode that the talkers play."""
    speakers.cast()
    run = queueing.queue_episodes([caffeine], "talkers", 1, seed=1)
    for _ in range(2):
        Episode.objects.update(not_before=None)
        play_units(run)
    return Transition.objects.get(number=1)


def play_units(run: Run) -> None:
    workers.play("episode", run.episodes.get().code)


def twinned(*perturbations: str, cast: str = "talkers") -> Run:
    run = queueing.queue_twins(Transition.objects.filter(number=1), perturbations, cast, seed=2)
    play_out(run)
    return run


def test_both_error_types_come_through_their_prompts_with_the_secret_kept_apart_and_the_difference_told(
    step: Transition,
) -> None:
    run = twinned("obvious", "subtle")
    assert {(twin.perturbation, twin.status) for twin in run.twins.all()} == {("obvious", "done"), ("subtle", "done")}
    for twin in run.twins.all():
        assert twin.why and "SECRET" not in str(twin.outcome) and twin.why not in str(twin.outcome)
        assert twin.diff and twin.outcome != step.step["outcome"]
        assert twin.vetted_at is None, "only a person can know that this is where the error is"
    obvious, subtle = (run.calls.get(twin__perturbation=error) for error in ("obvious", "subtle"))
    assert obvious.request["system"] != subtle.request["system"]


def test_a_twin_that_does_not_say_what_is_wrong_is_unusable_and_a_retry_asks_anew(
    step: Transition, model_server: Server
) -> None:
    model_server.faults({"fault": "no_secret", "times": 1})
    run = twinned("subtle")
    twin = run.twins.get()
    assert twin.status == "unusable" and twin.error
    assert control.retry_twin(twin)
    play_out(run)
    assert run.twins.get().status == "done" and ModelCall.objects.filter(twin=twin).count() == 2


def test_another_model_answers_the_same_step_plainly(step: Transition) -> None:
    speakers.model("another")
    speakers.cast("others", transition_model=speakers.player("another"))
    twin = twinned("none", cast="others").twins.get()
    assert (twin.status, twin.why, twin.perturbation) == ("done", "", "none")
    assert twin.calls.get().model_name == "another"


def test_rules_have_no_second_answer_to_give(step: Transition) -> None:
    with pytest.raises(LabError, match="language model"):
        queueing.queue_twins(Transition.objects.all(), ["none"], "offline")


def test_a_refused_twin_fails_as_refused(step: Transition, model_server: Server) -> None:
    model_server.faults("refusal")
    twin = twinned("obvious").twins.get()
    assert (twin.status, twin.reason) == ("failed", "refused") and not Twin.objects.filter(status="done").exists()
