"""Answers of the scripted models, in the requested format. The same model and prompt give the same answer."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulation.scripted_server import prompt_reading
from simulation.scripted_server.prompt_reading import Role, ShownMaterial
from simulation.scripted_server.questions import Answer, Question, Tokens, count_tokens, draw_number, encode_text

SUBMIT = "SubmitMaterialsObservationsForReview"
_MIN_STEPS, _MAX_STEPS = 5, 12  # steps of an episode, without the submission
_MAX_MATERIALS = 3  # materials of one action
_FIELDS = ("name", "properties", "available_for_use", "material_type", "environmental_condition")
_VERDICTS = re.compile(r'"verdict": "(\w+) \| (not \w+) \|')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class AnswerOptions(NamedTuple):
    """What answers depend on besides the prompt. Every episode has `steps` steps; if None, their number varies."""

    seed: int = 0
    steps: int | None = None


# Actions that nearly any material can undergo, with their parameters.
# Every second action only observes and is hardly ever rejected, so that three consecutive rejections do not occur.
_OBSERVING_ACTIONS = (
    ("VisualInspection", "question=What colour is the sample and has anything settled in it?"),
    ("ImageSample", "view=side, images=2"),
    ("VisualInspection", "question=Is the sample clear or cloudy?, lighting=white light box"),
    ("ImageSample", "view=above, background=black"),
)
_CHANGING_ACTIONS = (
    ("MeasureWeight", "replicates=3"),
    ("Storage", "condition=4C, duration=10 min"),
    ("Wait", "duration=5 min"),
    ("MeasureVolume", "replicates=2"),
    ("Mix", "method=invert, cycles=5"),
)


def write_answer(question: Question, role: Role, mind: AnswerOptions) -> str:
    """Return the text with which a model in this role answers the prompt."""
    return _ANSWER_FUNCTIONS[role](question, mind)


def make_answer(question: Question, text: str, prompt: Tokens, whole: bool = False) -> Answer:
    """Return an answer with this text. Unless `whole`, cut it so that thinking and text fit into `max_tokens`."""
    hidden = min(question.hidden, question.max_tokens)
    room = (question.max_tokens - hidden) * 4  # four bytes per token
    data = encode_text(text)
    is_truncated = len(data) > room and not whole
    if is_truncated:
        # A character that is cut in the middle is dropped, as a tokeniser would not produce half of it.
        text = data[:room].decode("utf-8", "ignore")
    thinking = make_thinking(hidden) if question.shows_thinking else ""
    tokens = prompt._replace(output=hidden + count_tokens(text), reasoning=hidden)
    return Answer(text, "max_tokens" if is_truncated else "stop", tokens, question.model, thinking)


def make_thinking(tokens: int) -> str:
    """Return a chain of thought with this many tokens."""
    words = "Weighing what is on the bench against the goal. "
    text = (words * (tokens * 4 // len(words) + 1))[: tokens * 4]  # four bytes per token
    assert count_tokens(text) == tokens
    return text


def _answer_as_agent(question: Question, mind: AnswerOptions) -> str:
    """Return an action for the next step, or the submission after enough steps."""
    prompt, seed = question.user_text, mind.seed
    # A thought is added only if the prompt asks for one, because the scaffolds have different formats.
    asks_for_thought = "THOUGHT" in question.system + prompt
    thought = (
        "THOUGHT: The record is not complete yet, so the next look at the samples is due.\n" if asks_for_thought else ""
    )
    done, left = prompt_reading.count_steps_done(prompt), prompt_reading.find_steps_left(prompt)
    codes = prompt_reading.list_limited_barcodes(prompt)
    # The last step is used for the submission, because a record that is never submitted is not judged.
    if _is_enough(done, prompt, mind) or not codes or (left is not None and left <= 1):
        return f"{thought}ACTION: {SUBMIT}\nMATERIALS:\nPARAMETERS:"
    choices = _CHANGING_ACTIONS if done % 2 else _OBSERVING_ACTIONS
    name, parameters = choices[draw_number(len(choices), seed, "choice", prompt)]
    first = draw_number(len(codes), seed, "first", prompt)
    number = 1 + draw_number(_MAX_MATERIALS, seed, "number", prompt)
    # The list is rotated, so that all materials are used over an episode.
    materials = ", ".join((codes[first:] + codes[:first])[:number])
    return f"{thought}ACTION: {name}\nMATERIALS: {materials}\nPARAMETERS: {parameters}"


def _is_enough(done: int, prompt: str, mind: AnswerOptions) -> bool:
    if mind.steps is not None:
        return done >= mind.steps
    # Episodes have different lengths unless the number of steps is given.
    may_end = done >= _MIN_STEPS and not draw_number(_MAX_STEPS - _MIN_STEPS, mind.seed, "enough", prompt)
    return done >= _MAX_STEPS or may_end


def _write_plan(_question: Question, _mind: AnswerOptions) -> str:
    return (
        "PLAN:\n"
        "1. Look at the samples with VisualInspection and ImageSample.\n"
        "2. Weigh them with MeasureWeight, and keep them with Storage.\n"
        f"3. Hand in the record with {SUBMIT}."
    )


def _write_summary(question: Question, mind: AnswerOptions) -> str:
    done = prompt_reading.count_steps_done(question.user_text)
    record_number = draw_number(10**6, mind.seed, "summary", question.user_text)
    return f"The samples were looked at, weighed and stored over {done} steps without a surprise (record {record_number:06d})."


_WORDINGS = (
    "After {action} on {many} the first looked like this: {appearance}",
    "{action} was done on {many}; the first one now looks like this: {appearance}",
    "Seen after {action} on {many}, the first of them: {appearance}",
    "{action} on {many} is done, and the first shows this: {appearance}",
)


def build_outcome(question: Question, mind: AnswerOptions) -> dict[str, Any]:
    """Return an outcome: every limited input unchanged, and one observation worded differently by model and prompt."""
    prompt = question.turns[0].text
    name, materials = prompt_reading.find_action_name(prompt), prompt_reading.list_materials(prompt)
    properties: Mapping[str, Any] = materials[0].fields["properties"] if materials else {}
    appearance = str(properties.get("appearance", "no change to be seen"))
    # The wording depends on the model, so that outcomes of two models are not identical.
    wording = _WORDINGS[draw_number(len(_WORDINGS), mind.seed, question.model, prompt)]
    many = "one material" if len(materials) == 1 else f"{len(materials)} materials"
    return {
        # Returning everything unchanged is possible on any bench, so the reply is never rejected.
        "new_materials": [_return_unchanged(material) for material in materials if material.is_limited],
        "new_observations": [
            {
                "description": wording.format(action=name, many=many, appearance=appearance),
                "measurement_type": "visual",
                "value": appearance,
                "timestamp": "during the action",
            }
        ],
        "reasoning": f"{name} leaves the materials as they were.",
        "success": True,
        "failure_reason": "",
    }


def _return_unchanged(material: ShownMaterial) -> dict[str, Any]:
    fields = {name: material.fields[name] for name in _FIELDS if name in material.fields}
    return {**fields, "replaces": material.alias, "derived_from": [material.alias]}


def build_wrong_outcome(question: Question, mind: AnswerOptions) -> dict[str, Any]:
    """Return the outcome of `build_outcome` with one error, which its reasoning explains after SECRET.

    The error is a number multiplied by ten, or an observation if no property has a number.
    """
    outcome = build_outcome(question, mind)
    places = [
        (material, name)
        for material in outcome["new_materials"]
        for name, value in material["properties"].items()
        if isinstance(value, str) and _NUMBER.match(value)
    ]
    if places:
        material, name = places[draw_number(10**6, mind.seed, "spoilt", question.user_text) % len(places)]
        before = material["properties"][name]
        after = _NUMBER.sub(lambda number: f"{float(number[0]) * 10:g}", before, count=1)
        material["properties"] = {**material["properties"], name: after}
        secret = f"the {name} of {material['name']} was {before} and nothing was done that could make it {after}"
    else:
        outcome["new_observations"][0]["description"] += "; it glowed brightly by itself"
        secret = "nothing in these materials gives off light by itself"
    outcome["reasoning"] += f" SECRET: {secret}"
    return outcome


def _answer_as_classifier(question: Question, mind: AnswerOptions) -> str:
    drawn = draw_number(1000, mind.seed, "verdict", question.model, question.user_text)
    # A third of the verdicts are VALID, so that both verdicts occur in every larger run.
    is_valid = drawn % 3 == 0
    return (
        f"<verdict>{'VALID' if is_valid else 'INVALID'}</verdict>\n"
        f"<reasoning>The record {'holds' if is_valid else 'lacks'} the measurement that the interpretation needs.</reasoning>\n"
        f"<confidence>0.{50 + drawn % 50}</confidence>\n"
        f"<goal_relevance>{'directly' if is_valid else 'partially'} supports goal</goal_relevance>\n"
        f"<evidence_strength>{('strong', 'moderate', 'weak')[drawn % 3]}</evidence_strength>"
    )


def build_rating(question: Question, mind: AnswerOptions) -> dict[str, Any]:
    """Return a rating with one of the two verdicts in the instructions; the negative verdict also marks one row."""
    prompt_text = question.turns[0].text
    yes, no = _VERDICTS.search(question.system).groups()  # type: ignore[union-attr]  # the instructions name them
    drawn = draw_number(1000, mind.seed, "rating", prompt_text)
    keys = re.findall(r'"key": "([^"]+)"', prompt_text)
    return {
        "reason": f"Drawn: {drawn}.",
        "verdict": no if drawn % 3 == 0 else yes,
        "confidence": 1 + drawn % 5,
        "marks": [keys[drawn % len(keys)]] if drawn % 3 == 0 else [],
    }


def _as_json(made: Callable[[Question, AnswerOptions], dict[str, Any]]) -> Callable[[Question, AnswerOptions], str]:
    return lambda question, mind: json.dumps(made(question, mind), ensure_ascii=False)


_ANSWER_FUNCTIONS: Mapping[Role, Callable[[Question, AnswerOptions], str]] = {
    Role.AGENT: _answer_as_agent,
    Role.PLAN: _write_plan,
    Role.SUMMARY: _write_summary,
    Role.TRANSITION: _as_json(build_outcome),
    Role.PERTURBED: _as_json(build_wrong_outcome),
    Role.CLASSIFIER: _answer_as_classifier,
    Role.RATER: _as_json(build_rating),
}
