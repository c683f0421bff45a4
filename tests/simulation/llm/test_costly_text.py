"""Parsing time of long replies: slow parsing would block the other episodes of the process."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from simulation.lab.materials import Material
from simulation.lab.roles import TranscriptStep
from simulation.llm import NoUsableAnswer, outcome_parsing
from simulation.llm.conversation import MalformedCompletion
from simulation.llm.evidence_classifier import LLMEvidenceClassifier
from simulation.llm.lineage import Inputs
from simulation.llm.prompt_sets import load_built_in
from simulation.providers.base import Completion, Stop
from tests.support.effort import takes_under

WELLS = 96
INPUTS = Inputs.from_materials(
    [
        Material(f"MAT-{at:08d}", f"well {at}", {}, "available_for_further_use", "static", "4C", 0, 0)
        for at in range(WELLS)
    ]
)
STEP = TranscriptStep(1, 0, 60, "Mix", {}, (), (), (), "")
MARKS = "a" + "\u0301\u0323" * 25_000  # combining marks out of canonical order, which normalising has to sort


def build_outcome_text(**fields: Any) -> str:
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


def ignore_refusals(read: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls `read` and ignores refusals."""

    def answer() -> None:
        with suppress(MalformedCompletion, NoUsableAnswer):
            read()

    return answer


@pytest.mark.parametrize("filler", [" ", "\n", "(", "*", "_"])
def test_secret_search_takes_linear_time(filler: str) -> None:
    assert takes_under(
        0.5, ignore_refusals(lambda: outcome_parsing.split_secret(f"x{filler * 20_000}x"))
    )  # a fraction of a millisecond; was 6 s


def test_punctuation_around_the_secret_label_is_removed() -> None:
    assert outcome_parsing.split_secret("It is so. \n\n** (SECRET: it glowed.)") == ("It is so.", "it glowed.")


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
def test_long_names_and_references_to_inputs_are_parsed_quickly(fields: dict[str, Any]) -> None:
    assert takes_under(
        0.8, ignore_refusals(lambda: outcome_parsing.parse_outcome(build_outcome_text(**fields), INPUTS))
    )


def test_material_derived_from_more_than_200_materials_is_reported_as_a_problem() -> None:
    with pytest.raises(MalformedCompletion, match=r"derived_from has 201 entries; allowed: 200"):
        outcome_parsing.parse_outcome(build_outcome_text(derived_from=["S1"] * 201), INPUTS)


def test_long_summary_is_accepted_quickly() -> None:
    said: list[object] = []

    def speak(prompt: object) -> Completion:
        said.append(prompt)
        return Completion(MARKS, Stop.STOP, None, "m")

    judge = LLMEvidenceClassifier(speak, load_built_in(), context_limit=9_000, max_tokens=100)
    assert takes_under(0.8, ignore_refusals(lambda: judge._summarise_record("goal", [STEP])))
    assert len(said) == 1
