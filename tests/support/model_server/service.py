"""The server: parse requests, recognise roles, answer, and count everything."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.scripted_server import answers, openai_api
from simulation.scripted_server.answers import AnswerOptions, Role
from simulation.scripted_server.code_answers import CodeScript
from simulation.scripted_server.questions import (
    FLAVOURS,
    Answer,
    PromptCaches,
    ProviderApi,
    Question,
    RefusedError,
    Tokens,
)
from simulation.scripted_server.server import APIS, parse_body
from tests.support.model_server import (
    answer_envelope,
    answer_faults,
    bodies,
    deliveries,
    http_errors,
    request_checks,
    rules,
)
from tests.support.model_server.counting import CountersByModel
from tests.support.model_server.deliveries import ClientConnection
from tests.support.model_server.messages import NotHttpError, Reply, Request, make_json_reply, read_request
from tests.support.model_server.rules import Rule

_MAX_STORED = 50  # the latest requests are stored for inspection
_SECRET_HEADERS = ("authorization", "x-api-key")


@dataclass(frozen=True)
class ServerOptions:
    """Options of the server. AnswerOptions explains `steps` and `script`.

    While a model has `most_at_once` requests in flight, the server returns status 429 for further ones.
    """

    latency: float = 0.0  # seconds before each answer; errors are immediate
    seed: int = 0
    most_at_once: int | None = None
    faults: Sequence[Mapping[str, Any] | Rule] = ()
    steps: int | None = None
    script: CodeScript = field(default_factory=CodeScript)


@dataclass
class Service:
    """The state of the server, used in one event loop."""

    options: ServerOptions
    counters: CountersByModel = field(default_factory=CountersByModel)
    caches: PromptCaches = field(default_factory=PromptCaches)
    stored_requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_STORED))
    number: int = 0

    def __post_init__(self) -> None:
        self.rules = [rules.parse_rule(rule) for rule in self.options.faults]

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side closes it."""
        link = ClientConnection(reader, writer)
        try:
            while request := await read_request(reader):
                if not await self._handle_request(link, request):
                    break
        except NotHttpError as problem:
            await deliveries.send_reply(link, make_json_reply(400, {"error": {"message": str(problem)}}))
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _handle_request(self, link: ClientConnection, request: Request) -> bool:
        """Handle one request and return whether the connection can stay open."""
        flavour = FLAVOURS.get(request.path)
        if flavour is None or request.method != "POST":
            return await deliveries.send_reply(link, self._handle_control(request))
        self.number += 1
        body: dict[str, Any] = {}
        try:
            body = parse_body(request.body)
            question = self._parse_question(request, body, flavour)
        # A rejected request gives no question, but it is counted under its model if that can be read.
        except RefusedError as refused:
            model = body.get("model")
            return await self._send_refusal(link, flavour, model if isinstance(model, str) else "", refused)
        return await self._send_answer(link, question)

    def _parse_question(self, request: Request, body: dict[str, Any], flavour: ProviderApi) -> Question:
        # Keys are never stored, not even dummy ones: a test could print them.
        headers = {name: value for name, value in request.headers.items() if name not in _SECRET_HEADERS}
        self.stored_requests.append({"path": request.path, "headers": headers, "body": body})
        question: Question = APIS[flavour.dialect].parse_request(body, request.headers, flavour)
        request_checks.check_request(body, request.headers, question)
        return question

    async def _send_refusal(
        self, link: ClientConnection, flavour: ProviderApi, model: str, refused: RefusedError
    ) -> bool:
        """Send the error reply for a rejected request and count it, under an empty name if it has no model."""
        self.counters.begin_request(model, "unread", "")
        reply = http_errors.build_error_reply(flavour, refused.status, refused.kind, str(refused))
        sent = await deliveries.send_reply(link, self._add_request_id(reply))
        self.counters.end_request(model, refused.status if sent else None, None, Decimal(0))
        return sent

    async def _send_answer(self, link: ClientConnection, question: Question) -> bool:
        role = answers.find_role(question)
        rule = self._find_rule(question, role)
        self.counters.begin_request(question.model, role, rule.fault if rule else "")
        built, sent = None, False
        # `finally`, so that a connection that breaks is counted as ended.
        try:
            if rule and rule.fault in http_errors.ERRORS:
                built = BuiltReply(self._add_request_id(http_errors.reply_for_rule(question, rule)))
                sent = await deliveries.send_reply(link, built.reply)
            # The reply is built after the latency has passed. The wait ends early if the client disconnects.
            elif not (self.options.latency and await link.wait_for_disconnect(self.options.latency)):
                mind = AnswerOptions(self.options.seed, self.options.steps, self.options.script)
                built = _build_reply(question, role, rule, self.caches.count_tokens(question), mind, self.number)
                built = built._replace(reply=self._add_request_id(built.reply))
                deliver = (
                    deliveries.DELIVERIES.get(rule.fault, deliveries.send_reply) if rule else deliveries.send_reply
                )
                sent = await deliver(link, built.reply, rule)  # type: ignore[arg-type]
        finally:
            counted = built if sent else None
            self.counters.end_request(
                question.model,
                counted.reply.status if counted else None,
                counted.tokens if counted else None,
                counted.cost if counted else Decimal(0),
            )
        return sent

    def _find_rule(self, question: Question, role: Role) -> Rule | None:
        """Return the rule for this request, or None. If too many requests are in flight, it is a rate limit."""
        count = self.counters.models.get(question.model)
        limit = self.options.most_at_once
        # At the limit, the server answers like a provider with a rate limit.
        if limit is not None and count and count.in_flight >= limit:
            return Rule("rate_limit")
        if not self.rules:
            return None
        return rules.find_rule(self.rules, question.model, role, f"{question.system}\n{question.user_text}")

    def _add_request_id(self, reply: Reply) -> Reply:
        """Return the reply with its request id in the headers of both APIs."""
        name = f"req_{self.number:08d}"
        return reply._replace(headers={**reply.headers, "request-id": name, "x-request-id": name})

    def _handle_control(self, request: Request) -> Reply:
        """Answer a control request: GET /counters, GET /requests, POST /reset or POST /faults."""
        match request.method, request.path:
            case "GET", "/counters":
                return make_json_reply(200, self.counters.to_dict())
            case "GET", "/requests":
                return make_json_reply(200, list(self.stored_requests))
            case "POST", "/reset":
                self.reset_all()
                return make_json_reply(200, {})
            case "POST", "/faults":
                return self._replace_rules(request.body)
        return make_json_reply(404, {"error": {"message": f"there is no {request.method} {request.path}"}})

    def reset_all(self) -> None:
        """Remove all rules, cache entries and stored requests, and reset the counters."""
        self.counters.reset_all()
        self.caches = PromptCaches()
        self.rules = []
        self.stored_requests.clear()

    def _replace_rules(self, body: bytes) -> Reply:
        """Replace all rules with the list in the body, or return status 400 if it is not valid."""
        try:
            self.rules = [rules.parse_rule(rule) for rule in json.loads(body)]
        except (ValueError, TypeError, AttributeError) as problem:
            return make_json_reply(400, {"error": {"message": str(problem)}})
        return make_json_reply(200, {"rules": len(self.rules)})


class BuiltReply(NamedTuple):
    """A reply, with the tokens and the cost that it reports to the client."""

    reply: Reply
    tokens: Tokens | None = None
    cost: Decimal = Decimal(0)


def _build_reply(
    question: Question, role: Role, rule: Rule | None, prompt: Tokens, mind: AnswerOptions, number: int
) -> BuiltReply:
    """Return the reply to a question. `prompt` counts the tokens of its prompt; `number` is part of the reply's id."""
    answer = _build_answer(question, role, rule, prompt, mind)
    reply = make_json_reply(200, APIS[question.flavour.dialect].build_response(question, answer, number))
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
        return answers.make_answer(question, text, prompt)
    spoil, change = answer_faults.TEXTS.get(rule.fault), answer_envelope.ANSWERS.get(rule.fault)
    # A text with a fault is never cut at the token limit, so that the fault arrives completely.
    answer = answers.make_answer(question, spoil(text, role, rule) if spoil else text, prompt, whole=bool(spoil))
    return change(answer, question, rule) if change else answer
