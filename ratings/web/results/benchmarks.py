"""Pages of benchmarks: agents compared over a frozen set of runs, for people with access to the laboratory."""

from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from ratings.models import Analysis, Benchmark
from ratings.results import stored_figures
from ratings.results.benchmarks import store
from ratings.results.benchmarks.store import BenchmarkError
from ratings.studies import access
from ratings.web.results import result_files
from simulation.models import Job, Run
from simulation.web import StaffRequest, staff_only

# In the order of the page: a figure and the table below it.
SECTIONS = (
    ("pass_at_k", "pass_at_k"), ("", "comparisons"), ("failures", "failures"), ("cost", "cost"), ("", "tasks"),
    ("fractions", "fractions"), ("agreement_matrix", "agreement_matrix"), ("conditional_matrix", "conditional_matrix"),
)  # fmt: skip


class BenchmarkForm(forms.Form):
    """A name, a note and the runs to freeze."""

    name = forms.CharField(max_length=120, strip=True, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    note = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What is compared, and why. Shown on the page and in the JSON results.",
    )


@staff_only
@require_safe
def list_benchmarks(request: StaffRequest) -> HttpResponse:
    """Show all benchmarks, newest first."""
    # The runs of all benchmarks in one query more, instead of one for each row.
    rows = Benchmark.objects.select_related("created_by").prefetch_related("runs")
    return render(request, "ratings/benchmarks.html", {"benchmarks": rows})


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def create_benchmark(request: StaffRequest) -> HttpResponse:
    """Create a benchmark from the chosen runs. All problems of a choice are shown at once, and no input is lost."""
    form = BenchmarkForm(request.POST if request.method == "POST" else None)
    # Anything that is not a UUID would raise an error in the query.
    chosen = {code for code in request.POST.getlist("run") if _is_uuid(code)}
    problems: list[str] = []
    if form.is_valid():
        try:
            runs = list(Run.objects.filter(code__in=chosen))
            new = store.freeze_benchmark(form.cleaned_data["name"], runs, request.user, form.cleaned_data["note"])
        except BenchmarkError as error:
            problems = error.problems
        else:
            # Requests the computation at once, so that the page shows its progress.
            store.get_or_request(new, request.user)
            return redirect("ratings:benchmark", code=new.code)
    # Candidates are read again after an error, with the user's choice ticked.
    lines = [(line, str(line.run.code) in chosen) for line in store.list_candidates()]
    context = {"form": form, "lines": lines, "problems": problems}
    wrong = bool(form.errors or problems)
    return render(request, "ratings/benchmark_new.html", context, status=422 if wrong else 200)


@staff_only
@require_safe
def show_benchmark(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the result, or the progress of its job."""
    row = get_object_or_404(Benchmark.objects.select_related("created_by"), code=code)
    analysis, job = store.get_or_request(row, request.user)
    # The runs of a sealed study must stay hidden from its own team, and other people's studies do not exist for the user.
    readable = access.list_studies(request.user).filter(pk__in=store.find_studies(row).values("pk"))
    context = {
        "benchmark": row,
        "runs": row.runs.order_by("pk"),
        "studies": [study for study in readable if study.is_unblinded],
        "analysis": analysis,
        "job": job,
        "said": _describe_progress(job),
        "parts": _build_sections(row, analysis) if analysis else [],
        "document": analysis.document if analysis else None,
    }
    return render(request, "ratings/benchmark.html", context)


@staff_only
@never_cache
@require_safe
def download_results(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the full document, or status 202 and its job until it is computed."""
    # 202 with the job: a program polls the same URL until it gets the file.
    analysis, job = store.get_or_request(get_object_or_404(Benchmark, code=code), request.user)
    if analysis:
        return result_files.document_response(analysis, f"benchmark-{code}")
    return result_files.pending_response(job, _describe_progress(job))


@staff_only
@never_cache
@require_safe
def download_table(request: StaffRequest, code: UUID, name: str) -> HttpResponse:
    """Return one table, or status 202 and its job until it is computed."""
    # Only the tables that the page offers, so that no internal table of the document gets a URL.
    if name not in {table for _, table in SECTIONS}:
        raise Http404
    analysis, job = store.get_or_request(get_object_or_404(Benchmark, code=code), request.user)
    if analysis:
        return result_files.table_response(analysis, name, f"benchmark-{code}")
    return result_files.pending_response(job, _describe_progress(job))


def _build_sections(benchmark: Benchmark, analysis: Analysis) -> list[dict[str, Any]]:
    """Return the sections of the page: a figure if there is one, and its table."""
    figures = stored_figures.list_stored_figures(analysis, stored_figures.benchmark_links(benchmark))
    tables = analysis.document["tables"]
    return [
        {"name": table, "figure": figures.get(figure), "table": tables[table]}
        for figure, table in SECTIONS
        if tables[table]["rows"]
    ]


def _describe_progress(job: Job | None) -> str:
    """Return a sentence on the progress of a job that has no result yet."""
    if job is None:
        return ""
    failed = job.status in ("failed", "cancelled")
    return "The comparison could not be computed." if failed else "The comparison is being computed."


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


urls: list[URLPattern] = [
    path("benchmarks/", list_benchmarks, name="benchmarks"),
    path("benchmarks/new/", create_benchmark, name="new_benchmark"),
    path("benchmarks/<uuid:code>/", show_benchmark, name="benchmark"),
    path("benchmarks/<uuid:code>/results.json", download_results, name="benchmark_json"),
    path("benchmarks/<uuid:code>/tables/<slug:name>.csv", download_table, name="benchmark_csv"),
]
