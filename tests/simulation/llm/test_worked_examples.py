"""Worked examples in the prompts: each is read by the parser of its role, and nothing of it gets into a record."""

import json
import re
from pathlib import Path

import pytest

from simulation.lab import action_format
from simulation.lab.actions import Action
from simulation.lab.bench import Bench
from simulation.lab.materials import UNLIMITED, NewMaterial, build_inventory
from simulation.lab.outcomes import Perturbation
from simulation.llm import evidence_classifier, model_rater, reply_fields
from simulation.llm.outcome_parsing import ParsedOutcome, parse_outcome
from simulation.llm.prompt_data import TransitionQuestion, build_question
from simulation.llm.prompt_sets import load_built_in, load_built_in_rating
from simulation.llm.transition_model import LLMTransitionModel, find_example
from tests.support.model_replies import (
    CATALOGUE,
    GOAL,
    build_bench,
    build_mix,
    build_new_material,
    build_observation,
    write_reply,
)
from tests.support.scripted_models import ScriptedProvider

TEXTS, RATING_TEXTS = load_built_in(), load_built_in_rating()
FIXTURES = Path(__file__).parents[3] / "fixtures"
EXTRACT = NewMaterial(
    "Red cabbage extract",
    {"volume": "20 mL", "container": "50 mL tube", "colour": "purple", "temperature": "22C"},
    environmental_condition="4C",
)
TUBES = NewMaterial("Empty 15 mL tubes", {}, available_for_use=UNLIMITED)


def build_example_question(perturbation: Perturbation) -> TransitionQuestion:
    """Return the question that the worked example answers."""
    bench = Bench(GOAL, CATALOGUE, build_inventory((EXTRACT, TUBES), seed=1), seed=1, max_steps=5)
    extract, tubes = (material.barcode for material in bench.inventory)
    if perturbation is Perturbation.OBVIOUS:
        return build_question(Action("Wait", (extract,), {"duration": "10 min"}), bench.get_situation())
    action = Action("Aliquot", (extract, tubes), {"volume": "5 mL", "count": "2"})
    return build_question(action, bench.get_situation())


def parse_example(perturbation: Perturbation) -> ParsedOutcome:
    example = find_example(TEXTS, perturbation)
    return parse_outcome(example[example.index("{") :], build_example_question(perturbation).inputs)


@pytest.mark.parametrize("perturbation", [Perturbation.NONE, Perturbation.SUBTLE, Perturbation.OBVIOUS])
def test_example_of_an_outcome_is_parsed_without_problems_or_notes(perturbation: Perturbation) -> None:
    question, parsed = build_example_question(perturbation), parse_example(perturbation)
    assert parsed.notes == () and parsed.outcome.success
    problems = reply_fields.find_problems(question.action, question.inputs.materials, parsed.outcome)
    assert problems.form == () and problems.leaks == ()
    assert bool(parsed.secret) is (perturbation is not Perturbation.NONE)


def test_example_of_a_correct_outcome_balances_and_that_of_a_subtle_twin_does_not() -> None:
    def sum_volumes(perturbation: Perturbation) -> int:
        drafts = parse_example(perturbation).outcome.new_materials
        return sum(int(draft.properties["volume"].removesuffix(" mL")) for draft in drafts)

    # 10 + 5 + 5 of the 20 mL; the twin has 12 + 5 + 5.
    assert (sum_volumes(Perturbation.NONE), sum_volumes(Perturbation.SUBTLE)) == (20, 22)


@pytest.mark.parametrize("perturbation", [Perturbation.SUBTLE, Perturbation.OBVIOUS])
def test_example_of_a_twin_has_no_tell_that_would_make_it_recognisable(perturbation: Perturbation) -> None:
    question, parsed = build_example_question(perturbation), parse_example(perturbation)
    correct = parse_example(Perturbation.NONE).outcome
    inputs = question.inputs.materials
    assert reply_fields.find_twin_problems(question.action, inputs, correct, parsed.outcome, parsed.secret) == ()


