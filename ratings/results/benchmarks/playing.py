"""The job that computes a benchmark and draws its figures. It runs once; afterwards the stored result is used."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction
from django.urls import reverse

from ratings.models import Analysis, Benchmark, Drawing
from ratings.results.analyses.document import digest
from ratings.results.benchmarks import FORM, RESAMPLES, SEED, document, reading, store
from ratings.results.figures import registry
from simulation.jobs import jobs

Tell = Callable[[int, int, str], None]


def compute(benchmark: Benchmark, tell: Tell = lambda step, total, message: None) -> Analysis:
    """Return the analysis with its figures: stored, or computed and then stored."""
    if stored := Analysis.objects.filter(key=store.key_of(benchmark)).first():
        return stored
    started = time.monotonic()
    tell(0, 2, "Loading the episodes")
    content = document.make(benchmark, reading.read(benchmark))
    tell(1, 2, "Drawing the figures")
    # Drawn before the transaction, which is then short.
    figures = list(registry.draw(content))
    values = {
        "benchmark": benchmark,
        "mark": benchmark.sha256,
        "version": FORM,
        "seed": SEED,
        "resamples": RESAMPLES,
        "full": True,
        "data_sha256": benchmark.sha256,
        "n_ratings": content["data"]["attempts"],
        "document": content,
        "sha256": digest(content),
        "seconds": round(time.monotonic() - started, 3),
    }
    with transaction.atomic():
        analysis, created = Analysis.objects.get_or_create(key=store.key_of(benchmark), defaults=values)
        if created:
            # Only one result per benchmark is shown, so the results of earlier keys are deleted.
            Analysis.objects.filter(benchmark=benchmark).exclude(pk=analysis.pk).delete()
            Drawing.objects.bulk_create(
                Drawing(
                    analysis=analysis, name=figure.name, profile=figure.profile, svg=figure.svg, summary=figure.summary
                )
                for figure in figures
            )
    return analysis


@jobs.handles(store.KIND)
def play(work: jobs.Work) -> Mapping[str, Any]:
    """Compute the result of the requested benchmark."""
    benchmark = Benchmark.objects.filter(code=work.params["benchmark"]).first()
    if benchmark is None:
        raise jobs.Failed("The benchmark no longer exists.")
    analysis = compute(benchmark, work.tell)
    url = reverse("ratings:benchmark", kwargs={"code": benchmark.code})
    return {"said": f"{analysis.n_ratings:,} attempts compared.", "href": url, "label": "View benchmark"}
