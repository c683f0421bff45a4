"""What a row becomes under every fault of a reply: the table of tests/simulation/test_hostile_replies.py."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

AGENT, MODEL, JUDGE, TWIN = "agent", "transition", "verdict", "twin"
BOTH = (AGENT, MODEL)  # one asks in OpenAI's dialect, the other in Anthropic's
ALL = (AGENT, MODEL, JUDGE, TWIN)


class Becomes(NamedTuple):
    """A row's state after the fault, the calls it took, and what became of the step ("" none, accepted, or by whom rejected)."""

    status: str
    reason: str = ""
    calls: tuple[str, ...] = ("answered",)
    step: str = ""


ANSWERS = tuple(("answered",) * number for number in range(4))
TAKEN = {
    AGENT: Becomes("running"),  # the action is chosen, its outcome is asked next
    MODEL: Becomes("running", step="accepted"),
    JUDGE: Becomes("submitted"),
    TWIN: Becomes("done"),
}
UNUSABLE = {MODEL: "invalid_transition", JUDGE: "no_verdict", TWIN: "no_twin"}


def waits(kind: str, reason: str = "provider_unavailable") -> Becomes:
    """One call, which failed and is sent again by and by."""
    return Becomes("waiting", reason, (f"failed {kind}",))


def held(kind: str, reason: str) -> Becomes:
    """One call, and none after it until a person has seen to it."""
    return Becomes("blocked", reason, (f"failed {kind}",))


def rejected(by: str, turns: int = 1) -> Becomes:
    """A step of the agent's that came to nothing; the model was asked so many times."""
    return Becomes("running", "", ANSWERS[turns], by)


def fails(role: str, turns: int) -> Becomes:
    """No answer that can be used in so many turns. Never the agent's failure."""
    return Becomes("failed", UNUSABLE[role], ANSWERS[turns])


class Fault(NamedTuple):
    """A fault as the local server is told it, and what it makes of each role that it strikes."""

    name: str
    becomes: dict[str, Becomes]
    rule: dict[str, Any]
    stored: bool = False  # whether what a database keeps decides

    def rows(self) -> Iterator[Any]:
        told = "-".join([self.name, *(f"{name}={value}" for name, value in self.rule.items())])
        marks = [pytest.mark.both_databases] if self.stored else []
        for role, becomes in self.becomes.items():
            yield pytest.param(role, {"fault": self.name, **self.rule}, becomes, id=f"{role}-{told}", marks=marks)


def alike(name: str, becomes: Becomes, roles: tuple[str, ...] = BOTH, **rule: Any) -> Fault:
    """Whoever is struck."""
    return Fault(name, dict.fromkeys(roles, becomes), rule)


def written(name: str, agent: Becomes | None = None, stored: bool = False, turns: Any = 0, **rule: Any) -> Fault:
    """What a model writes: `turns` lead to nothing, by role or for all; 0 where it is read all the same."""
    by_role = turns if isinstance(turns, dict) else dict.fromkeys(UNUSABLE, turns)
    becomes = {role: fails(role, count) if count else TAKEN[role] for role, count in by_role.items()}
    return Fault(name, {AGENT: agent or TAKEN[AGENT], **becomes}, rule, stored)


REPAIRED = {MODEL: 3, JUDGE: 2, TWIN: 3}  # turns: the question and its repairs
CUT = rejected("parser", 3)  # said three times in the same words

FAULTS = [
    # The provider
    alike("rate_limit", waits("rate_limit", "rate_limit")),
    alike("rate_limit", waits("rate_limit", "rate_limit"), ALL, retry_after=30),
    alike("overloaded_529", waits("overloaded", "rate_limit"), ALL),
    alike("unavailable_503", waits("overloaded", "rate_limit")),
    alike("server_500", waits("server"), ALL),
    alike("html", waits("garbled")),
    alike("html", waits("server"), status=502),
    alike("error_in_200", waits("overloaded", "rate_limit"), ALL),
    alike("error_in_200", waits("rate_limit", "rate_limit"), status=429),
    alike("no_choices", waits("garbled")),
    alike("cut_json", waits("garbled")),
    alike("context_400", Becomes("failed", "context", ("failed context",)), ALL),
    alike("bad_request_400", held("bad_request", "bad_request"), ALL),
    alike("not_found_404", held("bad_request", "bad_request")),
    alike("unauthorized_401", held("credentials", "credentials"), ALL),
    alike("forbidden_403", held("credentials", "credentials")),
    alike("credits_402", held("credits", "credentials"), ALL),
    # The wire
    alike("reset", waits("connection")),
    alike("reset", waits("connection"), variant="half"),
    alike("close", waits("connection")),
    alike("cut_body", waits("connection")),
    alike("hang", waits("timeout")),
    alike("drip", waits("timeout"), (AGENT,), seconds=0.1),
    alike("slow_headers", waits("timeout"), (MODEL,), seconds=0.1),
    alike("gzip_bomb", waits("garbled")),
    Fault("huge_2mb", dict.fromkeys(BOTH, waits("garbled")), {"size": 5 * 1024 * 1024}, stored=True),
    # An answer that is none
    alike("refusal", Becomes("failed", "refused", ("refused",)), ALL),
    alike("refusal", Becomes("failed", "refused", ("refused",)), (AGENT,), variant="content_filter"),
    written("empty", CUT, turns=3),
    Fault("empty", {AGENT: CUT, JUDGE: fails(JUDGE, 3)}, {"variant": "null"}),
    Fault("empty", {AGENT: CUT, MODEL: fails(MODEL, 3)}, {"variant": "spaces"}),
    written("thinking_only", CUT, turns=3),
    Fault("thinking_only", {AGENT: CUT, MODEL: fails(MODEL, 3)}, {"variant": "max_tokens"}),
    written("truncated", CUT, turns=3),
    # Anthropic has a word of its own for a context that is full; the others call it a length
    Fault("context_stop", {AGENT: CUT, MODEL: Becomes("failed", "context")}, {}),
    # An answer in another form than the one asked for
    written("fenced"),
    written("chatter"),
    written("two_objects", rejected("parser"), turns={MODEL: 0, JUDGE: 2, TWIN: 0}),
    written("wrong_enum", rejected("catalogue"), turns=REPAIRED),
    written("missing_field", rejected("parser"), turns=REPAIRED),
    written("unknown_field", rejected("catalogue")),
    written("nan", rejected("catalogue"), stored=True, turns=REPAIRED),
    written("deep", rejected("catalogue"), stored=True, turns=REPAIRED),
    written("huge_2mb", rejected("parser"), stored=True, turns=3),
    written("nul", stored=True),
    written("bad_utf8", stored=True),
    written("injection", stored=True),
    alike("no_secret", Becomes("unusable"), (TWIN,)),
    # An answer that can be used, and that is odd beside it
    written("no_usage"),
    written("rerouted"),
    Fault("late", TAKEN, {"seconds": 0.05}),
]
ROWS = [row for fault in FAULTS for row in fault.rows()]
