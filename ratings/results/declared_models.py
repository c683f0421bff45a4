"""Which language models made the items of a study, as the frozen configuration of each run declares them, and their successors."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ratings.models import Benchmark, ItemSource, Study
from ratings.results.rating_rows import format_source_name

# Paths into the JSON of the frozen run configuration.
_MODEL = "run__setup__cast__transition_model__model"
_SUCCESSORS = "run__setup__cast__successor_of"


class DeclaredModel(NamedTuple):
    """The name of a model in the run configuration, and its role: transition_model or twin_maker."""

    model: str
    role: str


def find_declared_models(study: Study) -> dict[str, DeclaredModel]:
    """Return the model behind each source, by source name, in one query.

    Sources are left out if their items come from rules, people, an import, or more than one model.
    """
    rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
    columns = "label", "perturbation", "twin", f"twin__{_MODEL}", f"transition__episode__{_MODEL}"
    models_by_source: dict[str, set[DeclaredModel | None]] = {}
    for label, perturbation, twin, by_twin, by_step in rows.values_list(*columns).iterator(chunk_size=2000):
        # A twin's source is whoever planted the error; an unperturbed step's is its simulator.
        model = by_twin if twin else by_step
        role = "transition_model" if perturbation == "none" else "twin_maker"
        # None stays in the set: a source that only partly comes from a model is not that model's.
        declared = DeclaredModel(model, role) if model else None
        models_by_source.setdefault(format_source_name(label, perturbation), set()).add(declared)
    unique_models = {name: next(iter(models)) for name, models in models_by_source.items() if len(models) == 1}
    return {name: declared for name, declared in unique_models.items() if declared is not None}


def find_agent_models(benchmark: Benchmark) -> dict[str, str]:
    """Return the declared model of each agent, by cast. Agents whose runs differ in their model are left out."""
    models_by_cast: dict[str, set[str | None]] = defaultdict(set)
    for cast, model in benchmark.episodes.order_by().values_list("cast", "run__setup__cast__agent__model").distinct():
        models_by_cast[cast].add(model)
    return {
        cast: model for cast, models in models_by_cast.items() if len(models) == 1 and (model := next(iter(models)))
    }


def find_successors(study: Study | None, benchmark: Benchmark | None) -> dict[str, tuple[str, ...]]:
    """Return the successors that the casts of these runs declare, by the name of the original model."""
    declarations: list[Mapping[str, str] | None] = []
    if study is not None:
        rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by()
        for column in (f"twin__{_SUCCESSORS}", f"transition__episode__{_SUCCESSORS}"):
            declarations += rows.values_list(column, flat=True).distinct()
    if benchmark is not None:
        declarations += benchmark.runs.order_by().values_list("setup__cast__successor_of", flat=True)
    return _group_by_original(declaration for declaration in declarations if declaration)


def _group_by_original(declarations: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    successors_of: dict[str, set[str]] = defaultdict(set)
    for declaration in declarations:
        for successor, original in declaration.items():
            successors_of[original].add(successor)
    return {original: tuple(sorted(successors)) for original, successors in successors_of.items()}
