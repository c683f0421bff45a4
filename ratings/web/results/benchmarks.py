"""Pages of benchmarks: agents compared over a frozen set of runs, for people with access to the laboratory."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from ratings.models import Analysis, Benchmark, Study
from ratings.results import drawings
from ratings.results.benchmarks import freezing, store
from ratings.results.benchmarks.freezing import BenchmarkError
from ratings.studies import access
from ratings.web.results import results
from simulation.models import Job, Run
from simulation.web import StaffRequest, staff_only

# In the order of the page: a figure and the table below it.
PARTS = (
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
def benchmarks(request: StaffRequest) -> HttpResponse:
    """Show all benchmarks, newest first."""
    # The runs of all benchmarks in one query more, instead of one for each row.
    rows = Benchmark.objects.select_related("created_by").prefetch_related("runs")
    return render(request, "ratings/benchmarks.html", {"benchmarks": rows})


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def new_benchmark(request: StaffRequest) -> HttpResponse:
    """Choose runs. All objections to a choice are shown at once, and no input is lost."""
    form = BenchmarkForm(request.POST if request.method == "POST" else None)
    # Anything that is not a UUID would raise an error in the query.
    chosen = {code for code in request.POST.getlist("run") if _is_code(code)}
    problems: list[str] = []
    if form.is_valid():
        try:
            runs = list(Run.objects.filter(code__in=chosen))
            new = freezing.freeze(form.cleaned_data["name"], runs, request.user, form.cleaned_data["note"])
        except BenchmarkError as error:
            problems = error.problems
        else:
            # Requests the computation at once, so that the page shows its progress.
            store.look(new, request.user)
            return redirect("ratings:benchmark", code=new.code)
    # Candidates are read again after an error, with the user's choice ticked.
    lines = [(line, str(line.run.code) in chosen) for line in freezing.candidates()]
    context = {"form": form, "lines": lines, "problems": problems}
    wrong = bool(form.errors or problems)
    return render(request, "ratings/benchmark_new.html", context, status=422 if wrong else 200)


@staff_only
@require_safe
def benchmark(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the result, or the progress of its job."""
    row = get_object_or_404(Benchmark.objects.select_related("created_by"), code=code)
    analysis, job = store.look(row, request.user)
    context = {
        "benchmark": row,
        "runs": row.runs.order_by("pk"),
        "studies": _studies(row, request.user),
        "analysis": analysis,
        "job": job,
        "said": _said(job),
        "parts": _parts(row, analysis) if analysis else [],
        "document": analysis.document if analysis else None,
    }
    return render(request, "ratings/benchmark.html", context)


@staff_only
@never_cache
@require_safe
def results_json(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the full document; 202 with its job until it is computed."""
    analysis, job = store.look(get_object_or_404(Benchmark, code=code), request.user)
    # 202 with the job: a program polls the same URL until it gets the file.
    return results.whole(analysis, f"benchmark-{code}") if analysis else results.pending(job, _said(job))


@staff_only
@never_cache
@require_safe
def table_csv(request: StaffRequest, code: UUID, name: str) -> HttpResponse:
    """Return one table; 202 with its job until it is computed."""
    # Only the tables that the page offers, so that no internal table of the document gets a URL.
    if name not in {table for _, table in PARTS}:
        raise Http404
    analysis, job = store.look(get_object_or_404(Benchmark, code=code), request.user)
    return results.table(analysis, name, f"benchmark-{code}") if analysis else results.pending(job, _said(job))


def _studies(benchmark: Benchmark, user: User) -> list[Study]:
    """Return unblinded studies with items from these runs that this user may read."""
    # The runs of a sealed study must stay hidden from its own team, and other people's studies do not exist for
    # the user.
    readable = access.studies_of(user).filter(pk__in=freezing.studies_of(benchmark).values("pk"))
    return [study for study in readable if study.is_unblinded]


def _parts(benchmark: Benchmark, analysis: Analysis) -> list[dict[str, Any]]:
    """Return the sections of the page: a figure if there is one, and its table."""
    figures = drawings.shown(analysis, drawings.benchmark_links(benchmark))
    tables = analysis.document["tables"]
    return [
        {"name": table, "figure": figures.get(figure), "table": tables[table]}
        for figure, table in PARTS
        if tables[table]["rows"]
    ]


def _said(job: Job | None) -> str:
    """Return the progress of a job without a result."""
    if job is None:
        return ""
    failed = job.status in ("failed", "cancelled")
    return "The comparison could not be computed." if failed else "The comparison is being computed."


def _is_code(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


urls: list[URLPattern] = [
    path("benchmarks/", benchmarks, name="benchmarks"),
    path("benchmarks/new/", new_benchmark, name="new_benchmark"),
    path("benchmarks/<uuid:code>/", benchmark, name="benchmark"),
    path("benchmarks/<uuid:code>/results.json", results_json, name="benchmark_json"),
    path("benchmarks/<uuid:code>/tables/<slug:name>.csv", table_csv, name="benchmark_csv"),
]
