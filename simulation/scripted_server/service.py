"""The server: parse requests, recognise roles, answer, and count everything."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from simulation.scripted_server import anthropic_wire, deliveries, making, openai_wire, reading, refusals, rules
from simulation.scripted_server.brains import Mind
from simulation.scripted_server.caching import PromptCaches
from simulation.scripted_server.counting import Counters
from simulation.scripted_server.deliveries import Link
from simulation.scripted_server.making import Made
from simulation.scripted_server.messages import NotHttpError, Reply, Request, json_reply, read_request
from simulation.scripted_server.questions import FLAVOURS, Flavour, Question
from simulation.scripted_server.refusing import RefusedError, bad
from simulation.scripted_server.rules import Rule

_KEPT = 50  # requests stored for inspection
_SECRET = ("authorization", "x-api-key")


@dataclass(frozen=True)
class Options:
    """How the server behaves. `most_at_once`: requests in flight per model beyond which it returns 429. `steps`: see AnswerOptions."""

    latency: float = 0.0  # seconds before each answer; errors are immediate
    seed: int = 0
    most_at_once: int | None = None
    faults: Sequence[Mapping[str, Any] | Rule] = ()
    steps: int | None = None


@dataclass
class Service:
    """The state of the server, used in one event loop."""

    options: Options
    counters: Counters = field(default_factory=Counters)
    caches: PromptCaches = field(default_factory=PromptCaches)
    kept: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    number: int = 0

    def __post_init__(self) -> None:
        self.rules = [rules.read(rule) for rule in self.options.faults]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        link = Link(reader, writer)
        try:
            while request := await read_request(reader):
                if not await self._serve(link, request):
                    break
        except NotHttpError as problem:
            await deliveries.plain(link, json_reply(400, {"error": {"message": str(problem)}}))
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _serve(self, link: Link, request: Request) -> bool:
        """Handle one request and return whether the connection can continue."""
        flavour = FLAVOURS.get(request.path)
        if flavour is None or request.method != "POST":
            return await deliveries.plain(link, self._about(request))
        self.number += 1
        body: dict[str, Any] = {}
        try:
            body = _body(request)
            question = self._question(request, body, flavour)
        # A rejected request has no question, but its model is counted if it can be read.
        except RefusedError as refused:
            model = body.get("model")
            return await self._refuse(link, flavour, model if isinstance(model, str) else "", refused)
        return await self._answer(link, question)

    def _question(self, request: Request, body: dict[str, Any], flavour: Flavour) -> Question:
        # Keys are never stored, not even dummy ones: a test could print them.
        headers = {name: value for name, value in request.headers.items() if name not in _SECRET}
        self.kept.append({"path": request.path, "headers": headers, "body": body})
        read = anthropic_wire.read if flavour.dialect == "anthropic" else openai_wire.read
        return read(body, request.headers, flavour)

    async def _refuse(self, link: Link, flavour: Flavour, model: str, refused: RefusedError) -> bool:
        """Send a rejection. It is counted, under an empty name if the request has no model."""
        self.counters.begin(model, "unread", "")
        reply = refusals.reply(flavour, refused.status, refused.kind, refused.message)
        sent = await deliveries.plain(link, self._signed(reply))
        self.counters.end(model, refused.status if sent else None, None, Decimal(0))
        return sent

    async def _answer(self, link: Link, question: Question) -> bool:
        role = reading.role(question)
        rule = self._rule(question, role)
        self.counters.begin(question.model, role, rule.fault if rule else "")
        built, sent = None, False
        # `finally`, so that a connection that breaks is counted as ended.
        try:
            if rule and rule.fault in refusals.ERRORS:
                built = Made(self._signed(refusals.struck(question, rule)))
                sent = await deliveries.plain(link, built.reply)
            # The latency is waited before the reply is built, and ends early if the client leaves.
            elif not (self.options.latency and await link.gone_within(self.options.latency)):
                mind = Mind(self.options.seed, self.options.steps)
                built = making.made(question, role, rule, self.caches.count(question), mind, self.number)
                built = built._replace(reply=self._signed(built.reply))
                deliver = deliveries.DELIVERIES.get(rule.fault, deliveries.plain) if rule else deliveries.plain
                sent = await deliver(link, built.reply, rule)  # type: ignore[arg-type]
        finally:
            counted = built if sent else None
            self.counters.end(
                question.model,
                counted.reply.status if counted else None,
                counted.tokens if counted else None,
                counted.cost if counted else Decimal(0),
            )
        return sent

    def _rule(self, question: Question, role: reading.Role) -> Rule | None:
        """Return the fault for this request, if any: of a rule, or because of too many requests in flight."""
        count = self.counters.models.get(question.model)
        limit = self.options.most_at_once
        # At the limit, as a provider with a rate limit would answer.
        if limit is not None and count and count.in_flight >= limit:
            return Rule("rate_limit")
        if not self.rules:
            return None
        return rules.first(self.rules, question.model, role, f"{question.system}\n{question.asked}")

    def _signed(self, reply: Reply) -> Reply:
        """Return the reply with the request id, under both APIs' header names."""
        name = f"req_{self.number:08d}"
        return reply._replace(headers={**reply.headers, "request-id": name, "x-request-id": name})

    def _about(self, request: Request) -> Reply:
        """Answer the control interface: GET /counters, GET /requests, POST /reset, POST /faults."""
        match request.method, request.path:
            case "GET", "/counters":
                return json_reply(200, self.counters.to_json())
            case "GET", "/requests":
                return json_reply(200, list(self.kept))
            case "POST", "/reset":
                self.reset()
                return json_reply(200, {})
            case "POST", "/faults":
                return self._new_rules(request.body)
        return json_reply(404, {"error": {"message": f"there is no {request.method} {request.path}"}})

    def reset(self) -> None:
        """Reset counters, faults and caches."""
        self.counters.reset()
        self.caches = PromptCaches()
        self.rules = []
        self.kept.clear()

    def _new_rules(self, body: bytes) -> Reply:
        """Replace all rules by a list in the body."""
        try:
            self.rules = [rules.read(rule) for rule in json.loads(body)]
        except (ValueError, TypeError, AttributeError) as problem:
            return json_reply(400, {"error": {"message": str(problem)}})
        return json_reply(200, {"rules": len(self.rules)})


def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(request.body)
    except ValueError:
        raise bad("the body is not JSON") from None
    if not isinstance(body, dict):
        raise bad("the body is not a JSON object")
    return body
