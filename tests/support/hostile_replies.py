"""The expected state of a row after every fault of a reply: the table of tests/simulation/calls/test_hostile_replies.py."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

AGENT, MODEL, JUDGE, TWIN = "agent", "transition", "verdict", "twin"
BOTH_APIS = (AGENT, MODEL)  # one uses OpenAI's API, the other Anthropic's
ALL_ROLES = (AGENT, MODEL, JUDGE, TWIN)


class Expected(NamedTuple):
    """A row's state after the fault, the calls made, and the result of the step ("" for none, accepted, or who rejected it)."""

    status: str
    reason: str = ""
    calls: tuple[str, ...] = ("answered",)
    step: str = ""


ANSWERS = tuple(("answered",) * number for number in range(4))
ACCEPTED = {
    AGENT: Expected("running"),  # the action is chosen; the outcome is requested next
    MODEL: Expected("running", step="accepted"),
    JUDGE: Expected("submitted"),
    TWIN: Expected("done"),
}
UNUSABLE = {MODEL: "invalid_transition", JUDGE: "no_verdict", TWIN: "no_twin"}


def expect_waiting(kind: str, reason: str = "provider_unavailable") -> Expected:
    """Expect one failed call that will be sent again later."""
    return Expected("waiting", reason, (f"failed {kind}",))


def expect_blocked(kind: str, reason: str) -> Expected:
    """Expect one failed call, and none after it until a person has acted."""
    return Expected("blocked", reason, (f"failed {kind}",))


def expect_rejected_step(by: str, turns: int = 1) -> Expected:
    """Expect a rejected step of the agent after `turns` calls."""
    return Expected("running", "", ANSWERS[turns], by)


def expect_failure(role: str, turns: int) -> Expected:
    """Expect that no usable answer came within `turns`. This is never the agent's failure."""
    return Expected("failed", UNUSABLE[role], ANSWERS[turns])


class ReplyFault(NamedTuple):
    """A fault as the local server is configured for it, and the expected result for each role it affects."""

    name: str
    expected: dict[str, Expected]
    rule: dict[str, Any]
    stored: bool = False  # whether the result depends on the database

    def iter_params(self) -> Iterator[Any]:
        label = "-".join([self.name, *(f"{name}={value}" for name, value in self.rule.items())])
        marks = [pytest.mark.both_databases] if self.stored else []
        for role, becomes in self.expected.items():
            yield pytest.param(role, {"fault": self.name, **self.rule}, becomes, id=f"{role}-{label}", marks=marks)


def build_transport_fault(name: str, becomes: Expected, *roles: str, **rule: Any) -> ReplyFault:
    """Return a fault with the same result for all roles. One API is enough for a fault of the transport: both use the same HTTP client."""
    return ReplyFault(name, dict.fromkeys(roles, becomes), rule)


def build_content_fault(
    name: str, *roles: str, agent: Expected | None = None, stored: bool = False, turns: Any = 0, **rule: Any
) -> ReplyFault:
    """Return a fault in what a model writes: `turns` unusable answers, by role or for all; 0 if the answer is usable all the same."""
    by_role = turns if isinstance(turns, dict) else dict.fromkeys(UNUSABLE, turns)
    becomes = {role: expect_failure(role, by_role[role]) if by_role.get(role) else ACCEPTED[role] for role in roles}
    return ReplyFault(name, becomes | ({AGENT: agent} if agent and AGENT in roles else {}), rule, stored)


REPAIRED = {MODEL: 3, JUDGE: 2, TWIN: 3}  # turns: the question and its repairs
UNPARSABLE = expect_rejected_step("parser", 3)  # the same unusable answer three times

