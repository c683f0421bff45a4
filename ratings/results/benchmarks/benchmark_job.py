"""The job that computes the result of a benchmark and draws its figures. Once stored, the result is reused."""

import time
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.urls import reverse

from ratings.models import Analysis, Benchmark, StoredFigure
from ratings.results.analyses.store import ReportProgress, hash_document, ignore_progress
from ratings.results.benchmarks import DOCUMENT_VERSION, RESAMPLES, SEED, document, store
from ratings.results.figures.drawing_process import draw_all
from simulation.jobs import jobs


def compute_benchmark(benchmark: Benchmark, tell: ReportProgress = ignore_progress) -> Analysis:
    """Return the analysis of a benchmark with its figures; compute and store both if they are not stored."""
    if stored := Analysis.objects.filter(key=store.build_key(benchmark)).first():
        return stored
    started = time.monotonic()
    tell(0, 2, "Loading the episodes")
    content = document.build_document(benchmark, document.load_results(benchmark))
    tell(1, 2, "Drawing the figures")
    # Figures are drawn before the transaction starts, so that the transaction is short.
    figures = list(draw_all(content))
    values = {
        "benchmark": benchmark,
        "state_digest": benchmark.sha256,
        "version": DOCUMENT_VERSION,
        "seed": SEED,
        "resamples": RESAMPLES,
        "full": True,
        "data_sha256": benchmark.sha256,
        "n_ratings": content["data"]["attempts"],
        "document": content,
        "sha256": hash_document(content),
        "seconds": round(time.monotonic() - started, 3),
    }
    with transaction.atomic():
        analysis, created = Analysis.objects.get_or_create(key=store.build_key(benchmark), defaults=values)
        if created:
            # Only one result per benchmark is shown, so the results of earlier keys are deleted.
            Analysis.objects.filter(benchmark=benchmark).exclude(pk=analysis.pk).delete()
            StoredFigure.objects.bulk_create(StoredFigure(analysis=analysis, **figure._asdict()) for figure in figures)
    return analysis


@jobs.register_handler(store.KIND)
def run_benchmark(work: jobs.Work) -> Mapping[str, Any]:
    """Compute the result of the requested benchmark."""
    benchmark = Benchmark.objects.filter(code=work.params["benchmark"]).first()
    if benchmark is None:
        raise jobs.JobFailed("The benchmark no longer exists.")
    analysis = compute_benchmark(benchmark, work.report_progress)
    url = reverse("ratings:benchmark", kwargs={"code": benchmark.code})
    return {"said": f"{analysis.n_ratings:,} attempts compared.", "href": url, "label": "View benchmark"}
