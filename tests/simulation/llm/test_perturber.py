"""The language-model twin maker: planted errors with an explanation, or another model's plain answer."""

from dataclasses import replace

import pytest

from simulation.lab.outcomes import Observation, Outcome, Perturbation, PerturbedOutcome
from simulation.llm import NoUsableAnswer, Refusal
from simulation.llm.errors import Unusable
from simulation.llm.perturber import LLMPerturber
from simulation.llm.prompts.prompt_sets import built_in
from simulation.llm.prompts.questions import question
from simulation.llm.transition_model import LLMTransitionModel
from simulation.providers import Prompt
from simulation.providers.base import Completion, Stop
from simulation.providers.scripted import ScriptedProvider
from tests.support.talking import bench, draft, handed, mix, seen, written

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


def test_twin_has_its_explanation_and_the_only_changed_field():
    twin, _ = perturb(
        Perturbation.SUBTLE,
        written(WRONG, observations=[seen()], reasoning="Mixed well. SECRET: 2 mL came from nowhere"),
    )
    assert (twin.kind, twin.rule, twin.why) == ("", "", "2 mL came from nowhere")
    assert twin.field == "new_materials[0].properties.volume"
    assert twin.outcome.reasoning == "Mixed well."
    assert "nowhere" not in str(twin.outcome.to_json())
    assert twin.outcome.new_materials[0].replaces == ACTION.materials[0]


def test_twin_with_several_changes_names_no_field():
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
def test_each_perturbation_has_its_own_prompt_texts_and_the_same_question(perturbation, system, user, purpose):
    _, (prompt,) = perturb(perturbation, written(WRONG, reasoning="SECRET: x"))
    assert prompt.system == TEXTS.fill(system)
    assert prompt.messages[0].text == TEXTS.fill(user, **question(ACTION, ON.situation()).values())
    assert (prompt.purpose, prompt.prompt_set, prompt.wants_json) == (purpose, TEXTS.sha256, True)


def test_twin_identical_to_its_original_is_unusable():
    with pytest.raises(Unusable, match="does not differ"):
        perturb(
            Perturbation.SUBTLE, written(handed("Cells", "S1"), observations=[seen()], reasoning="SECRET: all wrong")
        )


def test_twin_without_an_explanation_is_unusable():
    with pytest.raises(Unusable, match="nothing follows SECRET:"):
        perturb(Perturbation.OBVIOUS, written(WRONG, observations=[seen()], reasoning="Mixed well. SECRET: "))


def test_plain_answer_of_another_model_needs_neither_difference_nor_explanation():
    twin, _ = perturb(Perturbation.NONE, written(handed("Cells", "S1"), observations=[seen()]))
    assert (twin.kind, twin.why, twin.field) == ("", "", "")
    assert twin.outcome.new_observations == CORRECT.new_observations


def test_twin_with_its_secret_in_visible_text_is_requested_again():
    shown = written(WRONG, observations=[seen("Clear. SECRET: 12 mL is wrong")], reasoning="SECRET: volume")
    twin, prompts = perturb(
        Perturbation.SUBTLE, shown, written(WRONG, observations=[seen()], reasoning="SECRET: volume")
    )
    assert twin.why == "volume" and len(prompts) == 2
    assert "planted error stands in new_observations[0]" in prompts[1].messages[2].text


def test_unreadable_twin_raises_no_usable_answer_after_two_repairs():
    with pytest.raises(NoUsableAnswer) as caught:
        perturb(Perturbation.SUBTLE, "no", "no", "no", "no")
    assert caught.value.reason == "no_twin"


def test_refusal_to_plant_an_error_raises_refusal():
    with pytest.raises(Refusal):
        perturb(Perturbation.OBVIOUS, Completion("", Stop.REFUSAL, None, "m", refusal="bio"))


def test_twin_with_another_success_value_is_requested_again():
    refused = written(success=False, failure_reason="too cold", reasoning="SECRET: it was warm")
    twin, prompts = perturb(
        Perturbation.SUBTLE, refused, written(WRONG, observations=[seen()], reasoning="SECRET: 2 mL")
    )
    assert twin.outcome.success and len(prompts) == 2
    assert "- success must be true: the action is carried out" in prompts[1].messages[2].text
    with pytest.raises(Unusable, match="by its form: success must be true"):
        perturb(Perturbation.OBVIOUS, refused, refused, refused)


