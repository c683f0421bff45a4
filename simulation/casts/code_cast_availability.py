"""The existing code casts, whether they can run here now, and their frozen configuration for a run."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from simulation.casts.model_obstacles import Environment, check_keys, check_models, freeze_models
from simulation.casts.run_config import RULE_BASED_CODE_CASTS, UnknownCastError, get_role_name, is_code_cast
from simulation.models import CastDefinition, LanguageModel


class CodeCastOption(NamedTuple):
    """A code cast that people can choose. `helper` is "" if it has none."""

    name: str
    description: str
    agent: str
    scaffold: str = ""
    helper: str = ""
    why_not: str = ""
    warnings: tuple[str, ...] = ()
    missing_keys: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.why_not

    @property
    def speaks(self) -> bool:
        """Whether language models take part: rules have no scaffold."""
        return bool(self.scaffold)


def list_code_casts(environ: Environment = os.environ) -> list[CodeCastOption]:
    """Return every code cast, with two queries: first the rule-based ones, then those with language models, by name."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    rows = [row for row in CastDefinition.objects.all() if is_code_cast(row.data)]
    rules = [CodeCastOption(info.name, info.description, info.name) for info in RULE_BASED_CODE_CASTS.values()]
    return [*rules, *(_code_option(row, models, environ) for row in rows)]


def list_names() -> list[str]:
    """Return the names of all code casts."""
    return [*RULE_BASED_CODE_CASTS, *(row.name for row in CastDefinition.objects.all() if is_code_cast(row.data))]


def freeze_code_cast(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of this code cast without the prompt set; empty for a rule-based one.

    Raises UnknownCastError, or NotReadyError, which names the variable that has no key.
    """
    if name in RULE_BASED_CODE_CASTS:
        return {}
    row = CastDefinition.objects.filter(name=name).first()
    if row is None or not is_code_cast(row.data):
        raise UnknownCastError(f"There is no code cast {name!r}. Code casts: {', '.join(list_names())}")
    cast = dict(row.data)
    return check_keys({"cast": cast, "models": freeze_models(cast)}, environ)


def _code_option(row: CastDefinition, models: Mapping[str, LanguageModel], environ: Environment) -> CodeCastOption:
    checked, agent, helper = check_models(row, models, environ), row.data["agent"], row.data.get("helper")
    return CodeCastOption(
        row.name,
        row.description,
        get_role_name(agent),
        agent["scaffold"],
        get_role_name(helper) if helper else "",
        checked.why_not,
        checked.warnings,
        checked.missing_keys,
    )
