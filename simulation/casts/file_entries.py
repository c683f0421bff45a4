"""The entries of data files of language models: models, prices, casts and code casts, with what each field allows."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from simulation.llm.coding.notes import SCAFFOLDS
from simulation.providers.base import PROVIDERS
from simulation.providers.connections import RESERVED_FIELDS
from simulation.replication.tools import LAST_TURN_TOOLS, TOOLS
from wetbench_site.validation import (
    Allowed,
    Day,
    StrictModel,
    VisibleText,
    format_lack,
    format_problem,
    need_unique,
    one_of,
    reject,
    reject_parts,
)

TOKEN_CLASSES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
_MIN_THINKING_TOKENS = 1024  # Anthropic's minimum
_MAX_PRICE = Decimal(10**5)  # dollars per million tokens

Models = Mapping[str, Mapping[str, Any]]  # every known model by name, as in its data file


def _need_price(text: str) -> str:
    value = _parse_decimal(text)
    # The database stores six places; the exponent of NaN and infinity is a letter.
    exponent = value.as_tuple().exponent
    is_price = isinstance(exponent, int) and -6 <= exponent <= 0 and 0 <= value <= _MAX_PRICE
    return text if is_price else reject()


def _need_temperature(text: str) -> str:
    value = _parse_decimal(text)
    return text if value.is_finite() and 0 <= value <= 2 else reject()


def _parse_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")


def _need_known_model(name: str, info: ValidationInfo) -> str:
    models = _get_models(info)
    return name if name in models else reject(", ".join(sorted(models)) or "no model is known")


def _get_models(info: ValidationInfo) -> Models:
    """Return the known models, which every validation of a cast needs as its context."""
    models: Models = info.context or {}
    return models


# Lower case only, so that two names never differ by case alone.
Name = Annotated[
    str,
    Field(pattern="^[a-z0-9][a-z0-9._-]{0,79}$"),
    Allowed("a to z, 0 to 9, dot, hyphen, underscore; at most 80, starting with a letter or digit"),
]
Word = Annotated[str, Field(min_length=1, max_length=120)]
Count = Annotated[int, Field(ge=1, le=10**9)]  # tokens
# As text, because JSON numbers are binary fractions, and money and requests need the exact digits.
DollarText = Annotated[str, AfterValidator(_need_price), Allowed('dollars per million tokens in quotes, like "1.25"')]
Temperature = Annotated[str, AfterValidator(_need_temperature), Allowed('a number from 0 to 2 in quotes, like "0.7"')]
KnownModel = Annotated[str, AfterValidator(_need_known_model)]


class PriceEntry(StrictModel):
    """Dollars per million tokens of each class; null if unknown."""

    effective_from: Day
    source: Annotated[VisibleText, Field(max_length=300)]
    read_on: Day
    input: DollarText | None = None
    cache_read: DollarText | None = None
    cache_write_5m: DollarText | None = None
    cache_write_1h: DollarText | None = None
    output: DollarText | None = None

    @model_validator(mode="after")
    def _need_one_price(self) -> Self:
        # An entry without any price is a mistake; an unknown price is a missing entry.
        if all(getattr(self, name) is None for name in TOKEN_CLASSES):
            reject_parts([("input", f"no price is given; allowed: at least one of {', '.join(TOKEN_CLASSES)}")])
        return self


class SeparatePrice(PriceEntry):
    """A price that is listed separately from its model."""

    model: KnownModel


class OptionsEntry(StrictModel):
    """What a model's API accepts, see `providers.base.WireOptions`."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    thinking: Literal["none", "budget", "adaptive", "effort", "always"] = "none"
    effort_levels: list[Word] = []
    temperature_with_thinking: bool = True
    json_mode: bool = False
    structured_output: bool = False
    caching: Literal["breakpoint", "automatic", "none"] = "none"
    api_version: Annotated[str, Field(max_length=40)] = ""
    output_limit: Count | None = None
    extra_body: dict[str, Any] = {}

    @field_validator("extra_body")
    @classmethod
    def _need_free_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        # Fields that a cast sets must not be overwritten, or the stored configuration would be untrue.
        if ours := sorted(RESERVED_FIELDS & set(body)):
            raise ValueError(f"must not contain {', '.join(ours)}: a cast sets these")
        return body


