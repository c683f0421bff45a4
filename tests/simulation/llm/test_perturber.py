"""The language-model twin maker: planted errors with an explanation, or another model's plain answer."""

from dataclasses import replace

import pytest

from simulation.lab.outcomes import Observation, Outcome, Perturbation, PerturbedOutcome
from simulation.llm import NoUsableAnswer, Refusal
from simulation.llm.conversation import UnusableTwin
from simulation.llm.prompt_data import build_question
from simulation.llm.prompt_sets import PromptTexts, load_built_in
from simulation.llm.transition_model import LLMPerturber, LLMTransitionModel, build_prompt
from simulation.providers import Prompt
from simulation.providers.base import Completion, Stop
from tests.support.model_replies import (
    build_bench,
    build_draft,
    build_mix,
    build_new_material,
    build_observation,
    write_reply,
)
from tests.support.scripted_models import ScriptedProvider

TEXTS = load_built_in()
ON = build_bench()
ACTION = build_mix(ON, "Cells")
CORRECT = LLMTransitionModel(
    ScriptedProvider([write_reply(build_new_material("Cells", "S1"), observations=[build_observation()])]), TEXTS
).predict_outcome(ACTION, ON.get_situation())
WRONG = build_new_material("Cells", "S1", properties={"volume": "12 mL", "container": "50 mL tube"})


def perturb(perturbation: Perturbation, *answers: str | Completion) -> tuple[PerturbedOutcome, list[Prompt]]:
    speak = ScriptedProvider(answers)
    return LLMPerturber(speak, TEXTS, perturbation).perturb_outcome(ACTION, ON.get_situation(), CORRECT), speak.prompts


def test_twin_records_its_explanation_and_the_one_field_it_changed():
    twin, _ = perturb(
        Perturbation.SUBTLE,
        write_reply(WRONG, observations=[build_observation()], reasoning="Mixed well. SECRET: 2 mL came from nowhere"),
    )
    assert (twin.kind, twin.rule, twin.explanation) == ("", "", "2 mL came from nowhere")
    assert twin.field == "new_materials[0].properties.volume"
    assert twin.outcome.reasoning == "Mixed well."
    assert "nowhere" not in str(twin.outcome.to_json())
    assert twin.outcome.new_materials[0].replaces == ACTION.materials[0]


def test_twin_with_several_changes_records_no_changed_field():
    answer = write_reply(WRONG, observations=[build_observation("A red liquid")], reasoning="SECRET: two things")
    assert perturb(Perturbation.SUBTLE, answer)[0].field == ""


@pytest.mark.parametrize(
    ("perturbation", "system", "user", "purpose"),
    [
        (Perturbation.SUBTLE, "incorrect.system.txt", "incorrect.user.txt", "perturb"),
        (Perturbation.OBVIOUS, "obvious.system.txt", "obvious.user.txt", "perturb"),
        (Perturbation.NONE, "transition.system.txt", "transition.user.txt", "answer"),
    ],
)
def test_each_perturbation_has_its_own_prompt_texts_and_the_same_question(perturbation, system, user, purpose):
    _, (prompt,) = perturb(perturbation, write_reply(WRONG, reasoning="SECRET: x"))
    assert prompt.system == TEXTS.fill_in(system)
    assert prompt.messages[0].text == TEXTS.fill_in(user, **build_question(ACTION, ON.get_situation()).values)
    assert (prompt.purpose, prompt.prompt_set, prompt.wants_json) == (purpose, TEXTS.sha256, True)


def test_set_without_a_system_prompt_for_subtle_twins_uses_that_of_the_transition_model():
    # The paper's texts are arranged in this way.
    files = {file: text for file, text in TEXTS.files.items() if file != "incorrect.system.txt"}
    question = build_question(ACTION, ON.get_situation())
    prompt = build_prompt(PromptTexts("paper", files), Perturbation.SUBTLE, question)
    assert prompt.system == TEXTS.fill_in("transition.system.txt")


