"""Which language model made a study's items, as the frozen setup of the run declares it, and whose successor it is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ratings.models import Benchmark, ItemSource, Study
from ratings.results.rows import source_name

_MODEL = "run__setup__cast__transition_model__model"
_SUCCESSORS = "run__setup__cast__successor_of"


class DeclaredModel(NamedTuple):
    """A model's name as the run's setup has it, and its role: transition_model or twin_maker."""

    model: str
    role: str


def find_declared_models(study: Study) -> dict[str, DeclaredModel]:
    """Return the model behind each source by the source's name, in one query.

    A source whose items are of rules, of people, of an import, or of more than one model is left out.
    """
    rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    columns = "label", "perturbation", "twin", f"twin__{_MODEL}", f"transition__episode__{_MODEL}"
    found: dict[str, set[DeclaredModel | None]] = {}
    for label, perturbation, twin, by_twin, by_step in rows.values_list(*columns).iterator(chunk_size=2000):
        model = by_twin if twin else by_step
        role = "transition_model" if perturbation == "none" else "twin_maker"
        declared = DeclaredModel(model, role) if model else None
        found.setdefault(source_name(label, perturbation), set()).add(declared)
    only = {name: next(iter(models)) for name, models in found.items() if len(models) == 1}
    return {name: declared for name, declared in only.items() if declared is not None}


def find_agent_models(benchmark: Benchmark) -> dict[str, str]:
    """Return the declared model of each agent whose runs all have the same one."""
    found: dict[str, set[str | None]] = defaultdict(set)
    for cast, model in benchmark.episodes.order_by().values_list("cast", "run__setup__cast__agent__model").distinct():
        found[cast].add(model)
    return {cast: model for cast, models in found.items() if len(models) == 1 and (model := next(iter(models)))}


def find_successors(study: Study | None, benchmark: Benchmark | None) -> dict[str, tuple[str, ...]]:
    """Return the models that casts of these runs declare to be successors, by the model that each stands for."""
    told: list[Mapping[str, str] | None] = []
    if study is not None:
        rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
        for column in (f"twin__{_SUCCESSORS}", f"transition__episode__{_SUCCESSORS}"):
            told += rows.values_list(column, flat=True).distinct()
    if benchmark is not None:
        told += benchmark.runs.order_by().values_list("setup__cast__successor_of", flat=True)
    return _by_original(one for one in told if one)


def _by_original(told: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in told:
        for successor, original in one.items():
            found[original].add(successor)
    return {original: tuple(sorted(successors)) for original, successors in found.items()}
