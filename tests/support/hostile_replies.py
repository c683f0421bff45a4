"""The expected state of a row after every fault of a reply: the table of tests/simulation/calls/test_hostile_replies.py."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

AGENT, MODEL, JUDGE, TWIN = "agent", "transition", "verdict", "twin"
BOTH = (AGENT, MODEL)  # one uses OpenAI's API, the other Anthropic's
ALL = (AGENT, MODEL, JUDGE, TWIN)


class Becomes(NamedTuple):
    """A row's state after the fault, the calls made, and the result of the step ("" for none, accepted, or who rejected it)."""

    status: str
    reason: str = ""
    calls: tuple[str, ...] = ("answered",)
    step: str = ""


ANSWERS = tuple(("answered",) * number for number in range(4))
TAKEN = {
    AGENT: Becomes("running"),  # the action is chosen; the outcome is requested next
    MODEL: Becomes("running", step="accepted"),
    JUDGE: Becomes("submitted"),
    TWIN: Becomes("done"),
}
UNUSABLE = {MODEL: "invalid_transition", JUDGE: "no_verdict", TWIN: "no_twin"}


def waits(kind: str, reason: str = "provider_unavailable") -> Becomes:
    """Expect one failed call that will be sent again later."""
    return Becomes("waiting", reason, (f"failed {kind}",))


def held(kind: str, reason: str) -> Becomes:
    """Expect one failed call, and none after it until a person has acted."""
    return Becomes("blocked", reason, (f"failed {kind}",))


def rejected(by: str, turns: int = 1) -> Becomes:
    """Expect a rejected step of the agent after `turns` calls."""
    return Becomes("running", "", ANSWERS[turns], by)


def fails(role: str, turns: int) -> Becomes:
    """Expect that no usable answer came within `turns`. This is never the agent's failure."""
    return Becomes("failed", UNUSABLE[role], ANSWERS[turns])


class Fault(NamedTuple):
    """A fault as the local server is configured for it, and the expected result for each role it affects."""

    name: str
    becomes: dict[str, Becomes]
    rule: dict[str, Any]
    stored: bool = False  # whether the result depends on the database

    def rows(self) -> Iterator[Any]:
        label = "-".join([self.name, *(f"{name}={value}" for name, value in self.rule.items())])
        marks = [pytest.mark.both_databases] if self.stored else []
        for role, becomes in self.becomes.items():
            yield pytest.param(role, {"fault": self.name, **self.rule}, becomes, id=f"{role}-{label}", marks=marks)


def alike(name: str, becomes: Becomes, *roles: str, **rule: Any) -> Fault:
    """Return a fault with the same result for all roles. One API is enough for a fault of the transport: both use the same HTTP client."""
    return Fault(name, dict.fromkeys(roles, becomes), rule)


def written(
    name: str, *roles: str, agent: Becomes | None = None, stored: bool = False, turns: Any = 0, **rule: Any
) -> Fault:
    """Return a fault in what a model writes: `turns` unusable answers, by role or for all; 0 if the answer is usable all the same."""
    by_role = turns if isinstance(turns, dict) else dict.fromkeys(UNUSABLE, turns)
    becomes = {role: fails(role, by_role[role]) if by_role.get(role) else TAKEN[role] for role in roles}
    return Fault(name, becomes | ({AGENT: agent} if agent and AGENT in roles else {}), rule, stored)


REPAIRED = {MODEL: 3, JUDGE: 2, TWIN: 3}  # turns: the question and its repairs
CUT = rejected("parser", 3)  # the same unusable answer three times