class ModelEntry(StrictModel):
    """A language model with its prices. A lifecycle names its source and the day on which the source was read."""

    name: Name
    provider: Annotated[str, *one_of(tuple(PROVIDERS))]
    model_id: Annotated[VisibleText, Field(max_length=120)]
    aliases: list[Word] = []
    options: OptionsEntry = OptionsEntry()
    context_limit: Count | None = None
    lifecycle: Literal["active", "retiring", "retired", "unknown"] = "unknown"
    retires_on: Day | None = None
    lifecycle_source: Annotated[str, Field(max_length=300)] = ""
    lifecycle_read_on: Day | None = None
    note: Annotated[str, Field(max_length=10_000)] = ""
    prices: Annotated[list[PriceEntry], need_unique("effective_from")] = []

    @model_validator(mode="after")
    def _need_version_and_source(self) -> Self:
        problems = []
        # Anthropic requires a version in every request, and a default here could change what old runs meant.
        if self.provider == "anthropic" and not self.options.api_version:
            allowed = "a day like 2023-06-01, because Anthropic's API has versions"
            problems.append(("options.api_version", format_lack(self.options, "api_version", allowed)))
        needed = {
            "lifecycle_source": "text of at most 300 characters, not empty" if self.lifecycle != "unknown" else "",
            "lifecycle_read_on": "a day like 2026-11-21" if self.lifecycle != "unknown" else "",
            "retires_on": "a day like 2026-11-21" if self.lifecycle == "retiring" else "",
        }
        for field, allowed in needed.items():
            if allowed and not (getattr(self, field) or "").strip():
                problems.append((field, format_lack(self, field, allowed)))
        reject_parts(problems)
        return self


class ParamsEntry(StrictModel):
    """Parameters of every call. Those that the model does not accept are dropped later, and the drop is recorded."""

    max_tokens: Annotated[int, Field(ge=1)]
    temperature: Temperature | None = None
    thinking_budget: int | None = None
    effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = ""


class HistoryEntry(StrictModel):
    """How much of the record a prompt contains: all, the last k steps, or a summary and the last k steps."""

    kind: Literal["full", "window", "summary"]
    k: Annotated[int, Field(ge=1, le=1000)] | None = None

    @model_validator(mode="after")
    def _need_steps(self) -> Self:
        if self.kind != "full" and self.k is None:
            reject_parts([("k", format_lack(self, "k", "a whole number from 1 to 1000"))])
        return self


class ModelRole(StrictModel):
    """A role run by a language model."""

    model: KnownModel
    params: Annotated[ParamsEntry, Allowed("an object with max_tokens")]

    @field_validator("params")
    @classmethod
    def _need_limits(cls, params: ParamsEntry, info: ValidationInfo) -> ParamsEntry:
        """Check the limits of this model; its provider would reject a longer reply only when the first call is sent."""
        limit = _get_models(info).get(info.data.get("model", ""), {}).get("options", {}).get("output_limit")
        most = limit if isinstance(limit, int) and limit > 0 else 10**6
        if params.max_tokens > most:
            reject_parts([("max_tokens", format_problem(params.max_tokens, f"a whole number from 1 to {most}"))])
        # Thinking is part of the reply's tokens, so it must leave room for an answer.
        most = max(params.max_tokens - 1, _MIN_THINKING_TOKENS)
        if params.thinking_budget is not None and not _MIN_THINKING_TOKENS <= params.thinking_budget <= most:
            allowed = f"a whole number from {_MIN_THINKING_TOKENS} to {most}, or null"
            reject_parts([("thinking_budget", format_problem(params.thinking_budget, allowed))])
        return params


class AgentModelRole(ModelRole):
    scaffold: Literal["plain", "react", "plan"] = "react"
    history: HistoryEntry = HistoryEntry(kind="full")


class AgentRules(StrictModel):
    plays: Literal["offline/protocol", "offline/protocol-lapses", "offline/random", "offline/protocol-gaps"]


class TransitionRules(StrictModel):
    plays: Literal["offline/rules"]


class ClassifierRules(StrictModel):
    plays: Literal["offline/checklist"]


def _find_kind_of_role(player: Any) -> str | None:
    # Exactly one of the two: rules and a model for the same role would leave open who answers.
    names = player if isinstance(player, Mapping) else getattr(type(player), "model_fields", ())
    fields = {"plays", "model"} & set(names)
    return fields.pop() if len(fields) == 1 else None


