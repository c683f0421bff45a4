"""Twins of language models, with HTTP calls to a local server."""

import pytest

from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment, ModelCall, Run, Transition, Twin
from simulation.runs import control, create
from tests.support import model_casts
from tests.support.embedded_worker import run_one_unit
from tests.support.model_server import Server
from tests.support.steps import run_to_end

pytestmark = pytest.mark.both_databases


@pytest.fixture
def step(caffeine: Experiment, model_server: Server) -> Transition:
    """An accepted step of an episode of language models."""
    model_casts.create_cast()
    run = create.create_episode_run([caffeine], "model_cast_server", 1, seed=1)
    for _ in range(2):
        Episode.objects.update(not_before=None)
        run_units(run)
    return Transition.objects.get(number=1)


def run_units(run: Run) -> None:
    run_one_unit("episode", run.episodes.get().code)


def create_twins(*perturbations: str, cast: str = "model_cast_server") -> Run:
    run = create.create_twin_run(Transition.objects.filter(number=1), perturbations, cast, seed=2)
    run_to_end(run)
    return run


def test_twins_of_both_error_types_keep_the_explanation_out_of_the_outcome_and_record_the_diff(
    step: Transition,
) -> None:
    run = create_twins("obvious", "subtle")
    assert {(twin.perturbation, twin.status) for twin in run.twins.all()} == {("obvious", "done"), ("subtle", "done")}
    for twin in run.twins.all():
        assert twin.explanation and "SECRET" not in str(twin.outcome) and twin.explanation not in str(twin.outcome)
        assert twin.diff and twin.outcome != step.step["outcome"]
        assert twin.vetted_at is None, "only a person can know that this is where the error is"
    obvious, subtle = (run.calls.get(twin__perturbation=error) for error in ("obvious", "subtle"))
    assert obvious.request["system"] != subtle.request["system"]


def test_twin_without_a_described_error_is_unusable_and_can_be_retried(step: Transition, model_server: Server) -> None:
    model_server.set_faults({"fault": "no_secret", "times": 1})
    run = create_twins("subtle")
    twin = run.twins.get()
    assert twin.status == "unusable" and twin.error
    assert control.retry_twin(twin)
    run_to_end(run)
    assert run.twins.get().status == "done" and ModelCall.objects.filter(twin=twin).count() == 2


def test_twin_without_an_error_is_the_plain_answer_of_another_model(step: Transition) -> None:
    model_casts.create_priced_model("another")
    model_casts.create_cast("others", transition_model=model_casts.build_role("another"))
    twin = create_twins("none", cast="others").twins.get()
    assert (twin.status, twin.explanation, twin.perturbation) == ("done", "", "none")
    assert twin.calls.get().model_name == "another"


def test_twin_without_an_error_is_refused_for_rule_based_casts(step: Transition) -> None:
    with pytest.raises(LabError, match="language model"):
        create.create_twin_run(Transition.objects.all(), ["none"], "offline")


def test_twin_that_a_model_refuses_fails_as_refused(step: Transition, model_server: Server) -> None:
    model_server.set_faults("refusal")
    twin = create_twins("obvious").twins.get()
    assert (twin.status, twin.reason) == ("failed", "refused") and not Twin.objects.filter(status="done").exists()
