"""Answers of the scripted models: in the requested format, and deterministic for the same model and prompt."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulation.scripted_server import reading
from simulation.scripted_server.questions import Question, draw
from simulation.scripted_server.reading import Role, Seen

SUBMIT = "SubmitMaterialsObservationsForReview"
_FEWEST, _MOST = 5, 12  # steps of an episode, without the submission
_AT_ONCE = 3  # materials of one action
_FIELDS = ("name", "properties", "available_for_use", "material_type", "environmental_condition")
_VERDICTS = re.compile(r'"verdict": "(\w+) \| (not \w+) \|')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Mind(NamedTuple):
    """What answers depend on besides the prompt. `steps`: number of steps of an episode; without it they differ."""

    seed: int = 0
    steps: int | None = None


class Choice(NamedTuple):
    """An action that nearly any material can undergo."""

    name: str
    parameters: str


# Every second action only observes and is hardly ever rejected, so that three consecutive rejections do not occur.
_LOOKS = (
    Choice("VisualInspection", "question=What colour is the sample and has anything settled in it?"),
    Choice("ImageSample", "view=side, images=2"),
    Choice("VisualInspection", "question=Is the sample clear or cloudy?, lighting=white light box"),
    Choice("ImageSample", "view=above, background=black"),
)
_DEEDS = (
    Choice("MeasureWeight", "replicates=3"),
    Choice("Storage", "condition=4C, duration=10 min"),
    Choice("Wait", "duration=5 min"),
    Choice("MeasureVolume", "replicates=2"),
    Choice("Mix", "method=invert, cycles=5"),
)


def answer(question: Question, role: Role, mind: Mind) -> str:
    """Return the text of an answer to this prompt."""
    return _BRAINS[role](question, mind)


def _agent(question: Question, mind: Mind) -> str:
    prompt_text = question.asked
    thought = "The record is not complete yet, so the next look at the samples is due."
    # A thought only where the prompt asks for one: the scaffolds have different formats.
    lead = f"THOUGHT: {thought}\n" if "THOUGHT" in question.system + prompt_text else ""
    return lead + _chosen(prompt_text, mind)


def _chosen(asked: str, mind: Mind) -> str:
    """Return an action for the next step, or the submission after enough steps."""
    done, left, codes = reading.steps_done(asked), reading.steps_left(asked), reading.limited_barcodes(asked)
    seed = mind.seed
    # The last step is used for the submission, because a record that is never submitted is not judged.
    if _enough(done, asked, mind) or not codes or (left is not None and left <= 1):
        return f"ACTION: {SUBMIT}\nMATERIALS:\nPARAMETERS:"
    choices = _DEEDS if done % 2 else _LOOKS
    choice = choices[draw(len(choices), seed, "choice", asked)]
    first, number = draw(len(codes), seed, "first", asked), 1 + draw(_AT_ONCE, seed, "number", asked)
    # A rotation of the list, so that all materials are used over an episode.
    materials = (codes[first:] + codes[:first])[:number]
    return f"ACTION: {choice.name}\nMATERIALS: {', '.join(materials)}\nPARAMETERS: {choice.parameters}"


def _enough(done: int, asked: str, mind: Mind) -> bool:
    if mind.steps is not None:
        return done >= mind.steps
    # Episodes have different lengths unless the number of steps is given.
    return done >= _MOST or (done >= _FEWEST and not draw(_MOST - _FEWEST, mind.seed, "enough", asked))


def _plan(_question: Question, _mind: Mind) -> str:
    return (
        "PLAN:\n"
        "1. Look at the samples with VisualInspection and ImageSample.\n"
        "2. Weigh them with MeasureWeight, and keep them with Storage.\n"
        f"3. Hand in the record with {SUBMIT}."
    )


def _summary(question: Question, mind: Mind) -> str:
    done = reading.steps_done(question.asked)
    record_number = draw(10**6, mind.seed, "summary", question.asked)
    return f"The samples were looked at, weighed and stored over {done} steps without a surprise (record {record_number:06d})."


_WORDINGS = (
    "After {action} on {many} the first looked like this: {appearance}",
    "{action} was done on {many}; the first one now looks like this: {appearance}",
    "Seen after {action} on {many}, the first of them: {appearance}",
    "{action} on {many} is done, and the first shows this: {appearance}",
)


def outcome(question: Question, mind: Mind) -> dict[str, Any]:
    """Return every input unchanged, and one observation whose wording the model and the prompt decide."""
    prompt_text = question.turns[0].text
    name, shown_materials = reading.action_name(prompt_text), reading.materials(prompt_text)
    return {
        # Returning everything unchanged is possible on any bench, so the reply is never rejected.
        "new_materials": [_handed_back(material) for material in shown_materials if material.limited],
        "new_observations": [
            # The wording depends on the model, so that outcomes of two models are not identical.
            _observed(name, shown_materials, draw(len(_WORDINGS), mind.seed, question.model, prompt_text))
        ],
        "reasoning": f"{name} leaves the materials as they were.",
        "success": True,
        "failure_reason": "",
    }


def _handed_back(material: Seen) -> dict[str, Any]:
    fields = {name: material.fields[name] for name in _FIELDS if name in material.fields}
    return {**fields, "replaces": material.alias, "derived_from": [material.alias]}


def _observed(action: str, seen: list[Seen], wording: int) -> dict[str, str]:
    properties: Mapping[str, Any] = seen[0].fields["properties"] if seen else {}
    appearance = str(properties.get("appearance", "no change to be seen"))
    materials_text = "one material" if len(seen) == 1 else f"{len(seen)} materials"
    described = _WORDINGS[wording].format(action=action, many=materials_text, appearance=appearance)
    return {
        "description": described,
        "measurement_type": "visual",
        "value": appearance,
        "timestamp": "during the action",
    }


def spoilt(question: Question, mind: Mind) -> dict[str, Any]:
    """Return the same outcome with one error, described after SECRET."""
    outcome_with_error = outcome(question, mind)
    # A number if there is one; otherwise the observation is spoilt.
    secret = _spoil_number(outcome_with_error, draw(10**6, mind.seed, "spoilt", question.asked)) or _spoil_sight(
        outcome_with_error
    )
    outcome_with_error["reasoning"] += f" SECRET: {secret}"
    return outcome_with_error


def _spoil_number(wrong: dict[str, Any], drawn: int) -> str:
    """Multiply one number of one property by ten and return the explanation; "" if there is none."""
    places = [
        (index, name)
        for index, material in enumerate(wrong["new_materials"])
        for name, value in material["properties"].items()
        if isinstance(value, str) and _NUMBER.match(value)
    ]
    if not places:
        return ""
    index, name = places[drawn % len(places)]
    material = wrong["new_materials"][index]
    before = material["properties"][name]
    after = _NUMBER.sub(lambda number: f"{float(number[0]) * 10:g}", before, count=1)
    material["properties"] = {**material["properties"], name: after}
    return f"the {name} of {material['name']} was {before} and nothing was done that could make it {after}"


def _spoil_sight(wrong: dict[str, Any]) -> str:
    wrong["new_observations"][0]["description"] += "; it glowed brightly by itself"
    return "nothing in these materials gives off light by itself"


def _classifier(question: Question, mind: Mind) -> str:
    drawn = draw(1000, mind.seed, "verdict", question.model, question.asked)
    # A third is valid, so that both verdicts occur in every larger run.
    is_valid = drawn % 3 == 0
    return (
        f"<verdict>{'VALID' if is_valid else 'INVALID'}</verdict>\n"
        f"<reasoning>The record {'holds' if is_valid else 'lacks'} the measurement that the interpretation needs.</reasoning>\n"
        f"<confidence>0.{50 + drawn % 50}</confidence>\n"
        f"<goal_relevance>{'directly' if is_valid else 'partially'} supports goal</goal_relevance>\n"
        f"<evidence_strength>{('strong', 'moderate', 'weak')[drawn % 3]}</evidence_strength>"
    )


def rating(question: Question, mind: Mind) -> dict[str, Any]:
    """Return a verdict in the allowed words, with one marked row if it is the second word."""
    prompt_text = question.turns[0].text
    yes, no = _VERDICTS.search(question.system).groups()  # type: ignore[union-attr]  # the instructions name them
    drawn = draw(1000, mind.seed, "rating", prompt_text)
    keys = re.findall(r'"key": "([^"]+)"', prompt_text)
    return {
        "reason": f"Drawn: {drawn}.",
        "verdict": no if drawn % 3 == 0 else yes,
        "confidence": 1 + drawn % 5,
        "marks": [keys[drawn % len(keys)]] if drawn % 3 == 0 else [],
    }


def _written(made: Callable[[Question, Mind], dict[str, Any]]) -> Callable[[Question, Mind], str]:
    return lambda question, mind: json.dumps(made(question, mind), ensure_ascii=False)


_BRAINS: Mapping[Role, Callable[[Question, Mind], str]] = {
    Role.AGENT: _agent,
    Role.PLAN: _plan,
    Role.SUMMARY: _summary,
    Role.TRANSITION: _written(outcome),
    Role.PERTURBED: _written(spoilt),
    Role.CLASSIFIER: _classifier,
    Role.RATER: _written(rating),
}
