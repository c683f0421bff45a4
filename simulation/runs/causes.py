"""Who or what caused an ending, and what to do about it. No query."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from simulation.models.orders import REASONS

# In the order in which a page lists them.
CAUSES: Mapping[str, str] = {
    "agent": "the agent",
    "simulator": "the transition model",
    "classifier": "the classifier",
    "provider": "a provider",
    "refusal": "a refusal",
    "budget": "the budget",
    "wetbench": "WetBench",
}
_BY_REASON: Mapping[str, str] = {
    "internal": "wetbench",
    "worker_lost": "wetbench",
    "experiment_changed": "wetbench",
    "cannot_be": "simulator",
    "invalid_transition": "simulator",
    "no_twin": "simulator",
    "no_verdict": "classifier",
    "refused": "refusal",
    "context": "provider",
    "provider_unavailable": "provider",
    "credentials": "provider",
    "bad_request": "provider",
    "rate_limit": "provider",
    "no_slot": "provider",
    "old_worker": "wetbench",
    "moving": "wetbench",
    "budget": "budget",
}
# Endings that no reason is stored for: the status says it all.
_BY_STATUS: Mapping[str, str] = {
    "quit": "agent",
    "rejected_out": "agent",
    "truncated": "agent",
    "unusable": "simulator",
}
# Rows that ended badly or are held; a row that waits goes on by itself.
_OVER = ("failed", "blocked", *_BY_STATUS)
_WORDS: Mapping[str, str] = {
    **dict(REASONS),
    "quit": "the agent gave up",
    "rejected_out": "three rejections running",
    "truncated": "all steps used without a submission",
    "unusable": "a twin that does not differ, or does not say what is wrong",
}
_HELP: Mapping[str, str] = {
    "quit": "The agent ended the episode itself. It counts as an attempt without evidence; nothing is to be done.",
    "rejected_out": "Three actions in a row were refused. It counts as an attempt; its last steps say what was refused.",
    "truncated": "The agent used every step without submitting. It counts as an attempt; nothing is to be done.",
    "unusable": "It is kept and left out of studies. Retry asks the model again, under the same prompt.",
    "internal": "An error in WetBench itself. Please report it with the text shown; then retry.",
    "worker_lost": "The process that played it died three times in a row at the same step, perhaps for want of memory. "
    "Look at the worker's log, then retry.",
    "experiment_changed": "The experiment was loaded anew after the order. Retry plays it as it is now.",
    "cannot_be": "The transition model handed back what no bench can hold. Retry, or choose another transition model.",
    "invalid_transition": "The transition model's reply could not be read, even after it was told what was wrong with "
    "it. Its calls show each reply. Retry, or choose another transition model.",
    "no_verdict": "The classifier's reply held no readable verdict, even after it was asked again. The record is kept. "
    "Retry, or choose another classifier.",
    "no_twin": "The model's reply held no readable twin, even after it was told what was wrong with it. Retry, or let "
    "another cast make it.",
    "refused": "The model declined to answer. That is an outcome of its own: it is never sent again by itself, and it is "
    "not the agent's failure. The call shows what was asked; another model may answer.",
    "context": "The prompt is longer than the model takes. Choose a shorter history (window or summary) or a model with "
    "a larger context, and order anew.",
    "provider_unavailable": "The provider failed or stayed silent through every further attempt. Look at its status "
    "page and at the call's error, then retry.",
    "credentials": "The key is missing, wrong, or without credit. Set it in the workers' environment or top up the "
    "account, restart the workers, then press Try again: it goes on at the same step.",
    "bad_request": "The provider did not accept the request: often a wrong model id or an option that the model does "
    "not take. The call shows the provider's words. Correct the model, then press Try again: a model that has not "
    "answered yet in this run is read anew.",
    "budget": "The next call could have gone over the run's budget. Nothing is lost: continue the run with a larger "
    "budget and it goes on at the same step.",
    "rate_limit": "The provider asked to wait. It goes on by itself.",
    "no_slot": "As many calls are under way as the provider's limit allows. It goes on by itself.",
    "old_worker": "A newer version of WetBench asked for it. Restart the workers with that version; it goes on by itself.",
    "moving": "Ratings, or what machines say of the items, came in each time it was computed. It goes on by itself when "
    "they pause.",
}


class Group(NamedTuple):
    """So many rows that ended or are held for one reason. `key` is the reason, or the status where none is stored."""

    cause: str
    key: str
    number: int

    @property
    def cause_words(self) -> str:
        return CAUSES[self.cause]

    @property
    def words(self) -> str:
        return _WORDS[self.key]

    @property
    def help(self) -> str:
        return _HELP[self.key]


def cause(status: str, reason: str) -> str:
    """A key of CAUSES; "" where nothing went wrong. A reason says more than a status."""
    return _BY_REASON.get(reason) or _BY_STATUS.get(status, "")


def words(status: str, reason: str) -> str:
    """The reason in words; "" where there is none."""
    return _WORDS.get(key(status, reason), "")


def help(status: str, reason: str) -> str:  # the contract's name
    """What it means and what to do; "" where nothing went wrong."""
    return _HELP.get(key(status, reason), "")


def grouped(counted: Iterable[tuple[str, str, int]]) -> list[Group]:
    """(status, reason, number) of rows, as groups in the order of CAUSES; what went well and what only waits is left out."""
    found: dict[tuple[str, str], int] = {}
    for status, reason, number in counted:
        if status in _OVER and (caused := cause(status, reason)):
            place = caused, key(status, reason)
            found[place] = found.get(place, 0) + number
    order = list(CAUSES)
    groups = [Group(caused, why, number) for (caused, why), number in found.items()]
    return sorted(groups, key=lambda group: (order.index(group.cause), -group.number, group.key))


def key(status: str, reason: str) -> str:
    """The reason, or the status where none is stored."""
    return reason if reason in _BY_REASON else status