def test_example_of_the_agent_is_an_action_of_the_catalogue() -> None:
    example = TEXTS.find_example("agent.system.txt")
    action = action_format.parse_action_text(example[: example.index("ACTION CATALOGUE")])
    assert action.name == "Aliquot" and len(action.materials) == 2
    actions = CATALOGUE
    assert actions.types["Aliquot"].parse_parameters(action)["count"] == 3


def test_example_of_the_classifier_is_a_verdict() -> None:
    example = TEXTS.find_example("classification.txt")
    reply = example[example.index("<reasoning>") : example.index("</evidence_strength>") + len("</evidence_strength>")]
    verdict = evidence_classifier.parse_verdict(reply)
    assert not verdict.sufficient and verdict.confidence == 0.85 and verdict.evidence_strength == "weak"


@pytest.mark.parametrize("kind", [model_rater.PLAUSIBILITY, model_rater.SUFFICIENCY])
def test_example_of_a_model_rater_is_a_judgement(kind: model_rater.RatingKind) -> None:
    judgement = model_rater.parse_judgement(RATING_TEXTS.find_example(kind.file), kind, {"A:volume", "missing"})
    assert judgement.verdict is False and len(judgement.marks) == 1


def test_examples_are_not_about_any_material_of_the_experiments_or_the_catalogue() -> None:
    data = " ".join(path.read_text().lower() for path in FIXTURES.rglob("*.json") if "models" not in path.name)
    examples = [TEXTS.find_example(file) for file in TEXTS.files] + [
        RATING_TEXTS.find_example(file) for file in RATING_TEXTS.files
    ]
    shown = [example for example in examples if example]
    assert len(shown) == 7  # agent, three kinds of outcome, classifier, two kinds of rating
    assert all("red cabbage extract" in example.lower() for example in shown) and "cabbage" not in data


# Copies

BENCH = build_bench()
MIX = build_mix(BENCH, "Cells")


@pytest.mark.parametrize(
    "copied",
    [
        write_reply(build_new_material("Red cabbage extract", "S1"), observations=[build_observation()]),
        write_reply(
            build_new_material("Cells", "S1"),
            observations=[build_observation("Both 15 mL tubes hold a clear purple liquid up to the mark")],
        ),
    ],
)
def test_outcome_that_copies_the_example_is_requested_again(copied: str) -> None:
    good = write_reply(build_new_material("Cells", "S1"), observations=[build_observation()])
    speak = ScriptedProvider([copied, good])
    outcome = LLMTransitionModel(speak, TEXTS).predict_outcome(MIX, BENCH.get_situation())
    assert "cabbage" not in json.dumps(outcome.to_json()) and len(speak.prompts) == 2
    assert "from the worked example" in speak.prompts[1].messages[-1].text


def test_material_that_is_named_like_the_example_is_no_copy_of_it() -> None:
    bench = build_bench(EXTRACT)
    same = write_reply(build_new_material("Red cabbage extract", "S1"), observations=[build_observation()])
    speak = ScriptedProvider([same])
    action = build_mix(bench, "Red cabbage extract")
    outcome = LLMTransitionModel(speak, TEXTS).predict_outcome(action, bench.get_situation())
    assert outcome.new_materials[0].name == "Red cabbage extract"


def test_agent_that_copies_the_example_is_refused_because_its_barcodes_are_not_on_the_bench() -> None:
    example = TEXTS.find_example("agent.system.txt")
    codes = set(re.findall(r"MAT-[A-Z0-9]{8}", example))
    assert len(codes) == 2 and not codes & {material.barcode for material in BENCH.inventory}
    action = action_format.parse_action_text(example[: example.index("ACTION CATALOGUE")])
    assert CATALOGUE.find_rejection(action, BENCH.inventory)


def test_rating_that_copies_the_marks_of_the_example_is_refused() -> None:
    with pytest.raises(model_rater.conversation.MalformedCompletion, match="not a key of this item"):
        model_rater.parse_judgement(
            RATING_TEXTS.find_example("rating.plausibility.txt"), model_rater.PLAUSIBILITY, {"B:colour", "missing"}
        )