def test_twin_identical_to_its_original_is_unusable():
    with pytest.raises(UnusableTwin, match="does not differ"):
        perturb(
            Perturbation.SUBTLE,
            write_reply(
                build_new_material("Cells", "S1"), observations=[build_observation()], reasoning="SECRET: all wrong"
            ),
        )


def test_twin_without_an_explanation_is_unusable():
    with pytest.raises(UnusableTwin, match="nothing follows SECRET:"):
        perturb(
            Perturbation.OBVIOUS,
            write_reply(WRONG, observations=[build_observation()], reasoning="Mixed well. SECRET: "),
        )


def test_plain_answer_of_another_model_needs_neither_difference_nor_explanation():
    twin, _ = perturb(
        Perturbation.NONE, write_reply(build_new_material("Cells", "S1"), observations=[build_observation()])
    )
    assert (twin.kind, twin.explanation, twin.field) == ("", "", "")
    assert twin.outcome.new_observations == CORRECT.new_observations


def test_twin_with_its_secret_in_visible_text_is_requested_again():
    shown = write_reply(
        WRONG, observations=[build_observation("Clear. SECRET: 12 mL is wrong")], reasoning="SECRET: volume"
    )
    twin, prompts = perturb(
        Perturbation.SUBTLE, shown, write_reply(WRONG, observations=[build_observation()], reasoning="SECRET: volume")
    )
    assert twin.explanation == "volume" and len(prompts) == 2
    assert "planted error occurs in new_observations[0]" in prompts[1].messages[2].text


def test_unreadable_twin_raises_no_usable_answer_after_two_repairs():
    with pytest.raises(NoUsableAnswer) as caught:
        perturb(Perturbation.SUBTLE, "no", "no", "no", "no")
    assert caught.value.reason == "no_twin"


def test_refusal_to_plant_an_error_raises_refusal():
    with pytest.raises(Refusal):
        perturb(Perturbation.OBVIOUS, Completion("", Stop.REFUSAL, None, "m", refusal="bio"))


def test_twin_that_fails_although_its_original_succeeded_is_requested_again():
    refused = write_reply(success=False, failure_reason="too cold", reasoning="SECRET: it was warm")
    twin, prompts = perturb(
        Perturbation.SUBTLE, refused, write_reply(WRONG, observations=[build_observation()], reasoning="SECRET: 2 mL")
    )
    assert twin.outcome.success and len(prompts) == 2
    assert "- success must be true: the action is carried out" in prompts[1].messages[2].text
    with pytest.raises(UnusableTwin, match="from the original: success must be true"):
        perturb(Perturbation.OBVIOUS, refused, refused, refused)


def test_twin_of_a_rejected_step_is_a_rejection_for_another_reason():
    speak = ScriptedProvider([
        write_reply(build_new_material("Cells", "S1"), reasoning="SECRET: it was frozen"),
        write_reply(success=False, failure_reason="too warm", reasoning="SECRET: it was frozen"),
    ])  # fmt: skip
    twin = LLMPerturber(speak, TEXTS, Perturbation.OBVIOUS).perturb_outcome(
        ACTION, ON.get_situation(), Outcome.make_rejected("too cold")
    )
    assert (twin.outcome.failure_reason, twin.field) == ("too warm", "failure_reason")
    assert "success must be false" in speak.prompts[1].messages[2].text
    assert CORRECT.new_observations == (Observation("A clear liquid", "visual", "clear"),)


def test_plain_answer_that_rejects_an_accepted_step_is_unusable():
    with pytest.raises(UnusableTwin, match="rejects what was accepted: too cold"):
        perturb(Perturbation.NONE, write_reply(success=False, failure_reason="too cold"))


