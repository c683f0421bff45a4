"""Validate and complete one cast of a data file: who runs each role."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.casts.model_entries import check_count, check_name, check_text, format_problem
from simulation.lab import validation

ROLES = ("agent", "transition_model", "evidence_classifier")
PLAYS = {
    "agent": ("offline/protocol", "offline/protocol-lapses", "offline/random"),
    "transition_model": ("offline/rules",),
    "evidence_classifier": ("offline/checklist",),
}
SCAFFOLDS = ("plain", "react", "plan")
HISTORIES = ("full", "window", "summary")
EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh", "max")
MIN_THINKING_TOKENS = 1024  # tokens; Anthropic's minimum
_FIELDS = {"name", "description", "panel", "successor_of", *ROLES}
_PARAMS = {"max_tokens", "temperature", "thinking_budget", "effort"}

Models = Mapping[str, Mapping[str, Any]]  # every known model by name, as in its data file


def check_cast(data: Mapping[str, Any], models: Models) -> list[str]:
    """Return every problem of one cast as "field: what is wrong and what is allowed"."""
    problems = validation.find_unknown_fields(data, _FIELDS) + check_name(data) + check_text(data, "description", 2000)
    name = data.get("name")
    # These names are taken: a person as agent is "human", and rule-based casts begin with "offline".
    if isinstance(name, str) and (name == "human" or name.startswith("offline")):
        problems.append(format_problem("name", name, "a name that is neither human nor begins with offline"))
    for role in ROLES:
        problems += [f"{role}{problem}" for problem in _check_role(data.get(role), role, models)]
    return problems + _check_panel(data, models) + _check_successors(data, models)


def complete_cast(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same cast with all defaults written out."""
    agent = _complete_role(data["agent"])
    if "model" in agent:
        # Defaults are written out when the file is loaded, so that a later change of a default does not change a stored
        # cast.
        agent = {**agent, "scaffold": agent.get("scaffold", "react"), "history": agent.get("history", {"kind": "full"})}
    others = {role: _complete_role(data[role]) for role in ROLES[1:]}
    panel = [_complete_role(player) for player in data.get("panel", ())]
    completed = {"name": data["name"], "description": data["description"], "agent": agent, **others, "panel": panel}
    # Left out when empty, because the configuration of casts without it must keep its digest.
    return completed | ({"successor_of": dict(data["successor_of"])} if data.get("successor_of") else {})


