"""The job that computes a benchmark and draws its figures: once, and then it is only read."""

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


def compute(benchmark: Benchmark, tell: Tell = lambda step, of, said: None) -> Analysis:
    """The analysis with its figures, found or made."""
    if found := Analysis.objects.filter(key=store.key_of(benchmark)).first():
        return found
    began = time.monotonic()
    tell(0, 2, "Reading the episodes")
    made = document.make(benchmark, reading.read(benchmark))
    tell(1, 2, "Drawing the figures")
    figures = list(registry.draw(made))
    values = {
        "benchmark": benchmark,
        "mark": benchmark.sha256,
        "version": FORM,
        "seed": SEED,
        "resamples": RESAMPLES,
        "full": True,
        "data_sha256": benchmark.sha256,
        "n_ratings": made["data"]["attempts"],
        "document": made,
        "sha256": digest(made),
        "seconds": round(time.monotonic() - began, 3),
    }
    with transaction.atomic():
        kept, created = Analysis.objects.get_or_create(key=store.key_of(benchmark), defaults=values)
        if created:
            Analysis.objects.filter(benchmark=benchmark).exclude(pk=kept.pk).delete()
            Drawing.objects.bulk_create(
                Drawing(analysis=kept, name=one.name, profile=one.profile, svg=one.svg, summary=one.summary)
                for one in figures
            )
    return kept


@jobs.handles(store.KIND)
def play(work: jobs.Work) -> Mapping[str, Any]:
    benchmark = Benchmark.objects.filter(code=work.params["benchmark"]).first()
    if benchmark is None:
        raise jobs.Failed("The benchmark is there no more.")
    made = compute(benchmark, work.tell)
    here = reverse("ratings:benchmark", kwargs={"code": benchmark.code})
    return {"said": f"{made.n_ratings:,} attempts compared.", "href": here, "label": "See the benchmark"}
