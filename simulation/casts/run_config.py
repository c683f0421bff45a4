"""The run configuration, frozen as JSON when a run is created: who runs each role, with which models and prompts.

A laboratory cast has an agent, a transition model and classifiers. A code cast (kind "code") has an agent that edits code, and a helper.

The rule-based casts are declared here too, so that a page can list them without loading what runs them (`casting`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.providers import Endpoint, connections
from simulation.providers.base import PROVIDERS, Params, WireOptions
from simulation.replication.values import CodeArm
from wetbench_site.text import hash_json

PERSON = "person"
ROLES = ("agent", "transition_model", "evidence_classifier")
FIXED = "fixed"  # the scaffold of agents that edit code without tools of their choice
CODE = "code"  # `kind` of a code cast; laboratory casts have none
SCRIPTED_VARIABLE = "SCRIPTED_SERVER_URL"  # address of this process's scripted server; set by `make paper`
SCRIPTED_ALONE = "only the scripted server of `make paper` answers this run"


@dataclass(frozen=True)
class RoleConfig:
    """Who runs a role: rules or a person (`plays`), or a language model with its parameters."""

    plays: str = ""
    model: str = ""
    params: Params = field(default_factory=lambda: Params(max_tokens=4096))
    scaffold: str = "react"
    history: Mapping[str, Any] = field(default_factory=lambda: {"kind": "full"})
    tools: tuple[str, ...] = ()  # of an agent that edits code

    @property
    def name(self) -> str:
        return self.model or self.plays

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RoleConfig":
        # A player without a model has no other fields.
        if "plays" in data:
            return cls(plays=data["plays"])
        params = {**data["params"]}
        if params.get("temperature") is not None:
            # Through text, because a float would add digits.
            params["temperature"] = Decimal(str(params["temperature"]))
        return cls(
            model=data["model"],
            params=Params(**params),
            scaffold=data.get("scaffold", "react"),
            history=data.get("history", {"kind": "full"}),
            tools=tuple(data.get("tools", ())),
        )


@dataclass(frozen=True)
class RunConfig:
    """A parsed run configuration."""

    agent: RoleConfig
    transition_model: RoleConfig
    classifiers: tuple[RoleConfig, ...]  # the first one's verdict ends the episode; the others are the panel
    models: Mapping[str, Mapping[str, Any]]
    prompt_sha256: str
    rater: RoleConfig | None = None  # model rater of a study; such a configuration has no other roles
    scripted: bool = False  # a scripted server answers instead of the models; no provider is called
    helper: RoleConfig | None = None  # of a code cast: answers the tools edit_file and understand_file

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunConfig":
        cast = data["cast"]
        scripted = bool(cast.get("scripted"))
        if "rater" in cast:
            rater = RoleConfig.from_json(cast["rater"])
            return cls(
                RoleConfig(),
                RoleConfig(),
                (),
                data["models"],
                data.get("prompt_set", {}).get("sha256", ""),
                rater,
                scripted,
            )
        if is_code_cast(cast):
            return cls(
                RoleConfig.from_json(cast["agent"]),
                RoleConfig(),
                (),
                data["models"],
                data.get("prompt_set", {}).get("sha256", ""),
                scripted=scripted,
                helper=RoleConfig.from_json(cast["helper"]) if cast.get("helper") else None,
            )
        return cls(
            RoleConfig.from_json(cast["agent"]),
            RoleConfig.from_json(cast["transition_model"]),
            tuple(RoleConfig.from_json(one) for one in (cast["evidence_classifier"], *cast.get("panel", ()))),
            data["models"],
            data.get("prompt_set", {}).get("sha256", ""),
            scripted=scripted,
        )

    def make_endpoint(self, player: RoleConfig, environ: Mapping[str, str] = os.environ) -> Endpoint:
        """Return the model's address and key from this environment.

        Raises MissingKey if a key that is needed is missing, or if the key or the address is invalid.
        """
        model = self.models[player.model]
        options = {**model["options"]}
        if "effort_levels" in options:
            # JSON has only lists; WireOptions has a tuple.
            options["effort_levels"] = tuple(options["effort_levels"])
        return connections.make_endpoint(model["provider"], model["model_id"], WireOptions(**options), environ)

    def get_context_limit(self, player: RoleConfig) -> int | None:
        limit = self.models[player.model].get("context_limit")
        return int(limit) if limit else None


class CastInfo(NamedTuple):
    """A named cast: the name of each role's implementation, and a description."""

    name: str
    description: str
    agent: str
    transition_model: str
    evidence_classifier: str

    def to_run_config(self) -> RunConfig:
        """Return the run configuration. Roles played by rules have no model and no prompt."""
        # The first classifier alone: rule-based casts have no panel.
        roles = (RoleConfig(self.agent), RoleConfig(self.transition_model), (RoleConfig(self.evidence_classifier),))
        return RunConfig(*roles, models={}, prompt_sha256="")


