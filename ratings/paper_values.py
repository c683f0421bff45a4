"""The numbers that the WetBench paper prints, read from fixtures/paper_values.json, to stand beside ours.

A value attaches to a number of ours by quantity and by the model that was declared for a role (in a run's frozen setup, or as
the name of a classifier), never by the name of a cast.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ratings.stats.estimates import CONSENSUS, MAJORITY
from simulation.lab import positions

PATH = Path(settings.BASE_DIR) / "fixtures" / "paper_values.json"

Study = Literal["transition_plausibility", "evidence_sufficiency", "benchmark"]
Role = Literal["agent", "transition_model", "twin_maker", "evidence_classifier", "human"]
Quantity = Literal[
    "plausibility_rate", "mean_confidence", "confidence_histogram", "avg_pairwise_kappa", "avg_pairwise_agreement",
    "auc_confidence_correct", "dprime", "specificity", "sensitivity", "mrmc_mean_auc", "human_model_kappa",
    "human_model_agreement", "model_agreement", "conditional_agreement", "sufficient_rate", "majority_sufficient_rate",
    "consensus_sufficient_rate", "pass_at_k",
]  # fmt: skip
NOT_REPORTED = "n and interval not reported"


class PaperValuesError(ValueError):
    """The data file cannot be read; `problems` are all there are, each as "path:line: key: what is wrong"."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PaperValue(BaseModel):
    """One number of the paper, or the reason why it prints none.

    `model` and `role`: whose outcomes or verdicts it is of. `range`: several values of which only the ends are printed.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    key: str = Field(min_length=1, max_length=60)
    quantity: Quantity
    study: Study
    model: str | None = None
    role: Role | None = None
    error: Literal["none", "obvious", "subtle"] | None = None
    k: int | None = Field(None, ge=1, le=100)
    value: float | None = None
    range: tuple[float, float] | None = Field(None, strict=False)
    sd: float | None = Field(None, ge=0)
    n: int | None = Field(None, ge=1)
    interval: tuple[float, float] | None = Field(None, strict=False)
    reason: str | None = None
    where: str

    @model_validator(mode="after")
    def check_value(self) -> "PaperValue":
        if self.value is None and self.reason is None:
            raise ValueError("has neither a value nor a reason why there is none")
        return self

    @property
    def description(self) -> str:
        """Return a sentence with the value, what it is of, its n and interval, and where it is printed."""
        of = f" for {self.model} as {self.role.replace('_', ' ')}" if self.model and self.role else ""
        if self.value is None and self.range is None:
            return f"Published{of}: no value, {self.reason} ({self.where})."
        shown = _format(self.value, self.quantity) if self.value is not None else self._format_range()
        spread = f" ± {self.sd:g}" if self.sd is not None else ""
        return f"Published{of}: {shown}{spread} ({self.format_basis()}; {self.where})."

    def format_basis(self) -> str:
        """Return n and interval as far as the paper gives them."""
        if self.n is None and self.interval is None:
            return NOT_REPORTED
        n = f"n = {self.n:,}" if self.n is not None else "n not reported"
        ends = (
            f"95% interval {' to '.join(_format(end, self.quantity) for end in self.interval)}" if self.interval else ""
        )
        return f"{n}, {ends or 'interval not reported'}"

    def _format_range(self) -> str:
        assert self.range is not None
        return " to ".join(_format(end, self.quantity) for end in self.range)


_NUMBERS = (
    "mean_confidence",
    "avg_pairwise_kappa",
    "human_model_kappa",
    "auc_confidence_correct",
    "dprime",
    "mrmc_mean_auc",
)


def _format(value: float, quantity: str) -> str:
    return f"{value:g}" if quantity in _NUMBERS else f"{100 * value:.3g}%"


class PaperValues(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    values: list[PaperValue]

    @model_validator(mode="after")
    def check_keys(self) -> "PaperValues":
        seen: set[str] = set()
        for entry in self.values:
            if entry.key in seen:
                raise ValueError(f"the key {entry.key!r} is given twice")
            seen.add(entry.key)
        return self


def read_paper_values(path: Path = PATH) -> PaperValues:
    """Return the file's values. PaperValuesError with every problem, each with its line and key."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise PaperValuesError([f"{positions.shown(path)}: cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise PaperValuesError([positions.unreadable(path, text, error)]) from error
    try:
        return PaperValues.model_validate_json(text)
    except ValidationError as error:
        problems = [_describe(problem, data) for problem in error.errors()]
        raise PaperValuesError(positions.located(path, problems)) from error


def _describe(problem: Mapping[str, Any], data: Any) -> str:
    """Return a problem as "place: what is wrong and what is allowed"."""
    place = ""
    for part in problem["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f"{'.' if place else ''}{part}"
    if problem["type"] == "extra_forbidden":
        model = PaperValue if len(problem["loc"]) > 1 else PaperValues
        return f"{place}: unknown key; allowed: {', '.join(model.model_fields)}"
    return f"{place or 'file'}: {problem['msg']}"


@cache
def load_paper_values() -> tuple[PaperValue, ...]:
    """Return the shipped values, read once per process."""
    return tuple(read_paper_values().values)


def find_paper_value(
    quantity: str,
    study: str,
    *,
    model: str | None = None,
    role: str | None = None,
    error: str | None = None,
    k: int | None = None,
) -> PaperValue | None:
    """Return the paper's entry for exactly this quantity, study, declared model, role, error type and k, or None."""
    asked = (quantity, study, model, role, error, k)
    return next((entry for entry in load_paper_values() if _identify(entry) == asked), None)


def find_published_fraction(who: str, kind: str) -> float | None:
    """Return the paper's share of records called sufficient (Fig. 4) of this classifier or ensemble, or None."""
    quantity = {MAJORITY: "majority_sufficient_rate", CONSENSUS: "consensus_sufficient_rate"}
    model = who if kind == "classifier" else None
    if kind not in ("classifier", "ensemble"):
        return None
    entry = find_paper_value(
        quantity.get(who, "sufficient_rate"), "evidence_sufficiency", model=model, role="evidence_classifier"
    )
    return entry.value if entry else None


def _identify(entry: PaperValue) -> tuple[Any, ...]:
    return entry.quantity, entry.study, entry.model, entry.role, entry.error, entry.k


def each_value(matches: Callable[[PaperValue], bool]) -> Iterator[PaperValue]:
    """Yield the entries that match, in the file's order."""
    return filter(matches, load_paper_values())


ROLES: tuple[str, ...] = get_args(Role)
