"""What the replication consists of: fixtures/paper_study.json, and what its parts are called in the database."""

import json
from pathlib import Path
from typing import Literal, NamedTuple

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
        return Plan.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PlanFileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = [f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors()]
        raise PlanFileError("\n".join(problems)) from error


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan as `read_plan` reads it."""
    path.write_text(json.dumps(plan.model_dump(), indent=2) + "\n", encoding="utf-8")