REFUSED = Expected("failed", "refused", ("refused",))
FAULTS = [
    # The provider
    build_transport_fault("rate_limit", expect_waiting("rate_limit", "rate_limit"), AGENT),
    build_transport_fault("rate_limit", expect_waiting("rate_limit", "rate_limit"), MODEL, TWIN, retry_after=30),
    build_transport_fault("overloaded_529", expect_waiting("overloaded", "rate_limit"), MODEL),
    build_transport_fault("unavailable_503", expect_waiting("overloaded", "rate_limit"), AGENT),
    build_transport_fault("server_500", expect_waiting("server"), *ALL_ROLES),
    build_transport_fault("html", expect_waiting("garbled"), MODEL),
    build_transport_fault("html", expect_waiting("server"), AGENT, status=502),
    build_transport_fault("error_in_200", expect_waiting("overloaded", "rate_limit"), *BOTH_APIS),
    build_transport_fault("error_in_200", expect_waiting("rate_limit", "rate_limit"), JUDGE, status=429),
    build_transport_fault("no_choices", expect_waiting("garbled"), AGENT),
    build_transport_fault("cut_json", expect_waiting("garbled"), MODEL),
    build_transport_fault("context_400", Expected("failed", "context", ("failed context",)), *BOTH_APIS),
    build_transport_fault("bad_request_400", expect_blocked("bad_request", "bad_request"), JUDGE),
    build_transport_fault("not_found_404", expect_blocked("bad_request", "bad_request"), MODEL),
    build_transport_fault("unauthorized_401", expect_blocked("credentials", "credentials"), AGENT, TWIN),
    build_transport_fault("forbidden_403", expect_blocked("credentials", "credentials"), MODEL),
    build_transport_fault("credits_402", expect_blocked("credits", "credentials"), AGENT),
    # The wire
    build_transport_fault("reset", expect_waiting("connection"), MODEL),
    build_transport_fault("reset", expect_waiting("connection"), AGENT, variant="half"),
    build_transport_fault("close", expect_waiting("connection"), MODEL),
    build_transport_fault("cut_body", expect_waiting("connection"), AGENT),
    build_transport_fault("hang", expect_waiting("timeout"), MODEL),
    build_transport_fault("drip", expect_waiting("timeout"), AGENT, seconds=0.1),
    build_transport_fault("slow_headers", expect_waiting("timeout"), MODEL, seconds=0.1),
    build_transport_fault("gzip_bomb", expect_waiting("garbled"), AGENT),
    ReplyFault("huge_2mb", {MODEL: expect_waiting("garbled")}, {"size": 5 * 1024 * 1024}, stored=True),
    # No answer in the reply
    build_transport_fault("refusal", REFUSED, *ALL_ROLES),
    build_transport_fault("refusal", REFUSED, AGENT, variant="content_filter"),
    build_content_fault("empty", *BOTH_APIS, JUDGE, agent=UNPARSABLE, turns=3),
    build_content_fault("empty", JUDGE, turns=3, variant="null"),
    build_content_fault("empty", MODEL, turns=3, variant="spaces"),
    build_content_fault("thinking_only", AGENT, TWIN, agent=UNPARSABLE, turns=3),
    build_content_fault("thinking_only", MODEL, turns=3, variant="max_tokens"),
    build_content_fault("truncated", *BOTH_APIS, TWIN, agent=UNPARSABLE, turns=3),
    # Anthropic has its own stop reason for a full context; the others report a length limit.
    ReplyFault("context_stop", {AGENT: UNPARSABLE, MODEL: Expected("failed", "context")}, {}),
    # An answer in another form than requested
    build_content_fault("fenced", AGENT, JUDGE),
    build_content_fault("chatter", MODEL),
    build_content_fault("two_objects", *BOTH_APIS, JUDGE, agent=expect_rejected_step("parser"), turns={JUDGE: 2}),
    build_content_fault("wrong_enum", *ALL_ROLES, agent=expect_rejected_step("catalogue"), turns=REPAIRED),
    build_content_fault("missing_field", *BOTH_APIS, agent=expect_rejected_step("parser"), turns=REPAIRED),
    build_content_fault("unknown_field", *BOTH_APIS, agent=expect_rejected_step("catalogue")),
    build_content_fault("nan", *BOTH_APIS, agent=expect_rejected_step("catalogue"), stored=True, turns=REPAIRED),
    build_content_fault("deep", *BOTH_APIS, agent=expect_rejected_step("catalogue"), stored=True, turns=REPAIRED),
    build_content_fault("huge_2mb", *BOTH_APIS, agent=expect_rejected_step("parser"), stored=True, turns=3),
    build_content_fault("nul", *BOTH_APIS, JUDGE, stored=True),
    build_content_fault("bad_utf8", *BOTH_APIS, stored=True),
    build_content_fault("injection", *ALL_ROLES, stored=True),
    build_transport_fault("no_secret", Expected("unusable"), TWIN),
    # Valid for an outcome; a rejected twin could be distinguished from its accepted original.
    ReplyFault(
        "rejected", {MODEL: expect_rejected_step("transition_model"), TWIN: Expected("unusable", "", ANSWERS[3])}, {}
    ),
    # A usable answer with an oddity
    build_content_fault("no_usage", MODEL),
    build_content_fault("rerouted", JUDGE),
    build_content_fault("late", TWIN, seconds=0.05),
]
ROWS = [row for fault in FAULTS for row in fault.iter_params()]
