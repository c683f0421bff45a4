"""Text that is short enough to be read is read in no time: a reader holds up every other episode of its process."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from simulation.lab.materials import Material
from simulation.lab.roles import TranscriptStep
from simulation.llm import NoUsableAnswer
from simulation.llm.errors import MalformedCompletion
from simulation.llm.evidence_classifier import LLMEvidenceClassifier
from simulation.llm.prompts.prompt_sets import built_in
from simulation.llm.replies import parsing
from simulation.llm.replies.lineage import Inputs
from simulation.providers.base import Completion, Stop
from tests.support.effort import takes_under

WELLS = 96
INPUTS = Inputs.of(
    [
        Material(f"MAT-{at:08d}", f"well {at}", {}, "available_for_further_use", "static", "4C", 0, 0)
        for at in range(WELLS)
    ]
)
STEP = TranscriptStep(1, 0, 60, "Mix", {}, (), (), (), "")
MARKS = "a" + "\u0301\u0323" * 25_000  # marks out of their canonical order, which normalising has to sort


def outcome(**fields: Any) -> str:
    one = {
        "name": "pool",
        "properties": {},
        "available_for_use": "available_for_further_use",
        "material_type": "static",
    }
    entry = {**one, "environmental_condition": "4C", **fields}
    seen = {"description": "clear", "measurement_type": "visual", "value": ""}
    return json.dumps(
        {"new_materials": [entry], "new_observations": [seen], "reasoning": "", "success": True}, ensure_ascii=False
    )


def answered(read: Callable[[], object]) -> Callable[[], None]:
    """A refusal is an answer too."""

    def answer() -> None:
        with suppress(MalformedCompletion, NoUsableAnswer):
            read()

    return answer


@pytest.mark.parametrize("filler", [" ", "\n", "(", "*", "_"])
def test_the_search_for_a_secret_walks_a_text_once(filler: str) -> None:
    assert takes_under(
        0.5, answered(lambda: parsing.split_secret(f"x{filler * 20_000}x"))
    )  # a fraction of a millisecond; was 6 s


def test_what_belongs_to_the_secrets_label_is_left_out_on_both_sides() -> None:
    assert parsing.split_secret("It is so. \n\n** (SECRET: it glowed.)") == ("It is so.", "it glowed.")


@pytest.mark.parametrize(
    "fields",
    [
        {"derived_from": ["x"] * 60_000},
        {"derived_from": "x," * 100_000},
        {"replaces": MARKS},
        {"derived_from": [MARKS] * 2},
        {"name": MARKS},
        {"properties": {"volume": MARKS}},
    ],
    ids=["many parents", "parents in a text", "replaces", "parent", "name", "property"],
)
def test_references_to_inputs_are_bounded_in_number_and_length(fields: dict[str, Any]) -> None:
    assert takes_under(0.8, answered(lambda: parsing.read_outcome(outcome(**fields), INPUTS)))


def test_more_parents_than_there_can_be_materials_are_told_as_a_problem() -> None:
    with pytest.raises(MalformedCompletion, match=r"derived_from has 201 entries; allowed: 200"):
        parsing.read_outcome(outcome(derived_from=["S1"] * 201), INPUTS)


def test_a_summary_is_taken_as_it_is() -> None:
    said: list[object] = []

    def speak(prompt: object) -> Completion:
        said.append(prompt)
        return Completion(MARKS, Stop.STOP, None, "m")

    judge = LLMEvidenceClassifier(speak, built_in(), context_limit=9_000, max_tokens=100)
    assert takes_under(0.8, answered(lambda: judge._summary("goal", [STEP])))
    assert len(said) == 1
