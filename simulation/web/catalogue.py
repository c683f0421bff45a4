"""Pages of the experiments and the action catalogue."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from simulation.lab.actions import KINDS
from simulation.lab.experiments import ExperimentSpec
from simulation.models import Experiment
from simulation.runs import benches
from simulation.web.access import StaffRequest, staff_only


class RubricRoute(NamedTuple):
    """The rubric lines of one route. With an empty name, the lines that are required whatever the route."""

    name: str
    lines: list[Mapping[str, Any]]


class ProtocolStep(NamedTuple):
    """A step of the reference protocol with names instead of keys."""

    action: str
    materials: list[str]
    parameters: dict[str, str]
    role: str


@staff_only
@require_safe
def list_experiments(request: StaffRequest) -> HttpResponse:
    # The column contains the complete experiment, which a list does not need.
    rows = Experiment.objects.defer("data").annotate(played=Count("episodes")).order_by("group", "name")
    return render(request, "simulation/experiments.html", {"experiments": rows})


@staff_only
@require_safe
def show_experiment(request: StaffRequest, slug: str) -> HttpResponse:
    """Show the public part of an experiment; its hidden truth is never shown."""
    # The specification, not the stored data: the hidden truth must not reach the template.
    row = get_object_or_404(Experiment, slug=slug)
    spec = benches.get_specification(row)
    context = {
        "experiment": row,
        "provenance": spec.provenance,
        "materials": spec.initial_materials(),
        "protocol": list_protocol_steps(spec),
        "rubric": _group_by_route(spec),
        "shortfalls": spec.shortfalls,
        "manifest": [draft for _, draft in spec.manifest],
        "played": row.episodes.count(),
    }
    return render(request, "simulation/experiment.html", context)


@staff_only
@require_safe
def list_actions(request: StaffRequest) -> HttpResponse:
    types = sorted(benches.get_current_catalogue().types.values(), key=lambda known: known.name)
    groups = [(kind, [known for known in types if known.kind == kind]) for kind in KINDS]
    return render(request, "simulation/actions.html", {"groups": [g for g in groups if g[1]], "total": len(types)})


def _group_by_route(spec: ExperimentSpec) -> list[RubricRoute]:
    """Return the required lines first, then each route's own lines."""
    # The empty route first: its lines are required whatever the route.
    routes = list(dict.fromkeys(["", *(str(line.get("route", "")) for line in spec.rubric)]))
    lines = [RubricRoute(route, [line for line in spec.rubric if line.get("route", "") == route]) for route in routes]
    return [route for route in lines if route.lines]


def list_protocol_steps(spec: ExperimentSpec) -> list[ProtocolStep]:
    """Return the reference protocol.

    Initial materials appear by name, later ones by their label from an earlier step.
    """
    names = {key: draft.name for key, draft in spec.materials}
    return [
        ProtocolStep(
            step["action"],
            [_name_of(key, names) for key in step.get("materials", [])],
            {name: _format_value(value, names) for name, value in step.get("parameters", {}).items()},
            step.get("role", ""),
        )
        for step in spec.protocol
    ]


def _name_of(key: str, names: Mapping[str, str]) -> str:
    # Labels of earlier steps are no materials yet and have no name.
    return names.get(key, key.replace("_", " "))


def _format_value(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, list):
        return ", ".join(_format_value(part, names) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format_value(part, names)}" for key, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # "@" marks a reference to a material in the reference protocol.
    return _name_of(text[1:], names) if text.startswith("@") else text
