"""The page "Paper and replication": every number, table and figure of the paper beside the result of `make paper`. Staff only."""

from typing import Any, NamedTuple

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.models import Analysis, Benchmark
from ratings.paper import comparison
from ratings.paper.plan import ReplicationNames
from ratings.results import stored_figures
from ratings.results.paper_values import PaperValuesError, load_paper_values
from ratings.studies import access
from simulation.web import StaffRequest, staff_only


class PaperSection(NamedTuple):
    """A section of the paper: its numbers by quantity and study, and the figures that show them."""

    key: str
    title: str
    study: str
    quantities: tuple[str, ...]
    source: str = ""  # transitions, evidence or benchmark
    figures: tuple[tuple[str, str], ...] = ()  # figure, table


GROUPS = (
    PaperSection(
        "steps", "Plausibility of steps (section 5.1, Fig. 3)", "transition_plausibility",
        ("plausibility_rate", "mean_confidence", "avg_pairwise_kappa", "avg_pairwise_agreement", "auc_confidence_correct"),
        "transitions", (("rates", "rates"), ("confidence", "confidence"), ("violins", "spread")),
    ),
    PaperSection("histogram", "Confidence by verdict (Fig. 3)", "transition_plausibility", ("confidence_histogram",)),
    PaperSection(
        "detection", "Detection of planted errors (not in the paper)", "transition_plausibility",
        ("dprime", "specificity", "sensitivity", "mrmc_mean_auc"), "transitions", (("roc", "roc"),),
    ),
    PaperSection(
        "raters", "Raters and classifiers (Table 1)", "evidence_sufficiency",
        ("human_model_kappa", "human_model_agreement", "avg_pairwise_kappa", "avg_pairwise_agreement"),
        "evidence", (("human_model", "human_model"),),
    ),
    PaperSection(
        "classifiers", "Classifiers with each other (section 5.2, Fig. 4)", "evidence_sufficiency",
        ("model_agreement", "conditional_agreement", "sufficient_rate", "majority_sufficient_rate",
         "consensus_sufficient_rate"),
        "benchmark", (("agreement_matrix", "agreement_matrix"), ("conditional_matrix", "conditional_matrix"),
                      ("fractions", "fractions")),
    ),
    PaperSection("goals", "Goals reached (section 5.3, Fig. 5)", "benchmark", ("pass_at_k",), "benchmark",
          (("pass_at_k", "pass_at_k"),)),
)  # fmt: skip
LONG = 12  # a table with more numbers is folded


@staff_only
@never_cache
@require_safe
def show_paper(request: StaffRequest) -> HttpResponse:
    """Show the replication named in the URL, else the one with API keys, else the one with scripted replies."""
    try:
        load_paper_values()
    # The published values are a file that people edit; an error in it must name every problem.
    except PaperValuesError as error:
        return render(request, "ratings/paper_broken.html", {"problems": error.problems}, status=503)
    parts = _choose_replication(request)
    lines = comparison.compare_numbers(parts)
    among = access.list_studies(request.user)
    # The other replication is offered only if it exists.
    other = comparison.find_results(ReplicationNames(not parts.names.scripted), among)
    context = {
        "parts": parts,
        "groups": [_build_section(group, lines, parts) for group in GROUPS],
        "total": len(lines),
        "without": sum(1 for line in lines if line.cell.ours is None),
        "unprinted": sum(1 for line in lines if line.cell.paper is None),
        "other": None if other.is_empty else other.names,
        "studies": among.filter(slug__in=[parts.names.transitions_slug, parts.names.evidence_slug]).order_by("pk"),
        "benchmark": Benchmark.objects.filter(name=parts.names.benchmark_name).first(),
    }
    return render(request, "ratings/paper.html", context)


@staff_only
@never_cache
@require_safe
def download_paper_json(request: StaffRequest) -> HttpResponse:
    """Return the content of paper.json as written by `make paper`."""
    try:
        lines = comparison.compare_numbers(_choose_replication(request))
    # As JSON, because a program asked for it.
    except PaperValuesError as error:
        return JsonResponse({"problems": error.problems}, status=503)
    answer = JsonResponse([line.cell._asdict() for line in lines], safe=False, json_dumps_params={"indent": 1})
    answer["Content-Disposition"] = 'attachment; filename="paper.json"'
    return answer


def _choose_replication(request: StaffRequest) -> comparison.ReplicationResults:
    """Return the replication requested in the URL, else the one with keys if it exists, else the scripted one."""
    requested, studies = request.GET.get("replies"), access.list_studies(request.user)
    if requested in ("scripted", "models"):
        return comparison.find_results(ReplicationNames(requested == "scripted"), studies)
    with_keys = comparison.find_results(ReplicationNames(False), studies)
    return comparison.find_results(ReplicationNames(True), studies) if with_keys.is_empty else with_keys


def _build_section(
    group: PaperSection, lines: list[comparison.ComparisonRow], parts: comparison.ReplicationResults
) -> dict[str, Any]:
    section_lines = [
        line for line in lines if (line.study, line.quantity) in {(group.study, name) for name in group.quantities}
    ]
    analysis: Analysis | None = getattr(parts, group.source) if group.source else None
    return {
        "key": group.key,
        "title": group.title,
        "lines": section_lines,
        "folded": len(section_lines) > LONG,
        "figures": _list_figures(group, analysis) if analysis else [],
    }


def _list_figures(group: PaperSection, analysis: Analysis) -> list[dict[str, Any]]:
    """Return the stored figures of the section with their tables."""
    if analysis.benchmark is not None:
        links = stored_figures.benchmark_links(analysis.benchmark)
    else:
        assert analysis.study is not None  # an analysis belongs to a study or a benchmark
        links = stored_figures.study_links(analysis.study)
    figures, tables = stored_figures.list_stored_figures(analysis, links), analysis.document["tables"]
    return [{"figure": figures[name], "table": tables[table]} for name, table in group.figures if name in figures]


urls: list[URLPattern] = [
    path("paper/", show_paper, name="paper"),
    path("paper/paper.json", download_paper_json, name="paper_json"),
]
