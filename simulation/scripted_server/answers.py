"""Read a prompt and answer it in the requested format. The same model and prompt give the same answer."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from simulation.scripted_server.code_answers import CodeRole, CodeScript, find_code_role, write_code_answer
from simulation.scripted_server.questions import Answer, Question, Tokens, count_tokens, draw_number, encode_text
from simulation.scripted_server.structured import write_structured

# These patterns match data in a prompt. They are greedy, so that an end mark inside the data does not end the match.
_TAGGED = re.compile(r"<(materials|observations|action|record|interpretation|context|item|rows)>.*</\1>", re.DOTALL)
_MARKED = re.compile(r"<<<([A-Z]+ [0-9a-f]{16})\b.*\b\1>>>", re.DOTALL)
_SUMMARY = re.compile(r"summar", re.IGNORECASE)
_BARCODE = re.compile(r"MAT-[A-Z0-9]{8}\b")
_AVAILABILITY = re.compile(r"\b(unlimited|not_available_for_further_use|available_for_further_use)\b")
_NUMBERED = re.compile(r"^\W*(?:step\s+)?(\d{1,3})[.:)]\s", re.IGNORECASE | re.MULTILINE)
_SUMMARISED = re.compile(r"^STEPS 1 TO (\d{1,3})\b", re.MULTILINE)
_LEFT = re.compile(r"\b(\d{1,3}) (?:steps?|actions?|attempts?)\s+(?:are\s+)?(?:left|remain)", re.IGNORECASE)
_ALIAS = re.compile(r"\bS\d{1,3}\b")
_OPENING = re.compile(r"[{\[]")
_NEAR = 40  # number of characters before an object in which its alias is searched
_ACTION_DATA = re.compile(r"<action>.*</action>|<<<(ACTION [0-9a-f]{16})\b.*\b\1>>>", re.DOTALL)
_ACTION_NAMED = re.compile(r"\bACTION:\W{0,3}([A-Za-z][A-Za-z0-9]{2,60})", re.IGNORECASE)
SUBMIT = "SubmitMaterialsObservationsForReview"
_MIN_STEPS, _MAX_STEPS = 5, 12  # steps of an episode, without the submission
_MAX_MATERIALS = 3  # materials of one action
_FIELDS = ("name", "properties", "available_for_use", "material_type", "environmental_condition")
_VERDICTS = re.compile(r'"verdict": "(\w+) \| (not \w+) \|')
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
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
_WORDINGS = (
    "After {action} on {many} the first looked like this: {appearance}",
    "{action} was done on {many}; the first one now looks like this: {appearance}",
    "Seen after {action} on {many}, the first of them: {appearance}",
    "{action} on {many} is done, and the first shows this: {appearance}",
)


class Role(StrEnum):
    """The role in which a prompt asks the model to answer."""

    AGENT = "agent"
    PLAN = "plan"
    SUMMARY = "summary"
    TRANSITION = "transition"
    PERTURBED = "perturbed"
    CLASSIFIER = "classifier"
    RATER = "rater"


OUTCOMES = (Role.TRANSITION, Role.PERTURBED)  # roles whose answer is an outcome in JSON


class ShownMaterial(NamedTuple):
    """A material as a transition prompt shows it."""

    alias: str
    fields: Mapping[str, Any]

    @property
    def is_limited(self) -> bool:
        return self.fields.get("available_for_use") != "unlimited"


def find_role(question: Question) -> Role | CodeRole:
    """Return the role that the requested answer format implies. Text between data tags is ignored."""
    if code_role := find_code_role(question):
        return code_role
    # Data can contain anything, so it is removed before the format of the answer is looked for.
    instructions = _MARKED.sub("", _TAGGED.sub("", question.user_text))
    # From specific to general: instructions for raters also contain words of other roles.
    if '"marks"' in question.system:
        return Role.RATER
    if "new_materials" in question.system:
        return Role.PERTURBED if "SECRET" in question.system or "SECRET" in instructions else Role.TRANSITION
    if _asks_for_action(question.system):
        if "ACTION:" in question.user_text:
            return Role.AGENT
        if "PLAN:" in question.user_text:
            return Role.PLAN
        return Role.SUMMARY if _SUMMARY.search(question.user_text) else Role.AGENT
    if "<verdict>" in instructions or "<verdict>" in question.system:
        return Role.CLASSIFIER
    if "new_materials" in instructions:
        return Role.PERTURBED if "SECRET" in instructions else Role.TRANSITION
    return Role.AGENT if _asks_for_action(question.user_text) else Role.SUMMARY


def _asks_for_action(text: str) -> bool:
    return 0 <= text.find("ACTION:") < text.rfind("PARAMETERS")


def list_limited_barcodes(asked: str) -> list[str]:
    """Return the barcodes of available, limited materials in prompt order; all barcodes if none states availability."""
    matches = list(_BARCODE.finditer(asked))
    availability: dict[str, str] = {}
    for at, this in enumerate(matches):
        # The text up to the next barcode describes this material.
        end = matches[at + 1].start() if at + 1 < len(matches) else len(asked)
        about = asked[this.end() : end]
        if word := _AVAILABILITY.search(about):
            availability[this[0]] = word[0]
    if not availability:
        return list(dict.fromkeys(match[0] for match in matches))
    return [code for code, word in availability.items() if word == "available_for_further_use"]


def count_steps_done(asked: str) -> int:
    """Return the highest step number in the history, or 0 if it has none."""
    numbers = [*_NUMBERED.findall(asked), *_SUMMARISED.findall(asked)]
    return max(map(int, numbers), default=0)


def find_steps_left(asked: str) -> int | None:
    """Return the number of remaining steps that the prompt states last, or None if it states none."""
    numbers = _LEFT.findall(asked)
    return int(numbers[-1]) if numbers else None


def list_materials(asked: str) -> list[ShownMaterial]:
    """Return the materials of an action: JSON objects with a name, properties and an alias. Each alias occurs once."""
    by_alias: dict[str, ShownMaterial] = {}
    end = 0
    for start, stop, value in _iter_objects(asked):
        # The nearest alias before the object, but not one that belongs to the previous object.
        aliases = _ALIAS.findall(asked[max(end, start - _NEAR) : start])
        for material in _iter_materials(value, aliases[-1] if aliases else ""):
            by_alias.setdefault(material.alias, material)
        end = stop
    return list(by_alias.values())


def find_action_name(asked: str) -> str:
    """Return the name of the action to be simulated, or "The action" if none is found."""
    enclosed = _ACTION_DATA.search(asked)
    for _, _, value in _iter_objects(enclosed[0]) if enclosed else ():
        if isinstance(value, Mapping) and isinstance(name := value.get("name", value.get("action")), str):
            return name[:60]
    match = _ACTION_NAMED.search(enclosed[0] if enclosed else asked)
    return match[1] if match else "The action"


def _iter_materials(value: Any, alias: str) -> Iterator[ShownMaterial]:
    if isinstance(value, list):
        for part in value:
            yield from _iter_materials(part, "")
    elif isinstance(value, Mapping) and "new_materials" not in value:
        if "name" in value and isinstance(value.get("properties"), Mapping):
            aliases = [part for key, part in value.items() if key != "name" and _is_alias(part)]
            if alias := str(aliases[0]) if aliases else alias:
                yield ShownMaterial(alias, value)
        else:
            for key, part in value.items():
                yield from _iter_materials(part, key if _is_alias(key) else "")


def _is_alias(value: Any) -> bool:
    return isinstance(value, str) and bool(_ALIAS.fullmatch(value))


def _iter_objects(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, value) for each outermost JSON object or list in a text."""
    decoder, offset = json.JSONDecoder(), 0
    while match := _OPENING.search(text, offset):
        try:
            # The standard decoder is tried at each opening bracket; text between objects is skipped.
            value, offset = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            offset = match.end()
        else:
            yield match.start(), offset, value