_EITHER = (Discriminator(_find_kind_of_role), Allowed('an object with either "plays" or "model"'))
Agent = Annotated[Annotated[AgentRules, Tag("plays")] | Annotated[AgentModelRole, Tag("model")], *_EITHER]
TransitionModel = Annotated[Annotated[TransitionRules, Tag("plays")] | Annotated[ModelRole, Tag("model")], *_EITHER]
Classifier = Annotated[Annotated[ClassifierRules, Tag("plays")] | Annotated[ModelRole, Tag("model")], *_EITHER]


def _need_free_cast_name(name: str) -> str:
    # The cast of a person is "human" with their pseudonym, and rule-based casts begin with "offline".
    if name.partition(" ")[0] == "human" or name.startswith("offline"):
        reject("a name that begins neither with human nor with offline")
    return name


class CastEntry(StrictModel):
    """Who runs each role. `successor_of` names for models of the cast the model of the paper that each replaces."""

    name: Name
    description: Annotated[VisibleText, Field(max_length=2000)]
    agent: Agent
    transition_model: TransitionModel
    evidence_classifier: Classifier
    panel: list[Classifier] = []
    successor_of: Annotated[
        dict[str, Any], Allowed('an object like {"a model of the cast": "the model it succeeds"}')
    ] = {}

    @field_validator("name")
    @classmethod
    def _need_free_name(cls, name: str) -> str:
        return _need_free_cast_name(name)

    @model_validator(mode="after")
    def _need_own_models(self, info: ValidationInfo) -> Self:
        roles = [self.agent, self.transition_model, self.evidence_classifier, *self.panel]
        own_models = {getattr(role, "model", None) for role in roles}
        # Verdicts are stored by classifier, so no classifier may judge the same episode twice.
        judges = [str(getattr(role, "model", None) or getattr(role, "plays", None)) for role in roles[2:]]
        problems = [("panel", f"{name!r} judges twice") for name in sorted(set(judges)) if judges.count(name) > 1]
        for name, original in self.successor_of.items():
            if name not in own_models:
                problems.append((f"successor_of.{name}", "no role of the cast uses this model"))
            if not isinstance(original, str) or original not in _get_models(info) or original == name:
                problems.append((f"successor_of.{name}", format_problem(original, "the name of another known model")))
        reject_parts(problems)
        return self


class CodeAgentRole(ModelRole):
    """An agent that edits code. Without `tools` it has all of them, those of the helper only if the cast has one."""

    scaffold: Annotated[str, *one_of(SCAFFOLDS)] = "react"
    history: HistoryEntry = HistoryEntry(kind="full")
    tools: list[Annotated[str, *one_of(tuple(TOOLS))]] | None = None

    @field_validator("tools")
    @classmethod
    def _need_endings(cls, tools: list[str] | None) -> list[str] | None:
        if tools is not None and (missing := [name for name in LAST_TURN_TOOLS if name not in tools]):
            raise ValueError(
                f"must contain {' and '.join(missing)}: without it an attempt could only run out of its limits"
            )
        return tools


class CodeCastEntry(StrictModel):
    """Who edits the code of a replication task, and who answers the tools of the helper."""

    name: Name
    description: Annotated[VisibleText, Field(max_length=2000)]
    agent: CodeAgentRole
    helper: ModelRole | None = None

    @field_validator("name")
    @classmethod
    def _need_free_name(cls, name: str) -> str:
        return _need_free_cast_name(name)

    @model_validator(mode="after")
    def _need_helper_for_its_tools(self) -> Self:
        asks = [name for name in self.agent.tools or () if TOOLS[name].kind == "helper"]
        if asks and self.helper is None:
            reject_parts(
                [("helper", f"is missing; the agent has the tools {' and '.join(asks)}, which a helper answers")]
            )
        if self.helper and self.agent.tools is not None and not asks:
            reject_parts([("helper", "answers no tool of the agent: add one to agent.tools, or leave the helper out")])
        if self.agent.scaffold == "fixed" and (self.helper or self.agent.tools is not None):
            reject_parts([("agent.scaffold", "fixed chooses no tools: leave tools and helper out")])
        return self


class ModelFile(StrictModel):
    """A file with models, prices and casts, or some of them."""

    models: Annotated[list[ModelEntry], need_unique("name")] = []
    prices: list[SeparatePrice] = []
    casts: Annotated[list[CastEntry], need_unique("name")] = []
    code_casts: Annotated[list[CodeCastEntry], need_unique("name")] = []