RULES, CHECKLIST = "offline/rules", "offline/checklist"
LAPSES = "offline/protocol-lapses"

RULE_BASED_CASTS = {
    info.name: info
    for info in (
        CastInfo(
            "offline",
            "Follows the experiment's reference protocol. Rule-based simulator, checklist classifier.",
            "offline/protocol", RULES, CHECKLIST,
        ),
        CastInfo(
            "offline-lapses",
            "Follows the reference protocol with seeded lapses: a skipped control, a wrong order, a wrong amount.",
            LAPSES, RULES, CHECKLIST,
        ),
        CastInfo(
            "offline-random",
            "Takes random actions with valid parameters. A floor to compare with.",
            "offline/random", RULES, CHECKLIST,
        ),
        CastInfo(
            "offline-gaps",
            "Rules: follows a protocol with hidden steps; fills each gap rightly with probability 0.6, else with another step or none.",
            "offline/protocol-gaps", RULES, CHECKLIST,
        ),
    )
}  # fmt: skip


class CodeCastInfo(NamedTuple):
    """A rule-based code cast: its agent is the rule of the same name. No language model takes part."""

    name: str
    description: str

    def to_run_config(self) -> RunConfig:
        """Return the run configuration, which has no model and no prompt."""
        return RunConfig(RoleConfig(self.name), RoleConfig(), (), models={}, prompt_sha256="")


RULE_BASED_CODE_CASTS = {
    info.name: info
    for info in (
        CodeCastInfo("offline-oracle", "Rules: restore the hidden code, run every experiment, submit what it printed. A ceiling."),
        CodeCastInfo(
            "offline-oracle-lapses",
            "Rules: restore the hidden code with seeded lapses: a subtle error, a body left hidden, a crash that is mended, a misreported number.",
        ),
        CodeCastInfo("offline-null", "Rules: submit without any change. A floor."),
        CodeCastInfo("offline-stub", "Rules: fill every hidden function with a stub that returns a constant. A floor."),
        CodeCastInfo("offline-mutant", "Rules: restore the hidden code with one seeded error in one function."),
    )
}  # fmt: skip


class UnknownCastError(LabError):
    """There is no cast of that name; the message lists the existing ones."""


def get_rule_based_cast(name: str) -> CastInfo | CodeCastInfo:
    """Return the rule-based cast of that name, of either kind. Raises UnknownCastError."""
    casts: dict[str, CastInfo | CodeCastInfo] = {**RULE_BASED_CASTS, **RULE_BASED_CODE_CASTS}
    if name not in casts:
        raise UnknownCastError(f"There is no rule-based cast {name!r}. Rule-based casts: {', '.join(casts)}")
    return casts[name]


def is_code_cast(cast: Mapping[str, Any]) -> bool:
    return cast.get("kind") == CODE


def get_default_code_arm(scaffold: str) -> CodeArm:
    """Return what the prompts of a code cast show of the code base unless the run states it.

    The fixed pipeline gets the nearest functions; an agent with tools nothing, because it can read every file.
    """
    return "lexical" if scaffold == FIXED else "none"


def list_roles(cast: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return every role of a valid cast: agent, transition model, classifier, panel; of a code cast agent and helper."""
    if is_code_cast(cast):
        return [cast["agent"], *([cast["helper"]] if cast.get("helper") else [])]
    return [*(cast[role] for role in ROLES), *cast.get("panel", ())]


def get_role_name(role: Mapping[str, Any]) -> str:
    return str(role.get("model") or role["plays"])


def uses_scripted_server(provider: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this environment sends calls for the provider to the scripted server of its own process."""
    url = environ.get(SCRIPTED_VARIABLE, "")
    # A prefix, since the provider's base URL may have a path below the server's address.
    return bool(url) and environ.get(PROVIDERS[provider].base_url_variable, "").startswith(url)


def list_models(setup: Mapping[str, Any]) -> list[tuple[str, RoleConfig]]:
    """Return every language model of a configuration with its role."""
    if not setup:
        return []
    config = RunConfig.from_json(setup)
    if config.rater:
        return [("rating", config.rater)]
    if is_code_cast(setup["cast"]):
        helpers = [("helper", config.helper)] if config.helper else []
        return [(CODE, config.agent), *helpers]
    roles = [
        ("agent", config.agent),
        ("transition", config.transition_model),
        *(("verdict", p) for p in config.classifiers),
    ]
    # Rules cost nothing and make no calls.
    return [(role, player) for role, player in roles if player.model]


def hash_config(setup: Mapping[str, Any]) -> str:
    """Return the digest of a configuration. Equal digests mean the same models with the same prompts."""
    return hash_json(setup) if setup else ""
