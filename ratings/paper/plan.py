"""The plan of the replication, fixtures/paper_study.json, and the names of its parts in the database."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.core.checks import CheckMessage, Error
from pydantic import BaseModel, ConfigDict, Field, ValidationError

PATH = Path(settings.BASE_DIR) / "fixtures" / "paper_study.json"
SCRIPTED_PREFIX = "scripted-"


class PlanFileError(ValueError):
    """The plan file cannot be read or has wrong keys or values. The message lists all problems."""


class StudyPlan(BaseModel):
    """The sizes of a study. `items` is the number of items per source."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    items: int = Field(ge=1, le=1000)
    ratings_per_item: int = Field(ge=1, le=20)
    raters: int = Field(ge=1, le=100)


class RaterPlan(BaseModel):
    """How the simulated raters answer.

    The fields are the shares of correct verdicts, how often raters follow the classifier, and the share of reported
    errors whose row they mark.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    sensitivity_obvious: float = Field(gt=0, lt=1)
    sensitivity_subtle: float = Field(gt=0, lt=1)
    specificity: float = Field(gt=0, lt=1)
    agreement: float = Field(gt=0, lt=1)
    located: float = Field(default=0.8, gt=0, lt=1)


# Strict and without unknown keys: a misspelt size must not silently fall back to a default.
class Plan(BaseModel):
    """The content of the plan file. The transition study uses steps of the first agent in `agents`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    agents: list[str] = Field(min_length=1)
    twin_maker: str
    experiments: Literal["all"] | list[str]
    attempts: int = Field(ge=1, le=100)
    sample: int = Field(ge=1)
    seed: int = Field(ge=0, lt=2**31)
    transitions: StudyPlan
    evidence: StudyPlan
    simulated_raters: RaterPlan

    @property
    def cast_names(self) -> list[str]:
        return [*self.agents, self.twin_maker]


class ReplicationNames(NamedTuple):
    """The names of the parts of a replication. With scripted replies, all names have a prefix that shows it."""

    scripted: bool

    @property
    def name_prefix(self) -> str:
        return SCRIPTED_PREFIX if self.scripted else ""

    @property
    def replication_name(self) -> str:
        return f"{self.name_prefix}paper"

    @property
    def transitions_slug(self) -> str:
        return f"{self.name_prefix}paper-transitions"

    @property
    def evidence_slug(self) -> str:
        return f"{self.name_prefix}paper-evidence"

    @property
    def benchmark_name(self) -> str:
        return "The paper's benchmark, scripted replies" if self.scripted else "The paper's benchmark"

    def get_cast_name(self, name: str) -> str:
        """Return the name of the cast that plays in this replication: with a prefix if replies are scripted."""
        return f"{self.name_prefix}{name}"

    def build_submission_id(self, part: str) -> str:
        """Return the submission id of a run of this replication."""
        # A second request with the same submission id returns the same run, so the command can be repeated.
        return f"{self.name_prefix}paper-{part}"

    def format_title(self, text: str) -> str:
        return f"{text} (scripted replies)" if self.scripted else text


def load_plan(path: Path = PATH) -> Plan:
    """Load the plan. Raises PlanFileError with every problem."""
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PlanFileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = [f"{path}: {'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors()]
        raise PlanFileError("\n".join(problems)) from error
    if contradictions := list(find_problems(plan)):
        raise PlanFileError("\n".join(f"{path}: {problem}" for problem in contradictions))
    return plan


def find_problems(plan: Plan, experiments: int | None = None) -> Iterator[str]:
    """Yield the contradictions between values of the plan. `experiments` is their number if the plan has "all"."""
    for name in ("agents", "experiments"):
        values = getattr(plan, name)
        if isinstance(values, list) and (duplicates := sorted({value for value in values if values.count(value) > 1})):
            yield f"{name}: {', '.join(duplicates)} more than once"
    if not plan.experiments:
        yield 'experiments: empty; list some, or use "all"'
    if plan.twin_maker == plan.agents[0]:
        yield f"twin_maker: {plan.twin_maker} is also the first of agents, so its answers and its steps would be the same source"
    for name in ("transitions", "evidence"):
        study: StudyPlan = getattr(plan, name)
        if study.raters < study.ratings_per_item:
            yield f"{name}: ratings_per_item ({study.ratings_per_item}) is larger than raters ({study.raters})"
    if plan.transitions.items > plan.sample:
        yield f"transitions.items: {plan.transitions.items} is larger than sample ({plan.sample})"
    n_experiments = len(plan.experiments) if isinstance(plan.experiments, list) else experiments
    if n_experiments and plan.evidence.items > n_experiments * plan.attempts:
        yield (
            f"evidence.items: {plan.evidence.items} is larger than the {n_experiments * plan.attempts} attempts of each agent "
            f"(experiments {n_experiments}, attempts {plan.attempts})"
        )


def find_changes(before: Mapping[str, Any], plan: Plan, fixed: Collection[str]) -> list[str]:
    """Return how the parts `fixed` of the plan differ from those of an earlier plan, as it was stored."""
    with suppress(ValidationError):
        before = Plan.model_validate(before).model_dump()  # keys that an older version did not store get their defaults
    old_values, new_values = (
        dict(_flatten_values({name: data.get(name) for name in fixed})) for data in (before, plan.model_dump())
    )
    changed_names = [name for name in {**old_values, **new_values} if old_values.get(name) != new_values.get(name)]
    return [f"{name} was {old_values.get(name)} and is now {new_values.get(name)}" for name in changed_names]


def _flatten_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten_values(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(value) if isinstance(value, list) else str(value)


def save_plan(plan: Plan, path: Path) -> None:
    """Write the plan in the format of `load_plan`."""
    path.write_text(json.dumps(plan.model_dump(), indent=2) + "\n", encoding="utf-8")


def check_paper_values(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Return an error for each problem of fixtures/paper_values.json, with its line and key."""
    from ratings.results import paper_values  # not at start-up, only where checks run

    try:
        paper_values.read_paper_values(paper_values.PATH)
    except paper_values.PaperValuesError as error:
        return [
            Error(problem, hint="Correct the file (docs/paper.md).", id="wetbench.E009") for problem in error.problems
        ]
    return []
