"""Find the language models that produced a study's items or ran as agents, and their successors, in runs'
configurations.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ratings.models import Benchmark, ItemSource, Study
from ratings.results.rating_rows import format_source_name

# Paths into the JSON of the frozen run configuration.
_MODEL = "run__setup__cast__transition_model__model"
_SUCCESSORS = "run__setup__cast__successor_of"


class DeclaredModel(NamedTuple):
    """A model's name in the run configuration, and its role: transition_model or twin_maker."""

    model: str
    role: str


def find_declared_models(study: Study) -> dict[str, DeclaredModel]:
    """Return the model that produced the items of each source, by source name, in one query.

    A source is left out if items of it come from rules, people, an import, or more than one model.
    """
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
    """Return the declared model of each agent, by cast.

    An agent is left out if its runs declare different models, or none.
    """
    models_by_cast: dict[str, set[str | None]] = defaultdict(set)
    for cast, model in benchmark.episodes.order_by().values_list("cast", "run__setup__cast__agent__model").distinct():
        models_by_cast[cast].add(model)
    return {
        cast: model for cast, models in models_by_cast.items() if len(models) == 1 and (model := next(iter(models)))
    }


def find_successors(study: Study | None, benchmark: Benchmark | None) -> dict[str, tuple[str, ...]]:
    """Return the declared successors of models, by the name of the original model.

    They are declared by the casts of the runs from which the study's items or the benchmark's episodes come.
    """
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