class AnswerOptions(NamedTuple):
    """What answers depend on besides the prompt. Every episode has `steps` steps; if None, their number varies.

    `script` is what agents that edit code answer.
    """

    seed: int = 0
    steps: int | None = None
    script: CodeScript = CodeScript()


def write_answer(question: Question, role: Role | CodeRole, mind: AnswerOptions) -> str:
    """Return the text with which a model in this role answers the prompt."""
    if isinstance(role, CodeRole):
        return write_code_answer(question, role, mind.script)
    return _ANSWER_FUNCTIONS[role](question, mind)


def make_answer(question: Question, text: str, prompt: Tokens, whole: bool = False) -> Answer:
    """Return an answer with this text, in the form of the request's schema if it has one.

    Unless `whole`, cut it so that thinking and text fit into `max_tokens`.
    """
    if question.schema:
        text = write_structured(text, question.schema)
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
    done, left = count_steps_done(prompt), find_steps_left(prompt)
    codes = list_limited_barcodes(prompt)
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
    done = count_steps_done(question.user_text)
    record_number = draw_number(10**6, mind.seed, "summary", question.user_text)
    return f"The samples were looked at, weighed and stored over {done} steps without a surprise (record {record_number:06d})."


def build_outcome(question: Question, mind: AnswerOptions) -> dict[str, Any]:
    """Return an outcome: every limited input unchanged, and one observation worded differently by model and prompt."""
    prompt = question.turns[0].text
    name, materials = find_action_name(prompt), list_materials(prompt)
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
