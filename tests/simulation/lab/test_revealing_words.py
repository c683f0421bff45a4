"""The twin maker and the quarantine of a study use the same word list and the same text folding."""

import pytest

from ratings.studies import quarantine
from simulation.lab.actions import Action
from simulation.lab.outcomes import Observation, Outcome
from simulation.lab.planted_errors import revealing_words
from simulation.llm import reply_fields

WORDS = [
    "SECRET: so it is", "se\u200bcret", "a perturbation", "is_perturbed", "ｐｅｒｔｕｒｂｅｄ", "deliberate", "unintentional",
    "intentionally", "implausibly", "error_type", "error-types", "errortype", "incorrect transition", "incorrect-transitions",
]  # fmt: skip
PLAIN = ["secretion", "secretory", "undeliberated", "plausible", "a typed error", "incorrectly transitioned"]


def is_found_by_twin_maker(text: str, secret: str = "") -> bool:
    seen = Outcome(True, (), (Observation(text, "visual"),))
    return bool(reply_fields.find_twin_problems(Action("Mix", (), {}), [], Outcome(True, (), ()), seen, secret))


def is_found_by_quarantine(text: str, secret: str = "") -> bool:
    payload = {"observations": [{"type": "visual", "description": text, "value": ""}]}
    return bool(quarantine.find_reasons(payload, {}, quarantine.Secret(secret)))


@pytest.mark.parametrize("text", [*WORDS, *PLAIN])
def test_twin_creation_and_quarantine_recognise_the_same_telltale_words(text: str) -> None:
    assert is_found_by_twin_maker(text) == is_found_by_quarantine(text) == (text in WORDS)


@pytest.mark.parametrize(
    ("text", "secret", "found"),
    [
        ("the volume that was poured into it", "The_volume that  was poured INTO a jar", True),
        ("the volume that was poured in it", "the volume that was poured into a jar", False),  # five words
        ("the volume that was poured into it", "“the volume that was poured into it” is wrong", False),
        ("1.2, 1.3, 1.4 mL", "read 1.2, 1.3, 1.4 mL", False),  # 1 2 1 3 1 4: a list of readings
    ],
)
def test_twin_creation_and_quarantine_recognise_the_same_telltale_word_sequences(
    text: str, secret: str, found: bool
) -> None:
    assert is_found_by_twin_maker(text, secret) == is_found_by_quarantine(text, secret) == found


def test_text_normalisation_applied_twice_equals_once() -> None:
    for text in (*WORDS, *PLAIN):
        assert revealing_words.fold_text(revealing_words.fold_text(text)) == revealing_words.fold_text(text)
