"""Build the reply to a question: the answer, its envelope, and the fault of a rule."""

from decimal import Decimal
from typing import NamedTuple

from simulation.scripted_server import anthropic_wire, bodies, brains, openai_wire, spoiling, turns
from simulation.scripted_server.brains import Mind
from simulation.scripted_server.messages import Reply, json_reply
from simulation.scripted_server.questions import Answer, Question, Tokens
from simulation.scripted_server.reading import Role
from simulation.scripted_server.rules import Rule


class Made(NamedTuple):
    """A reply, its reported tokens, and its reported cost."""

    reply: Reply
    tokens: Tokens | None = None
    cost: Decimal = Decimal(0)


def made(question: Question, role: Role, rule: Rule | None, prompt: Tokens, mind: Mind, number: int) -> Made:
    """Return the reply to a question whose prompt has these tokens. `number` is part of its id."""
    answer = _answer(question, role, rule, prompt, mind)
    write = anthropic_wire.write if question.flavour.dialect == "anthropic" else openai_wire.write
    reply = json_reply(200, write(question, answer, number))
    damage = bodies.BODIES.get(rule.fault) if rule else None
    if rule and damage:
        reply = damage(reply, question, rule)
    # A damaged body has no usage that a client could read.
    if damage or not answer.told:
        return Made(reply)
    charged = question.flavour.name == "openrouter"
    # Only OpenRouter reports a cost.
    return Made(reply, answer.tokens, openai_wire.cost(answer.tokens) if charged else Decimal(0))


def _answer(question: Question, role: Role, rule: Rule | None, prompt: Tokens, mind: Mind) -> Answer:
    text = brains.answer(question, role, mind)
    if rule is None:
        return turns.plain(question, text, prompt)
    spoil, change = spoiling.TEXTS.get(rule.fault), turns.ANSWERS.get(rule.fault)
    # A fault in the text must arrive completely, whatever the limit is.
    answer = turns.plain(question, spoil(text, role, rule) if spoil else text, prompt, whole=bool(spoil))
    return change(answer, question, rule) if change else answer
