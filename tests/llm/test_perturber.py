"""Twins through a language model: wrong on purpose, with the reason told apart; or another model's plain answer."""

import pytest
from talking import bench, handed, mix, seen, written

from simulation.lab.outcomes import Observation, Outcome, Perturbation, PerturbedOutcome
from simulation.llm.errors import NoUsableAnswer, Refusal, Unusable
from simulation.llm.perturber import LLMPerturber
from simulation.llm.prompt_sets import built_in
from simulation.llm.questions import question
from simulation.llm.transition_model import LLMTransitionModel
from simulation.providers.base import Completion, Prompt, Stop
from simulation.providers.scripted import ScriptedProvider

TEXTS = built_in()
ON = bench()
ACTION = mix(ON, "Cells")
CORRECT = LLMTransitionModel(ScriptedProvider([written(handed("Cells", "S1"), observations=[seen()])]), TEXTS).predict(
    ACTION, ON.situation()
)
WRONG = handed("Cells", "S1", properties={"volume": "12 mL", "container": "50 mL tube"})


def perturb(perturbation: Perturbation, *answers: str | Completion) -> tuple[PerturbedOutcome, list[Prompt]]:
    speak = ScriptedProvider(answers)
    return LLMPerturber(speak, TEXTS, perturbation).perturb(ACTION, ON.situation(), CORRECT), speak.prompts


def test_a_twin_has_its_secret_apart_and_the_only_place_that_differs():
    twin, _ = perturb(
        Perturbation.SUBTLE,
        written(WRONG, observations=[seen()], reasoning="Mixed well. SECRET: 2 mL came from nowhere"),
    )
    assert (twin.kind, twin.rule, twin.why) == ("model", "", "2 mL came from nowhere")
    assert twin.field == "new_materials[0].properties.volume"
    assert twin.outcome.reasoning == "Mixed well."
    assert "nowhere" not in str(twin.outcome.to_json())
    assert twin.outcome.new_materials[0].replaces == ACTION.materials[0]


def test_where_several_places_differ_no_field_is_named():
    answer = written(WRONG, observations=[seen("A red liquid")], reasoning="SECRET: two things")
    assert perturb(Perturbation.SUBTLE, answer)[0].field == ""


@pytest.mark.parametrize(
    ("perturbation", "system", "user", "purpose"),
    [
        (Perturbation.SUBTLE, "transition.system.txt", "incorrect.user.txt", "perturb"),
        (Perturbation.OBVIOUS, "obvious.system.txt", "obvious.user.txt", "perturb"),
        (Perturbation.NONE, "transition.system.txt", "transition.user.txt", "answer"),
    ],
)
def test_each_error_type_has_its_own_texts_and_the_same_question(perturbation, system, user, purpose):
    _, (prompt,) = perturb(perturbation, written(WRONG, reasoning="SECRET: x"))
    assert prompt.system == TEXTS.fill(system)
    assert prompt.messages[0].text == TEXTS.fill(user, **question(ACTION, ON.situation()).values())
    assert (prompt.purpose, prompt.prompt_set, prompt.wants_json) == (purpose, TEXTS.sha256, True)


def test_a_twin_that_does_not_differ_is_unusable():
    with pytest.raises(Unusable, match="does not differ"):
        perturb(
            Perturbation.SUBTLE, written(handed("Cells", "S1"), observations=[seen()], reasoning="SECRET: all wrong")
        )


def test_a_twin_that_keeps_its_error_to_itself_is_unusable():
    with pytest.raises(Unusable, match="nothing follows SECRET:"):
        perturb(Perturbation.OBVIOUS, written(WRONG, observations=[seen()], reasoning="Mixed well. SECRET: "))


def test_another_models_plain_answer_needs_neither_difference_nor_secret():
    twin, _ = perturb(Perturbation.NONE, written(handed("Cells", "S1"), observations=[seen()]))
    assert (twin.why, twin.field, twin.outcome.new_observations) == ("", "", CORRECT.new_observations)


def test_a_secret_where_raters_would_read_it_is_asked_again():
    shown = written(WRONG, observations=[seen("Clear. SECRET: 12 mL is wrong")], reasoning="SECRET: volume")
    twin, prompts = perturb(
        Perturbation.SUBTLE, shown, written(WRONG, observations=[seen()], reasoning="SECRET: volume")
    )
    assert twin.why == "volume" and len(prompts) == 2
    assert "planted error stands in new_observations[0]" in prompts[1].messages[2].text


def test_a_twin_that_cannot_be_read_after_two_repairs_is_no_twin():
    with pytest.raises(NoUsableAnswer) as caught:
        perturb(Perturbation.SUBTLE, "no", "no", "no", "no")
    assert caught.value.reason == "no_twin"


def test_a_refusal_to_be_wrong_is_a_refusal():
    with pytest.raises(Refusal):
        perturb(Perturbation.OBVIOUS, Completion("", Stop.REFUSAL, None, "m", refusal="bio"))


def test_a_rejected_original_can_have_a_twin_that_went_through():
    rejected = Outcome.rejected("too cold")
    speak = ScriptedProvider([written(handed("Cells", "S1"), reasoning="SECRET: it was frozen")])
    twin = LLMPerturber(speak, TEXTS, Perturbation.OBVIOUS).perturb(ACTION, ON.situation(), rejected)
    assert twin.outcome.success and twin.why == "it was frozen"
    assert CORRECT.new_observations == (Observation("A clear liquid", "visual", "clear"),)
