"""Decide which parameters a model accepts: the fields that are sent, and why the others are not."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from simulation.providers.base import Params, WireOptions

RESERVED_FIELDS = {"model", "messages", "system", "stream", "n", "max_tokens", "max_completion_tokens", "temperature"}


@dataclass
class ChosenOptions:
    """The parameters that are sent, under the configuration's names, and those that are dropped."""

    effective: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def has_thinking(self) -> bool:
        """Whether this request turns the model's thinking on."""
        effort, budget = self.effective.get("effort"), self.effective.get("thinking_budget")
        return bool(budget) or effort not in (None, "none") or "thinking" in self.effective


def check_options(options: WireOptions) -> None:
    """Raise ValueError for an extra field that would contradict the call log."""
    if reserved := sorted(RESERVED_FIELDS & set(options.extra_body)):
        raise ValueError(
            f"options.extra_body must not contain {', '.join(reserved)}: these are set by the configuration"
        )


def choose_options(
    params: Params, options: WireOptions, budget_floor: int, hottest: Decimal, takes_budget: bool
) -> ChosenOptions:
    """Return every parameter as sent, or dropped with a reason. `budget_floor` is the smallest possible thinking budget."""
    choice = ChosenOptions()
    _choose_length(choice, params, options)
    _choose_budget(choice, params, options, budget_floor, takes_budget)
    _choose_effort(choice, params, options)
    if options.thinking == "adaptive" and (params.thinking_budget or params.effort):
        choice.effective["thinking"] = "adaptive"
    _choose_temperature(choice, params, options, hottest)
    return choice


def _choose_length(choice: ChosenOptions, params: Params, options: WireOptions) -> None:
    choice.effective["max_tokens"] = min(params.max_tokens, options.output_limit or params.max_tokens)
    if choice.effective["max_tokens"] < params.max_tokens:
        choice.dropped["max_tokens"] = f"{params.max_tokens} asked; the model writes at most {options.output_limit}"


def _choose_budget(choice: ChosenOptions, params: Params, options: WireOptions, floor: int, takes_budget: bool) -> None:
    if params.thinking_budget is None:
        return
    if reason := _budget_problem(params.thinking_budget, options, choice.effective["max_tokens"], floor, takes_budget):
        choice.dropped["thinking_budget"] = reason
    else:
        choice.effective["thinking_budget"] = params.thinking_budget


def _budget_problem(budget: int, options: WireOptions, max_tokens: int, floor: int, takes_budget: bool) -> str:
    """Return why a thinking budget cannot be sent, or ""."""
    if options.thinking != "budget":
        return _THINKING_REASONS[options.thinking]
    if not takes_budget:
        return "this provider's interface has no field for it"
    if budget < floor:
        return f"{budget} asked; the least is {floor}"
    return f"{budget} asked; it must be below max_tokens, {max_tokens}" if budget >= max_tokens else ""


def _choose_effort(choice: ChosenOptions, params: Params, options: WireOptions) -> None:
    if not params.effort:
        return
    if options.thinking not in ("effort", "adaptive"):
        choice.dropped["effort"] = _THINKING_REASONS[options.thinking]
    elif options.effort_levels and params.effort not in options.effort_levels:
        choice.dropped["effort"] = f"{params.effort} asked; it takes {', '.join(options.effort_levels)}"
    else:
        choice.effective["effort"] = params.effort


def _choose_temperature(choice: ChosenOptions, params: Params, options: WireOptions, hottest: Decimal) -> None:
    if params.temperature is None:
        return
    if not options.temperature:
        choice.dropped["temperature"] = "the model takes none"
    elif (choice.has_thinking or options.thinking == "always") and not options.temperature_with_thinking:
        choice.dropped["temperature"] = "the model takes none while it thinks"
    elif not 0 <= params.temperature <= hottest:
        choice.dropped["temperature"] = f"{params.temperature} asked; it takes 0 to {hottest}"
    else:
        choice.effective["temperature"] = str(params.temperature)


_THINKING_REASONS = {
    "none": "the model does not think aloud before it answers",
    "budget": "the model takes a number of tokens (thinking_budget)",
    "adaptive": "the model decides by itself how long it thinks",
    "effort": "the model takes a word (effort)",
    "always": "the model always thinks; it cannot be set",
}
