"""What the replication consists of: fixtures/paper_study.json, and what its parts are called in the database."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError

PATH = Path(settings.BASE_DIR) / "fixtures" / "paper_study.json"
SCRIPTED_PREFIX = "scripted-"


class PlanFileError(ValueError):
    """The file cannot be read, or has wrong keys or values; the message lists all of them."""


class StudyPlan(BaseModel):
    """`items`: of each source."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    items: int = Field(ge=1, le=1000)
    ratings_per_item: int = Field(ge=1, le=20)
    raters: int = Field(ge=1, le=100)


class RaterPlan(BaseModel):
    """How the simulated raters answer: shares called rightly, how often they follow the classifier, and the share of called
    errors whose row they mark, where rows can be marked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    sensitivity_obvious: float = Field(gt=0, lt=1)
    sensitivity_subtle: float = Field(gt=0, lt=1)
    specificity: float = Field(gt=0, lt=1)
    agreement: float = Field(gt=0, lt=1)
    located: float = Field(default=0.8, gt=0, lt=1)


class Plan(BaseModel):
    """The whole file. The first of `agents` is the one whose steps the transition study is about."""

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


class Names(NamedTuple):
    """What the parts of a replication are called: with scripted replies all names say so, so that nothing mixes."""

    scripted: bool

    @property
    def prefix(self) -> str:
        return SCRIPTED_PREFIX if self.scripted else ""

    @property
    def replication(self) -> str:
        return f"{self.prefix}paper"

    @property
    def transitions(self) -> str:
        return f"{self.prefix}paper-transitions"

    @property
    def evidence(self) -> str:
        return f"{self.prefix}paper-evidence"

    @property
    def benchmark(self) -> str:
        return "The paper's benchmark, scripted replies" if self.scripted else "The paper's benchmark"

    def cast(self, name: str) -> str:
        """Return the name of the cast that plays in place of the paper's."""
        return f"{self.prefix}{name}"

    def submission(self, part: str) -> str:
        """Return what identifies a run of this replication."""
        return f"{self.prefix}paper-{part}"

    def title(self, text: str) -> str:
        return f"{text} (scripted replies)" if self.scripted else text


def read_plan(path: Path = PATH) -> Plan:
    """Return the plan. PlanFileError with every problem."""
    try:
        plan = Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PlanFileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = [f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()]
        raise PlanFileError("\n".join(problems)) from error
    if found := list(find_problems(plan)):
        raise PlanFileError("\n".join(f"{path}: {problem}" for problem in found))
    return plan


def find_problems(plan: Plan, experiments: int | None = None) -> Iterator[str]:
    """Say what cannot be made because of two values together. `experiments`: how many there are, where the plan says "all"."""
    for name in ("agents", "experiments"):
        listed = getattr(plan, name)
        if isinstance(listed, list) and (twice := sorted({one for one in listed if listed.count(one) > 1})):
            yield f"{name}: {', '.join(twice)} more than once"
    if not plan.experiments:
        yield 'experiments: none; name some, or say "all"'
    if plan.twin_maker == plan.agents[0]:
        yield f"twin_maker: {plan.twin_maker} is the first of agents too: its answers and its steps would be one source"
    for name in ("transitions", "evidence"):
        study: StudyPlan = getattr(plan, name)
        if study.raters < study.ratings_per_item:
            yield f"{name}: ratings_per_item is {study.ratings_per_item}, more than raters, which is {study.raters}"
    if plan.transitions.items > plan.sample:
        yield f"transitions.items: {plan.transitions.items} is more than sample, which is {plan.sample}"
    number = len(plan.experiments) if isinstance(plan.experiments, list) else experiments
    if number and plan.evidence.items > number * plan.attempts:
        yield (
            f"evidence.items: {plan.evidence.items} is more than the {number * plan.attempts} attempts of each agent "
            f"(experiments {number}, attempts {plan.attempts})"
        )


def find_changes(before: Mapping[str, Any], plan: Plan, fixed: Collection[str]) -> list[str]:
    """Say in what the parts `fixed` of the plan differ from those of an earlier one, as it was stored."""
    with suppress(ValidationError):
        before = Plan.model_validate(before).model_dump()  # what an older version did not write has its default
    old, new = (dict(_flatten({name: data.get(name) for name in fixed})) for data in (before, plan.model_dump()))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [f"{name} was {old.get(name)} and is {new.get(name)}" for name in changed]


def _flatten(data: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", ", ".join(value) if isinstance(value, list) else str(value)


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan as `read_plan` reads it."""
    path.write_text(json.dumps(plan.model_dump(), indent=2) + "\n", encoding="utf-8")