def list_roles(cast: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return every role of a valid cast: agent, transition model, classifier, panel."""
    return [*(cast[role] for role in ROLES), *cast.get("panel", ())]


def role_name(player: Mapping[str, Any]) -> str:
    return str(player.get("model") or player["plays"])


def _complete_role(player: Mapping[str, Any]) -> dict[str, Any]:
    if "plays" in player:
        return dict(player)
    return {**player, "params": {"temperature": None, "thinking_budget": None, "effort": "", **player["params"]}}


def _check_panel(data: Mapping[str, Any], models: Models) -> list[str]:
    """Check the panel. Verdicts are stored by classifier, so no classifier may judge the same episode twice."""
    panel = data.get("panel", [])
    if not isinstance(panel, list):
        return [format_problem("panel", panel, "a list of players")]
    problems = []
    for index, player in enumerate(panel):
        problems += [f"panel[{index}]{problem}" for problem in _check_role(player, "evidence_classifier", models)]
    if problems or not isinstance(data.get("evidence_classifier"), Mapping):
        return problems
    # Compared by the name under which a verdict is stored.
    judges = [str(p.get("model") or p.get("plays")) for p in (data["evidence_classifier"], *panel)]
    return [f"panel: {name!r} judges twice" for name in sorted(set(judges)) if judges.count(name) > 1]


def _check_successors(data: Mapping[str, Any], models: Models) -> list[str]:
    """Check `successor_of`: models of the cast, each with the model of the paper that it replaces."""
    successors = data.get("successor_of", {})
    if not isinstance(successors, Mapping):
        return [
            format_problem(
                "successor_of", successors, 'an object like {"a model of the cast": "the model it succeeds"}'
            )
        ]
    own_models = {player.get("model") for player in _list_valid_roles(data)}
    problems = []
    for name, original in successors.items():
        if name not in own_models:
            problems.append(f"successor_of.{name}: no role of the cast uses this model")
        if not isinstance(original, str) or original not in models or original == name:
            problems.append(format_problem(f"successor_of.{name}", original, "the name of another known model"))
    return problems


def _list_valid_roles(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the roles of a cast that are JSON objects. The rest of the cast may be invalid."""
    panel = data.get("panel")
    entries_ = [*(data.get(role) for role in ROLES), *(panel if isinstance(panel, list) else ())]
    return [player for player in entries_ if isinstance(player, Mapping)]


def _check_role(player: Any, role: str, models: Models) -> list[str]:
    """Return the problems of one role. Each begins with the rest of its path: ".field: ..." or ": ..."."""
    # Exactly one of the two: rules and a model for the same role would leave open who answers.
    if not isinstance(player, Mapping) or ("plays" in player) == ("model" in player):
        return [format_problem("", player, 'an object with either "plays" or "model"')]
    if "plays" in player:
        allowed = PLAYS[role]
        problems = validation.find_unknown_fields(player, {"plays"})
        if player["plays"] not in allowed:
            problems.append(format_problem("plays", player["plays"], ", ".join(allowed)))
        return [f".{problem}" for problem in problems]
    return [f".{problem}" for problem in _check_model_role(player, role, models)]


def _check_model_role(player: Mapping[str, Any], role: str, models: Models) -> list[str]:
    extra_fields = {"scaffold", "history"} if role == "agent" else set()
    problems = validation.find_unknown_fields(player, {"model", "params", *extra_fields})
    name = player["model"]
    if not isinstance(name, str) or name not in models:
        return [*problems, format_problem("model", name, ", ".join(sorted(models)) or "no model is known")]
    params = player.get("params")
    if not isinstance(params, Mapping):
        return [*problems, format_problem("params", params, "an object with max_tokens")]
    problems += [f"params.{problem}" for problem in _check_params(params, models[name])]
    if player.get("scaffold", "react") not in SCAFFOLDS:
        problems.append(format_problem("scaffold", player["scaffold"], ", ".join(SCAFFOLDS)))
    return problems + _check_history(player.get("history", {"kind": "full"}))


def _check_params(params: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Check the parameters against the model's limits.

    Parameters that the model does not accept are dropped later, and the drop is recorded.
    """
    limit = model.get("options", {}).get("output_limit")
    # Any limit is accepted if the model declares none.
    max_output = limit if isinstance(limit, int) and limit > 0 else 10**6
    # The upper limit is that of this model; the provider would reject a longer reply only when the first call is sent.
    problems = validation.find_unknown_fields(params, _PARAMS) + check_count(
        params, "max_tokens", 1, max_output, empty=False
    )
    if not problems:
        # Thinking is part of the reply's tokens, so it must leave room for an answer.
        problems += check_count(
            params, "thinking_budget", MIN_THINKING_TOKENS, max(params["max_tokens"] - 1, MIN_THINKING_TOKENS)
        )
    if params.get("temperature") is not None and not _is_temperature(params["temperature"]):
        problems.append(
            format_problem("temperature", params["temperature"], 'a number from 0 to 2 in quotes, like "0.7", or null')
        )
    if params.get("effort", "") not in EFFORTS:
        problems.append(format_problem("effort", params["effort"], ", ".join(word or "empty" for word in EFFORTS)))
    return problems


def _check_history(history: Any) -> list[str]:
    if not isinstance(history, Mapping) or history.get("kind") not in HISTORIES:
        return [format_problem("history", history, f'an object with "kind": {", ".join(HISTORIES)}')]
    problems = validation.find_unknown_fields(history, {"kind", "k"})
    # Only a window and a summary have a number of steps.
    if history["kind"] != "full":
        problems += check_count(history, "k", 1, 1000, empty=False)
    return [f"history.{problem}" for problem in problems]


def _is_temperature(written: Any) -> bool:
    try:
        # As text, because JSON numbers are binary fractions and the request needs the exact digits.
        value = Decimal(written) if isinstance(written, str) else Decimal("NaN")
    except InvalidOperation:
        return False
    return value.is_finite() and 0 <= value <= 2
