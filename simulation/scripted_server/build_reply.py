"""Build the reply to a question: the answer in its envelope, with the fault that a rule requests."""

from decimal import Decimal
from typing import NamedTuple

from simulation.scripted_server import answer_envelope, answer_faults, answers, anthropic_api, bodies, openai_api
from simulation.scripted_server.answers import AnswerOptions
from simulation.scripted_server.messages import Reply, make_json_reply
from simulation.scripted_server.prompt_reading import Role
from simulation.scripted_server.questions import Answer, Question, Tokens
from simulation.scripted_server.rules import Rule


class BuiltReply(NamedTuple):
    """A reply, with the tokens and the cost that it reports to the client."""

    reply: Reply
    tokens: Tokens | None = None
    cost: Decimal = Decimal(0)


def build_reply(
    question: Question, role: Role, rule: Rule | None, prompt: Tokens, mind: AnswerOptions, number: int
) -> BuiltReply:
    """Return the reply to a question. `prompt` counts the tokens of its prompt; `number` is part of the reply's id."""
    answer = _build_answer(question, role, rule, prompt, mind)
    write = anthropic_api.build_response if question.flavour.dialect == "anthropic" else openai_api.build_response
    reply = make_json_reply(200, write(question, answer, number))
    damage = bodies.BODIES.get(rule.fault) if rule else None
    if rule and damage:
        reply = damage(reply, question, rule)
    # A damaged body has no usage that a client could read.
    if damage or not answer.reports_usage:
        return BuiltReply(reply)
    charged = question.flavour.name == "openrouter"
    # Only OpenRouter reports a cost.
    return BuiltReply(reply, answer.tokens, openai_api.compute_cost(answer.tokens) if charged else Decimal(0))


def _build_answer(question: Question, role: Role, rule: Rule | None, prompt: Tokens, mind: AnswerOptions) -> Answer:
    text = answers.write_answer(question, role, mind)
    if rule is None:
        return answer_envelope.make_answer(question, text, prompt)
    spoil, change = answer_faults.TEXTS.get(rule.fault), answer_envelope.ANSWERS.get(rule.fault)
    # A text with a fault is never cut at the token limit, so that the fault arrives completely.
    answer = answer_envelope.make_answer(
        question, spoil(text, role, rule) if spoil else text, prompt, whole=bool(spoil)
    )
    return change(answer, question, rule) if change else answer