def test_twin_of_a_rejected_step_is_a_rejection_for_another_reason():
    speak = ScriptedProvider([
        written(handed("Cells", "S1"), reasoning="SECRET: it was frozen"),
        written(success=False, failure_reason="too warm", reasoning="SECRET: it was frozen"),
    ])  # fmt: skip
    twin = LLMPerturber(speak, TEXTS, Perturbation.OBVIOUS).perturb(
        ACTION, ON.situation(), Outcome.rejected("too cold")
    )
    assert (twin.outcome.failure_reason, twin.field) == ("too warm", "failure_reason")
    assert "success must be false" in speak.prompts[1].messages[2].text
    assert CORRECT.new_observations == (Observation("A clear liquid", "visual", "clear"),)


def test_plain_answer_that_rejects_an_accepted_step_is_unusable():
    with pytest.raises(Unusable, match="rejects what was accepted: too cold"):
        perturb(Perturbation.NONE, written(success=False, failure_reason="too cold"))


@pytest.mark.parametrize(
    ("materials", "observation", "word"),
    [
        (handed("Deliberately wrong cells", "S1"), seen(), "deliberately"),
        (handed("Cells", "S1", properties={"volume": "12 mL", "error_type": "2"}), seen(), "error type"),
        (WRONG, seen("An IMPLAUSIBLE colour"), "implausible"),
        (WRONG, seen(value="ｐｅｒｔｕｒｂｅｄ"), "perturbed"),
        (WRONG, seen(measurement_type="intentional_error"), "intentional"),
        (WRONG, seen("a se\u200bcret"), "secret"),
    ],
)
def test_twin_with_telltale_words_is_requested_again(materials, observation, word):
    shown = written(materials, observations=[observation], reasoning="SECRET: volume")
    twin, prompts = perturb(
        Perturbation.SUBTLE, shown, written(WRONG, observations=[seen()], reasoning="SECRET: volume")
    )
    assert twin.outcome.new_materials[0].name == "Cells"
    assert f"gives the mistake away by the word '{word}'" in prompts[1].messages[2].text
    with pytest.raises(Unusable, match="can be told from the original by its form"):
        perturb(Perturbation.OBVIOUS, shown, shown, shown)


def test_twin_that_repeats_its_explanation_in_visible_text_is_requested_again():
    leak = written(
        WRONG,
        observations=[seen("Twelve millilitres, which is two more than went in")],
        reasoning="SECRET: There are now two more than went in, and nothing was added.",
    )
    with pytest.raises(Unusable, match="both say"):  # "two more than went in" is five words
        perturb(
            Perturbation.SUBTLE,
            leak.replace("There are now", "That which is"),
            *[leak.replace("There are now", "which is")] * 2,
        )
    twin, _ = perturb(Perturbation.SUBTLE, leak)
    assert twin.why.startswith("There are now two more")


def test_explanation_may_quote_the_outcome():
    reasoning = "SECRET: 'A clear liquid without any visible cells' cannot be; secretion of the protein into the medium was not induced"
    answer = written(
        WRONG, observations=[seen("A clear liquid without any visible cells, secretory")], reasoning=reasoning
    )
    assert perturb(Perturbation.SUBTLE, answer)[0].why


def test_telltale_words_of_the_original_label_are_allowed():
    on = bench(draft("Perturbed cells of the deliberate overgrowth test"))
    [name] = [material.name for material in on.inventory]
    wrong = written(
        handed(name, "S1", properties={"volume": "12 mL", "container": "50 mL tube"}),
        reasoning="SECRET: 12 mL of perturbed cells of the deliberate overgrowth test",
    )
    speak = ScriptedProvider([wrong])
    assert LLMPerturber(speak, TEXTS, Perturbation.SUBTLE).perturb(mix(on, name), on.situation(), CORRECT).why


def test_telltale_words_of_the_original_observation_are_allowed():
    same = "A clear liquid fills the tube to the neck, intentionally"
    original = replace(CORRECT, new_observations=(Observation(same, "visual", "clear"),))
    answer = written(WRONG, observations=[seen(same)], reasoning=f"SECRET: {same}, and 2 mL came from nowhere")
    speak = ScriptedProvider([answer])
    assert LLMPerturber(speak, TEXTS, Perturbation.SUBTLE).perturb(ACTION, ON.situation(), original).why


@pytest.mark.parametrize("secret", ["-", "none", "N/A", "**None.**", "...", "null"])
def test_placeholder_word_is_not_an_explanation(secret):
    with pytest.raises(Unusable, match="nothing follows SECRET:"):
        perturb(Perturbation.SUBTLE, written(WRONG, observations=[seen()], reasoning=f"Mixed. SECRET: {secret}"))


def test_other_number_notation_is_not_a_planted_error():
    same = handed("Cells", "S1", properties={"Volume": "10.0 mL", "container": "50mL tube"})
    with pytest.raises(Unusable, match="does not differ"):
        perturb(Perturbation.SUBTLE, written(same, observations=[seen()], reasoning="SECRET: all wrong"))