@pytest.mark.parametrize(
    ("materials", "observation", "word"),
    [
        (build_new_material("Deliberately wrong cells", "S1"), build_observation(), "deliberately"),
        (
            build_new_material("Cells", "S1", properties={"volume": "12 mL", "error_type": "2"}),
            build_observation(),
            "error type",
        ),
        (WRONG, build_observation("An IMPLAUSIBLE colour"), "implausible"),
        (WRONG, build_observation(value="ｐｅｒｔｕｒｂｅｄ"), "perturbed"),
        (WRONG, build_observation(measurement_type="intentional_error"), "intentional"),
        (WRONG, build_observation("a se\u200bcret"), "secret"),
    ],
)
def test_twin_with_telltale_words_is_requested_again(materials, observation, word):
    shown = write_reply(materials, observations=[observation], reasoning="SECRET: volume")
    twin, prompts = perturb(
        Perturbation.SUBTLE, shown, write_reply(WRONG, observations=[build_observation()], reasoning="SECRET: volume")
    )
    assert twin.outcome.new_materials[0].name == "Cells"
    assert f"reveals the mistake by the word '{word}'" in prompts[1].messages[2].text
    with pytest.raises(UnusableTwin, match="form of the twin distinguishes it from the original"):
        perturb(Perturbation.OBVIOUS, shown, shown, shown)


def test_twin_that_repeats_its_explanation_in_visible_text_is_requested_again():
    leak = write_reply(
        WRONG,
        observations=[build_observation("Twelve millilitres, which is two more than went in")],
        reasoning="SECRET: There are now two more than went in, and nothing was added.",
    )
    with pytest.raises(UnusableTwin, match="both contain"):  # "two more than went in" is five words
        perturb(
            Perturbation.SUBTLE,
            leak.replace("There are now", "That which is"),
            *[leak.replace("There are now", "which is")] * 2,
        )
    twin, _ = perturb(Perturbation.SUBTLE, leak)
    assert twin.explanation.startswith("There are now two more")


def test_explanation_may_quote_the_outcome():
    reasoning = "SECRET: 'A clear liquid without any visible cells' cannot be; secretion of the protein into the medium was not induced"
    answer = write_reply(
        WRONG,
        observations=[build_observation("A clear liquid without any visible cells, secretory")],
        reasoning=reasoning,
    )
    assert perturb(Perturbation.SUBTLE, answer)[0].explanation


def test_telltale_words_of_the_original_label_are_allowed():
    on = build_bench(build_draft("Perturbed cells of the deliberate overgrowth test"))
    [name] = [material.name for material in on.inventory]
    wrong = write_reply(
        build_new_material(name, "S1", properties={"volume": "12 mL", "container": "50 mL tube"}),
        reasoning="SECRET: 12 mL of perturbed cells of the deliberate overgrowth test",
    )
    speak = ScriptedProvider([wrong])
    assert (
        LLMPerturber(speak, TEXTS, Perturbation.SUBTLE)
        .perturb_outcome(build_mix(on, name), on.get_situation(), CORRECT)
        .explanation
    )


def test_telltale_words_of_the_original_observation_are_allowed():
    same = "A clear liquid fills the tube to the neck, intentionally"
    original = replace(CORRECT, new_observations=(Observation(same, "visual", "clear"),))
    answer = write_reply(
        WRONG, observations=[build_observation(same)], reasoning=f"SECRET: {same}, and 2 mL came from nowhere"
    )
    speak = ScriptedProvider([answer])
    assert (
        LLMPerturber(speak, TEXTS, Perturbation.SUBTLE)
        .perturb_outcome(ACTION, ON.get_situation(), original)
        .explanation
    )


@pytest.mark.parametrize("secret", ["-", "none", "N/A", "**None.**", "...", "null"])
def test_placeholder_word_is_not_an_explanation(secret):
    with pytest.raises(UnusableTwin, match="nothing follows SECRET:"):
        perturb(
            Perturbation.SUBTLE,
            write_reply(WRONG, observations=[build_observation()], reasoning=f"Mixed. SECRET: {secret}"),
        )


def test_twin_that_differs_only_in_number_notation_is_unusable():
    same = build_new_material("Cells", "S1", properties={"Volume": "10.0 mL", "container": "50mL tube"})
    with pytest.raises(UnusableTwin, match="does not differ"):
        perturb(
            Perturbation.SUBTLE, write_reply(same, observations=[build_observation()], reasoning="SECRET: all wrong")
        )
