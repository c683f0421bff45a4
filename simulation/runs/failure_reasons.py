"""The causes of failures and other endings, and what people can do about them. Pure functions without queries."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from simulation.models.runs import REASONS

# In the order in which the page shows them.
CAUSES: Mapping[str, str] = {
    "agent": "the agent",
    "simulator": "the transition model",
    "classifier": "the classifier",
    "provider": "a provider",
    "refusal": "a refusal",
    "budget": "the budget",
    "sandbox": "the sandbox",
    "wetbench": "WetBench",
}
_REASONS_OF_CAUSE: Mapping[str, tuple[str, ...]] = {
    "wetbench": (
        "internal",
        "worker_lost",
        "experiment_changed",
        "old_worker",
        "moving",
        "task_changed",
        "unvalidated",
    ),
    "sandbox": ("no_sandbox", "no_sandbox_slot", "sandbox_fault"),
    "simulator": ("cannot_be", "invalid_transition", "no_twin"),
    "classifier": ("no_verdict",),
    "refusal": ("refused",),
    "provider": ("context", "provider_unavailable", "credentials", "bad_request", "rate_limit", "no_slot"),
    "budget": ("budget",),
}
_CAUSE_OF_REASON = {reason: cause for cause, reasons in _REASONS_OF_CAUSE.items() for reason in reasons}
# Endings without a stored reason: the status is enough.
_CAUSE_OF_STATUS = {
    "quit": "agent", "rejected_out": "agent", "truncated": "agent", "unusable": "simulator", "unreadable_out": "agent",
    "out_of_steps": "agent", "out_of_time": "agent", "out_of_money": "agent",
}  # fmt: skip
# Waiting rows are left out, because they continue by themselves.
_ENDED_OR_BLOCKED = ("failed", "blocked", *_CAUSE_OF_STATUS)
_DESCRIPTIONS: Mapping[str, str] = {
    **dict(REASONS),
    "quit": "the agent gave up",
    "rejected_out": "three rejections in a row",
    "truncated": "all steps were used without a submission",
    "unusable": "the twin does not differ, or its error is not described",
    "unreadable_out": "three replies in a row could not be read",
    "out_of_steps": "all steps were used",
    "out_of_time": "all seconds of sandboxes were used",
    "out_of_money": "the episode's own limit of cost was used",
}
_REMEDIES: Mapping[str, str] = {
    "quit": "The agent ended the episode itself. It counts as an attempt without evidence. You need not do anything.",
    "rejected_out": "Three actions in a row were rejected. It counts as an attempt; its last steps show what was rejected.",
    "truncated": "The agent used every step without submitting. It counts as an attempt. You need not do anything.",
    "unusable": "It is stored but excluded from studies. Retry sends the same prompt to the model again.",
    "unreadable_out": "Three replies in a row were no tool call. It counts as an attempt; its last steps show the faults.",
    "out_of_steps": "The agent used every step. It counts as an attempt, and its workspace was graded.",
    "out_of_time": "The agent's commands used all seconds of sandboxes. It counts as an attempt, and its workspace was "
    "graded.",
    "out_of_money": "The agent's calls used the episode's own limit of cost. It counts as an attempt, and its workspace "
    "was graded.",
    "internal": "An error in WetBench itself. Please report it with the lines of the worker's log, then retry.",
    "worker_lost": "Its worker process died three times in a row at the same step, perhaps because it ran out of "
    "memory. Check the worker's log, then retry.",
    "experiment_changed": "The experiment was reloaded after the run was created. Retry uses the current version.",
    "cannot_be": "The transition model returned materials in an impossible state. Retry, or choose another transition model.",
    "invalid_transition": "The transition model's reply could not be parsed, even after the error was sent back to it. "
    "Its calls show each reply. Retry, or choose another transition model.",
    "no_verdict": "The classifier's reply had no usable verdict, even after a second request. The record is stored. "
    "Retry, or choose another classifier.",
    "no_twin": "The model's reply had no usable twin, even after the error was sent back to it. Retry, or create it with "
    "another cast.",
    "refused": "The model declined to answer. This is a separate outcome: it is not retried automatically, and it is "
    "not counted as the agent's failure. The call shows the prompt; another model may answer it.",
    "context": "The prompt exceeds the model's context. Choose a shorter history (window or summary) or a model with "
    "a larger context, and start a new run.",
    "provider_unavailable": "The provider failed or did not answer in every attempt. Check its status page and the "
    "error of the call, then retry.",
    "credentials": "The key is missing, wrong, or without credit. Set it in the workers' environment or top up the "
    "account, restart the workers, then press Try again: it continues at the same step.",
    "bad_request": "The provider did not accept the request, often because of a wrong model ID or an option that the "
    "model does not support. The call shows the provider's message. Correct the model, then press Try again: the "
    "definition of a model that has not answered yet in this run is reloaded.",
    "budget": "The next call could have exceeded the run's budget. Nothing is lost: continue the run with a larger "
    "budget, and it continues at the same step.",
    "rate_limit": "The provider requested a pause. It continues automatically.",
    "no_slot": "The rate limit is reached: as many calls are under way as it allows. It continues automatically.",
    "old_worker": "A newer version of WetBench requested it. Restart the workers with that version; it then continues automatically.",
    "no_sandbox": "No worker of this site can run sandboxes. The command sandbox_check shows what is missing "
    "(docs/sandbox.md). Then press Try again: it continues at the same step.",
    "no_sandbox_slot": "As many sandboxes run as WETBENCH_SANDBOXES allows. It continues automatically.",
    "sandbox_fault": "The sandbox could not start, or something outside stopped it, four times in a row. It is not the "
    "agent's fault. Run the command sandbox_check, then retry.",
    "task_changed": "The task was loaded in another version after the run was created. Create a new run with its masks.",
    "unvalidated": "Nobody has shown on this machine that the mask can be solved and fails while it is masked. "
    "The command draw_masks with --validate does it.",
    "moving": "New ratings by people or models arrived each time it was computed. It continues automatically when no more "
    "arrive.",
}


class FailureGroup(NamedTuple):
    """Rows that ended or are blocked for one reason. `key` is the reason, or the status if no reason is stored."""

    cause: str
    key: str
    number: int

    @property
    def cause_words(self) -> str:
        return CAUSES[self.cause]

    @property
    def description(self) -> str:
        return _DESCRIPTIONS[self.key]

    @property
    def remedy(self) -> str:
        return _REMEDIES[self.key]


def find_cause(status: str, reason: str) -> str:
    """Return a key of CAUSES, or "" if nothing went wrong. A reason is more specific than a status."""
    return _CAUSE_OF_REASON.get(reason) or _CAUSE_OF_STATUS.get(status, "")


def describe_reason(status: str, reason: str) -> str:
    """Return the reason for people, or "" if there is none."""
    return _DESCRIPTIONS.get(get_reason_key(status, reason), "")


def describe_remedy(status: str, reason: str) -> str:
    """Return what the ending means and what to do about it, or "" if nothing went wrong."""
    return _REMEDIES.get(get_reason_key(status, reason), "")


def group_failures(counts: Iterable[tuple[str, str, int]]) -> list[FailureGroup]:
    """Group (status, reason, number) of rows in the order of CAUSES. Successful and waiting rows are left out."""
    numbers: Counter[tuple[str, str]] = Counter()
    for status, reason, number in counts:
        if status in _ENDED_OR_BLOCKED and (cause := find_cause(status, reason)):
            numbers[cause, get_reason_key(status, reason)] += number
    order = list(CAUSES)
    groups = [FailureGroup(cause, key, number) for (cause, key), number in numbers.items()]
    return sorted(groups, key=lambda group: (order.index(group.cause), -group.number, group.key))


def get_reason_key(status: str, reason: str) -> str:
    """Return the reason, or the status if no reason is stored."""
    return reason if reason in _CAUSE_OF_REASON else status