REFUSED = Becomes("failed", "refused", ("refused",))
FAULTS = [
    # The provider
    alike("rate_limit", waits("rate_limit", "rate_limit"), AGENT),
    alike("rate_limit", waits("rate_limit", "rate_limit"), MODEL, TWIN, retry_after=30),
    alike("overloaded_529", waits("overloaded", "rate_limit"), MODEL),
    alike("unavailable_503", waits("overloaded", "rate_limit"), AGENT),
    alike("server_500", waits("server"), *ALL),
    alike("html", waits("garbled"), MODEL),
    alike("html", waits("server"), AGENT, status=502),
    alike("error_in_200", waits("overloaded", "rate_limit"), *BOTH),
    alike("error_in_200", waits("rate_limit", "rate_limit"), JUDGE, status=429),
    alike("no_choices", waits("garbled"), AGENT),
    alike("cut_json", waits("garbled"), MODEL),
    alike("context_400", Becomes("failed", "context", ("failed context",)), *BOTH),
    alike("bad_request_400", held("bad_request", "bad_request"), JUDGE),
    alike("not_found_404", held("bad_request", "bad_request"), MODEL),
    alike("unauthorized_401", held("credentials", "credentials"), AGENT, TWIN),
    alike("forbidden_403", held("credentials", "credentials"), MODEL),
    alike("credits_402", held("credits", "credentials"), AGENT),
    # The wire
    alike("reset", waits("connection"), MODEL),
    alike("reset", waits("connection"), AGENT, variant="half"),
    alike("close", waits("connection"), MODEL),
    alike("cut_body", waits("connection"), AGENT),
    alike("hang", waits("timeout"), MODEL),
    alike("drip", waits("timeout"), AGENT, seconds=0.1),
    alike("slow_headers", waits("timeout"), MODEL, seconds=0.1),
    alike("gzip_bomb", waits("garbled"), AGENT),
    Fault("huge_2mb", {MODEL: waits("garbled")}, {"size": 5 * 1024 * 1024}, stored=True),
    # No answer in the reply
    alike("refusal", REFUSED, *ALL),
    alike("refusal", REFUSED, AGENT, variant="content_filter"),
    written("empty", *BOTH, JUDGE, agent=CUT, turns=3),
    written("empty", JUDGE, turns=3, variant="null"),
    written("empty", MODEL, turns=3, variant="spaces"),
    written("thinking_only", AGENT, TWIN, agent=CUT, turns=3),
    written("thinking_only", MODEL, turns=3, variant="max_tokens"),
    written("truncated", *BOTH, TWIN, agent=CUT, turns=3),
    # Anthropic has its own stop reason for a full context; the others report a length limit.
    Fault("context_stop", {AGENT: CUT, MODEL: Becomes("failed", "context")}, {}),
    # An answer in another form than requested
    written("fenced", AGENT, JUDGE),
    written("chatter", MODEL),
    written("two_objects", *BOTH, JUDGE, agent=rejected("parser"), turns={JUDGE: 2}),
    written("wrong_enum", *ALL, agent=rejected("catalogue"), turns=REPAIRED),
    written("missing_field", *BOTH, agent=rejected("parser"), turns=REPAIRED),
    written("unknown_field", *BOTH, agent=rejected("catalogue")),
    written("nan", *BOTH, agent=rejected("catalogue"), stored=True, turns=REPAIRED),
    written("deep", *BOTH, agent=rejected("catalogue"), stored=True, turns=REPAIRED),
    written("huge_2mb", *BOTH, agent=rejected("parser"), stored=True, turns=3),
    written("nul", *BOTH, JUDGE, stored=True),
    written("bad_utf8", *BOTH, stored=True),
    written("injection", *ALL, stored=True),
    alike("no_secret", Becomes("unusable"), TWIN),
    # Valid for an outcome; a rejected twin could be distinguished from its accepted original.
    Fault("rejected", {MODEL: rejected("transition_model"), TWIN: Becomes("unusable", "", ANSWERS[3])}, {}),
    # A usable answer with an oddity
    written("no_usage", MODEL),
    written("rerouted", JUDGE),
    written("late", TWIN, seconds=0.05),
]
ROWS = [row for fault in FAULTS for row in fault.rows()]
