"""Load the numbers that the WetBench paper prints from fixtures/paper_values.json, for comparison with our results.

A value of the paper is matched to one of our results by quantity and by the model declared for a role (in a run's frozen
configuration, or as the name of a classifier), never by the name of a cast.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from django.conf import settings
from pydantic import Field, ValidationError, field_validator, model_validator

from ratings.models import Benchmark, ItemSource, Study
from ratings.results.rating_rows import format_source_name
from ratings.stats.estimates import CONSENSUS, MAJORITY
from wetbench_site.validation import StrictModel, list_problems, locate_problems, read_json_file, reject_parts

PATH = Path(settings.BASE_DIR) / "fixtures" / "paper_values.json"

StudyName = Literal["transition_plausibility", "evidence_sufficiency", "benchmark"]
Role = Literal["agent", "transition_model", "twin_maker", "evidence_classifier", "human"]
Quantity = Literal[
    "plausibility_rate", "mean_confidence", "confidence_histogram", "avg_pairwise_kappa", "avg_pairwise_agreement",
    "auc_confidence_correct", "dprime", "specificity", "sensitivity", "mrmc_mean_auc", "human_model_kappa",
    "human_model_agreement", "model_agreement", "conditional_agreement", "sufficient_rate", "majority_sufficient_rate",
    "consensus_sufficient_rate", "pass_at_k",
]  # fmt: skip
_QUANTITIES_OF_SEVERAL_MODELS = (
    "model_agreement", "conditional_agreement", "majority_sufficient_rate", "consensus_sufficient_rate",
)  # fmt: skip
# Quantities that are printed as numbers; all others are percentages.
NUMBERS = (
    "mean_confidence", "avg_pairwise_kappa", "human_model_kappa", "auc_confidence_correct", "dprime", "mrmc_mean_auc",
)  # fmt: skip
# Allowed range of a value. Every quantity that is not listed is a share or an area, from 0 to 1.
_LIMITS: Mapping[str, tuple[float, float]] = {
    "mean_confidence": (1, 5),
    "avg_pairwise_kappa": (-1, 1),
    "human_model_kappa": (-1, 1),
    "dprime": (-math.inf, math.inf),
}
NOT_REPORTED = "n and interval not reported"


class PaperValuesError(ValueError):
    """The data file is invalid. `problems` lists all faults, each as "path:line: key: what is wrong"."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PaperValue(StrictModel):
    """One number of the paper, or the reason why it prints none.

    `model` and `role`: the model whose outcomes or verdicts the number describes, and its role. `models`: the classifiers, if
    the number describes several. `range`: the lowest and highest value, if the paper prints several values only as a range.
    """

    key: str = Field(min_length=1, max_length=60)
    quantity: Quantity
    study: StudyName
    model: str | None = None
    models: tuple[str, ...] | None = Field(None, strict=False, min_length=2)
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
    def check_consistency(self) -> "PaperValue":
        reject_parts(list(self._iter_faults()))
        return self

    def _iter_faults(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for numbers out of range, and for fields that contradict each other."""
        if self.value is None and self.reason is None:
            yield "", "has neither a value nor a reason why there is none"
        lowest, highest = _LIMITS.get(self.quantity, (0, 1))
        ends = {"range": self.range, "interval": self.interval}
        for name, numbers in {"value": None if self.value is None else (self.value,), **ends}.items():
            if outside := [number for number in numbers or () if not lowest <= number <= highest]:
                yield name, f"is {outside[0]:g}; allowed for {self.quantity}: {lowest:g} to {highest:g}"
        for name, pair in ends.items():
            if pair and pair[0] > pair[1]:
                yield name, f"is {pair[0]:g} to {pair[1]:g}; expected: the lower end first"
        if (self.k is not None) != (self.quantity == "pass_at_k"):
            yield "k", f"is {'required' if self.k is None else 'allowed only'} with the quantity pass_at_k"
        if (self.models is not None) != (self.quantity in _QUANTITIES_OF_SEVERAL_MODELS):
            rule = "is required with" if self.models is None else "is allowed only with"
            yield "models", f"{rule} the quantities {', '.join(_QUANTITIES_OF_SEVERAL_MODELS)}"
        if self.models and len(set(self.models)) < len(self.models):
            yield "models", "lists a model twice"
        if self.models and self.model and self.model not in self.models:
            yield "model", f"{self.model!r} is not one of models"

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return what distinguishes this number from all others."""
        return self.quantity, self.study, self.model, self.role, self.error, self.k

    @property
    def description(self) -> str:
        """Return a sentence with the value, the model and role that it describes, its n and interval, and where it is printed."""
        subject = f" for {self.model} as {self.role.replace('_', ' ')}" if self.model and self.role else ""
        if self.value is None and self.range is None:
            return f"Published{subject}: no value, {self.reason} ({self.where})."
        value_text = _format_values([self.value] if self.value is not None else self.range, self.quantity)
        spread = f" ± {self.sd:g}" if self.sd is not None else ""
        return f"Published{subject}: {value_text}{spread} ({self.format_basis()}; {self.where})."

    def format_basis(self) -> str:
        """Return n and the interval in words; the text states which of them the paper does not report."""
        if self.n is None and self.interval is None:
            return NOT_REPORTED
        n_text = f"n = {self.n:,}" if self.n is not None else "n not reported"
        ends = _format_values(self.interval, self.quantity)
        return f"{n_text}, {f'95% interval {ends}' if ends else 'interval not reported'}"

    def format_spread(self) -> str:
        """Return the standard deviation, n and interval that the paper reports; "" if it reports none of them."""
        parts = [f"± {self.sd:g}"] if self.sd is not None else []
        return "; ".join(parts if self.format_basis() == NOT_REPORTED else [*parts, self.format_basis()])


def _format_values(values: Iterable[float] | None, quantity: str) -> str:
    """Return one value, or the two ends of a range."""
    return " to ".join(f"{value:g}" if quantity in NUMBERS else f"{100 * value:.3g}%" for value in values or ())


class PaperValues(StrictModel):
    """The content of the data file."""

    title: str
    values: list[PaperValue]

    @field_validator("values")
    @classmethod
    def check_unique(cls, values: list[PaperValue]) -> list[PaperValue]:
        keys, identities = [entry.key for entry in values], [entry.identity for entry in values]
        problems = []
        for index, entry in enumerate(values):
            if (first := keys.index(entry.key)) != index:
                problems.append((f"[{index}].key", f"{entry.key!r} is used twice, first in values[{first}]"))
            elif (first := identities.index(entry.identity)) != index:
                same = f"has the same quantity, study, model, role, error and k as values[{first}]"
                problems.append((f"[{index}]", same))
        reject_parts(problems)
        return values


def read_paper_values(path: Path = PATH) -> PaperValues:
    """Return the values of a data file. Raises PaperValuesError with every problem, each with its line and key."""
    _, unreadable = read_json_file(path)
    # The model names the place of a number that is out of range, such as 1e999.
    if unreadable and "Out of range float" not in unreadable[0]:
        raise PaperValuesError(unreadable)
    try:
        return PaperValues.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problems = [problem.text for problem in list_problems(error, PaperValues)]
        raise PaperValuesError(locate_problems(path, problems)) from error


@cache
def load_paper_values() -> tuple[PaperValue, ...]:
    """Return the values of the data file that is part of this release; it is read once per process."""
    return tuple(read_paper_values(PATH).values)


def find_paper_value(
    quantity: str,
    study: str,
    *,
    model: str | None = None,
    role: str | None = None,
    error: str | None = None,
    k: int | None = None,
) -> PaperValue | None:
    """Return the paper's entry with exactly this quantity, study, declared model, role, error type and k, or None."""
    identity = (quantity, study, model, role, error, k)
    # The match is exact, because a number for another model or role must never appear beside ours.
    return next((entry for entry in load_paper_values() if entry.identity == identity), None)


# Labels for ensembles of the paper's classifiers in benchmarks that further classifiers judged too.
ENSEMBLES = {MAJORITY: "majority of the paper's models", CONSENSUS: "all of the paper's models"}
_ENSEMBLE_QUANTITIES = {MAJORITY: "majority_sufficient_rate", CONSENSUS: "consensus_sufficient_rate"}


def find_published_fraction(judge: str, kind: str, models: Collection[str] = ()) -> "PaperValue | str | None":
    """Return the paper's share of records that this classifier or ensemble judged sufficient (Fig. 4), or None.

    For an ensemble whose `models` are not those of the paper, return the reason why the values are not comparable.
    """
    if kind == "classifier":
        return find_paper_value("sufficient_rate", "evidence_sufficiency", model=judge, role="evidence_classifier")
    entry = find_ensemble(judge) if kind == "ensemble" else None
    if entry is None or set(entry.models or ()) == set(models):
        return entry
    return "the paper's number is of other classifiers"


def find_ensemble(ensemble: str) -> PaperValue | None:
    """Return the paper's entry for the share of records that most, or all, of its classifiers judge sufficient, or None."""
    quantity = _ENSEMBLE_QUANTITIES.get(ensemble)
    return find_paper_value(quantity, "evidence_sufficiency", role="evidence_classifier") if quantity else None


NO_ENTRY = "the paper has no such number"


def pair_with_reasons(matches: Iterable[PaperValue | str | None]) -> list[tuple[float | None, str]]:
    """Return for each row of a table the paper's value, or None and the reason why there is none.

    If the paper has no entry for any row, the reasons are left out too, so that both columns are empty.
    """
    entries = list(matches)
    if not any(isinstance(entry, PaperValue) for entry in entries):
        return [(None, "")] * len(entries)
    rows = [(entry.value, entry.reason) if isinstance(entry, PaperValue) else (None, entry) for entry in entries]
    return [(value, "" if value is not None else reason or NO_ENTRY) for value, reason in rows]


def iter_values(matches: Callable[[PaperValue], bool]) -> Iterator[PaperValue]:
    """Yield the entries that match, in the order of the file."""
    return filter(matches, load_paper_values())


# Paths into the JSON of the frozen run configuration.
_MODEL = "run__setup__cast__transition_model__model"
_SUCCESSORS = "run__setup__cast__successor_of"


class DeclaredModel(NamedTuple):
    """A model's name in the run configuration, and its role: transition_model or twin_maker."""

    model: str
    role: str


def find_declared_models(study: Study) -> dict[str, DeclaredModel]:
    """Return the model of each source, in one query; sources not from exactly one model are left out."""
    rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    columns = "label", "perturbation", "twin", f"twin__{_MODEL}", f"transition__episode__{_MODEL}"
    models_by_source: dict[str, set[DeclaredModel | None]] = {}
    for label, perturbation, twin, by_twin, by_step in rows.values_list(*columns).iterator(chunk_size=2000):
        # The source of a twin is the model that planted the error; that of an unperturbed step is its transition model.
        model = by_twin if twin else by_step
        role = "transition_model" if perturbation == "none" else "twin_maker"
        # None is kept in the set, because a source whose items come only partly from a model is not attributed to it.
        declared = DeclaredModel(model, role) if model else None
        models_by_source.setdefault(format_source_name(label, perturbation), set()).add(declared)
    unique_models = {name: next(iter(models)) for name, models in models_by_source.items() if len(models) == 1}
    return {name: declared for name, declared in unique_models.items() if declared is not None}


def find_agent_models(benchmark: Benchmark) -> dict[str, str]:
    """Return the declared model of each agent, by cast. Agents whose runs declare several models, or none, are left out."""
    models_by_cast: dict[str, set[str | None]] = defaultdict(set)
    for cast, model in benchmark.episodes.order_by().values_list("cast", "run__setup__cast__agent__model").distinct():
        models_by_cast[cast].add(model)
    return {
        cast: model for cast, models in models_by_cast.items() if len(models) == 1 and (model := next(iter(models)))
    }


def find_successors(study: Study | None, benchmark: Benchmark | None) -> dict[str, tuple[str, ...]]:
    """Return the successors that casts of the study's or benchmark's runs declare, by the original model."""
    declarations: list[Mapping[str, str] | None] = []
    if study is not None:
        rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
        for column in (f"twin__{_SUCCESSORS}", f"transition__episode__{_SUCCESSORS}"):
            declarations += rows.values_list(column, flat=True).distinct()
    if benchmark is not None:
        declarations += benchmark.runs.order_by().values_list("setup__cast__successor_of", flat=True)
    successors_of: dict[str, set[str]] = defaultdict(set)
    for declaration in filter(None, declarations):
        for successor, original in declaration.items():
            successors_of[original].add(successor)
    return {original: tuple(sorted(successors)) for original, successors in successors_of.items()}
