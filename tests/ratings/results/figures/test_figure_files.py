"""Tests of figures on pages and as files: stored figures at once, print files by a job, none while the study is sealed."""

import subprocess
import sys
from itertools import islice

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings.models import Analysis, StoredFigure, Study
from ratings.results import stored_figures
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.figures import render
from ratings.studies import lifecycle
from simulation.jobs import jobs
from simulation.models import Job
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def study(admin_user) -> Study:
    run_factory.create_pool()
    made = study_factory.create_open_study(raters=2)
    for rater in made.raters.all():
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(made, admin_user)
    made.refresh_from_db()
    return made


def compute_analysis(study: Study) -> Analysis:
    """Compute the unfiltered analysis, and store drawings of its first three figures."""
    made = store.compute_analysis(study, Filters())
    for one in islice(render.render_all(made.document), 6):
        StoredFigure.objects.create(analysis=made, name=one.name, profile=one.profile, svg=one.svg, summary=one.summary)
    return made


def get_figure_url(study: Study, name: str, ending: str) -> str:
    return reverse("ratings:figure", kwargs={"slug": study.slug, "name": name, "ending": ending})


def test_figure_svg_and_csv_are_sent_immediately_and_print_files_after_one_job(admin_client, study):
    compute_analysis(study)
    svg = admin_client.get(get_figure_url(study, "rates", "svg"))
    assert svg["Content-Type"] == "image/svg+xml" and "rates.svg" in svg["Content-Disposition"]
    text = svg.content.decode()
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<svg ') and '<rect width="100%"' in text
    csv = admin_client.get(get_figure_url(study, "violins", "csv"))
    # The CSV is the table of the figure, under the name of that table.
    assert (
        csv.content.decode("utf-8-sig").startswith('"source","verdict","n","median","mean"')
        and "spread.csv" in csv["Content-Disposition"]
    )

    for ending, begins in (("pdf", b"%PDF-1.7"), ("png", b"\x89PNG")):
        first, second = (admin_client.get(get_figure_url(study, "rates", ending)) for _ in range(2))
        job = Job.objects.get(kind="figure", params__ending=ending)
        assert first.status_code == 302 and first.url == second.url == reverse("ratings:job", args=[job.code])
        assert jobs.run_job_here(job).status == "done"
        sent = admin_client.get(get_figure_url(study, "rates", ending))
        body = b"".join(sent.streaming_content)
        assert body.startswith(begins) and len(body) == int(sent["Content-Length"])

    # An unknown figure, one of benchmarks and one without data: none of them starts a job.
    for name in ("no-such-figure", "pass_at_k", "human_model"):
        assert admin_client.get(get_figure_url(study, name, "pdf")).status_code == 404
    assert Job.objects.filter(kind="figure").count() == 2
    unknown = admin_client.get(get_figure_url(study, "rates", "svg") + "?source=nobody")
    assert unknown.status_code == 400 and "nobody" in unknown.content.decode()


def test_stored_figures_are_loaded_in_one_query_with_their_file_urls(study):
    analysis = Analysis.objects.create(
        study=study,
        key="k",
        state_digest="m",
        version=1,
        seed=0,
        resamples=0,
        data_sha256="",
        n_ratings=0,
        document={},
        sha256="",
    )
    for name, profile in (("rates", "wide"), ("rates", "narrow"), ("roc", "wide")):
        StoredFigure.objects.create(
            analysis=analysis, name=name, profile=profile, svg=f"<svg {profile}", summary="said"
        )
    with CaptureQueriesContext(connection) as queries:
        found = stored_figures.list_stored_figures(analysis, stored_figures.study_links(study, "source=offline"))
    assert len(queries) == 1
    # A figure that has only one of its two sizes is omitted.
    assert list(found) == ["rates"]
    rates = found["rates"]
    assert (rates.title, rates.summary, rates.wide, rates.narrow) == (
        "Rates by source",
        "said",
        "<svg wide",
        "<svg narrow",
    )
    assert hasattr(rates.wide, "__html__") and hasattr(rates.narrow, "__html__")
    assert [file.label for file in rates.files] == ["SVG", "PDF", "PNG", "CSV"]
    assert rates.files[1].url == get_figure_url(study, "rates", "pdf") + "?source=offline"


def test_figure_file_redirects_to_the_analysis_job_if_there_is_no_analysis(admin_client, study):
    response = admin_client.get(get_figure_url(study, "rates", "svg"))
    assert response.url == reverse("ratings:job", args=[Job.objects.get(kind="analysis").code])


def test_figure_csv_is_available_before_the_figures_are_drawn(admin_client, study):
    store.compute_analysis(study, Filters())
    csv = admin_client.get(get_figure_url(study, "rates", "csv"))
    assert csv.status_code == 200 and csv.content.decode("utf-8-sig").startswith('"source","error","k","n",')
    # There are no model ratings, so there is no table to download.
    assert admin_client.get(get_figure_url(study, "human_model", "csv")).status_code == 404
    for ending in ("svg", "pdf"):
        response = admin_client.get(get_figure_url(study, "rates", ending))
        job = Job.objects.get(kind="analysis")
        assert response.status_code == 302 and response.url == reverse("ratings:job", args=[job.code])
    assert jobs.run_job_here(job).status == "done"
    assert admin_client.get(get_figure_url(study, "rates", "svg"))["Content-Type"] == "image/svg+xml"


def test_figure_file_of_a_sealed_study_returns_404(admin_client):
    run_factory.create_pool()
    assert admin_client.get(get_figure_url(study_factory.create_open_study(), "rates", "svg")).status_code == 404


def test_pages_import_no_drawing_or_statistics_library():
    asked = (
        "import django, sys; django.setup(); import ratings.urls, ratings.results.stored_figures; "
        "print({'altair', 'vl_convert', 'scipy.stats', 'sklearn', 'pandas'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert (run.stdout.strip(), run.stderr) == ("set()", "")
