"""Tests of figures on pages and as files: stored figures at once, print files by a job, none while the study is sealed."""

import csv
import io
import re
import subprocess
import sys
import zlib
from itertools import islice
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings.models import Analysis, ItemSource, StoredFigure, Study
from ratings.results import stored_figures
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.figures import render
from ratings.studies import lifecycle
from simulation.jobs import jobs
from simulation.models import Job
from tests.ratings.results.figures import documents
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


def read_png_texts(png: bytes) -> dict[str, str]:
    """Return the text chunks of an image by keyword. Checks the checksum of every chunk."""
    texts, place = {}, 8
    while place < len(png):
        size, kind = int.from_bytes(png[place : place + 4]), png[place + 4 : place + 8]
        content = png[place + 8 : place + 8 + size]
        assert zlib.crc32(kind + content) == int.from_bytes(png[place + 8 + size : place + 12 + size])
        if kind == b"iTXt":
            keyword, _, rest = content.partition(b"\0")
            texts[keyword.decode()] = rest[4:].decode()
        place += 12 + size
    return texts


def test_filtered_figures_and_tables_state_their_filter_in_name_title_and_metadata(admin_client, study):
    ItemSource.objects.filter(item__study=study, perturbation="none").update(label="<b>\N{GREEK SMALL LETTER ALPHA}&")
    chosen = Filters(source="<b>\N{GREEK SMALL LETTER ALPHA}&", error="none")
    analysis = store.compute_analysis(study, chosen)
    for one in islice(render.render_all(analysis.document), 2):
        StoredFigure.objects.create(
            analysis=analysis, name=one.name, profile=one.profile, svg=one.svg, summary=one.summary
        )
    said = "Only cast: <b>\N{GREEK SMALL LETTER ALPHA}&; planted error: no planted error."
    end = chosen.file_suffix
    # The cast's name is not safe in a file name, so the name ends in a digest of the filters.
    assert re.fullmatch(r"_source-b_error-none_[0-9a-f]{8}", end)

    def get(name: str, ending: str):
        return admin_client.get(f"{get_figure_url(study, name, ending)}?{chosen.build_query()}")

    svg = get("rates", "svg")
    assert svg["Content-Disposition"] == f'attachment; filename="{study.slug}-rates{end}.svg"'
    root = ElementTree.fromstring(svg.content)
    assert root[0].tag.endswith("title") and root[0].text == f"Rates by source. {said}"
    described = [element.text for element in root.iter("{http://purl.org/dc/elements/1.1/}description")]
    assert described == [said]
    shown = [element for element in root if element.tag.endswith("}text")]
    assert [element.text for element in shown[:2]] == ["Rates by source", said]
    # The caption is above the drawing: two lines of 18 pixels and 8 pixels of room.
    assert root.attrib["viewBox"].split()[1] == "-44" and float(shown[0].attrib["y"]) == 12.5 + 2 - 44

    sent = {}
    for ending in ("pdf", "png"):
        get("rates", ending)
        assert jobs.run_job_here(Job.objects.get(kind="figure", params__ending=ending)).status == "done"
        response = get("rates", ending)
        assert f"-rates{end}.{ending}" in response["Content-Disposition"]
        sent[ending] = b"".join(response.streaming_content)
    title = f"\ufeffRates by source. {said}".encode("utf-16-be").hex().upper().encode()
    assert b"/Title <" + title + b">" in sent["pdf"]
    assert render.reorder_pdf(sent["pdf"]) == sent["pdf"]  # the table of objects is still right
    texts = read_png_texts(sent["png"])
    assert (texts["Title"], texts["Subject"], texts["Description"]) == (f"Rates by source. {said}", study.name, said)

    table = admin_client.get(f"{reverse('ratings:table_csv', args=[study.slug, 'rates'])}?{chosen.build_query()}")
    assert f'filename="{study.slug}-rates{end}.csv"' in table["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(table.content.decode("utf-8-sig"))))
    assert rows and {row["filter"] for row in rows} == {"source=<b>\N{GREEK SMALL LETTER ALPHA}&; error=none"}
    document = admin_client.get(f"{reverse('ratings:results_json', args=[study.slug])}?{chosen.build_query()}")
    assert f"-results{end}.json" in document["Content-Disposition"]
    assert document.json()["filters"]["said"] == said


def test_print_figures_of_filtered_results_show_the_filter_below_the_title():
    document = {**documents.study(), "filters": {"values": {}, "said": "Only rater: R01."}}
    svg = render.render_for_print(document, "rates")
    assert "Only rater: R01. Bars: share of ratings" in "".join(ElementTree.fromstring(svg).itertext())
    assert "Only rater" not in render.render_for_print(documents.study(), "rates")


def test_unfiltered_figures_and_tables_keep_their_names_and_columns(admin_client, study):
    compute_analysis(study)
    names = {
        get_figure_url(study, "rates", "svg"): "rates.svg",
        get_figure_url(study, "rates", "csv"): "rates.csv",
        reverse("ratings:results_json", args=[study.slug]): "results.json",
    }
    for url, name in names.items():
        response = admin_client.get(url)
        assert response["Content-Disposition"] == f'attachment; filename="{study.slug}-{name}"'
    header = admin_client.get(get_figure_url(study, "rates", "csv")).content.decode("utf-8-sig").splitlines()[0]
    assert "filter" not in header
    svg = ElementTree.fromstring(admin_client.get(get_figure_url(study, "rates", "svg")).content)
    assert svg[0].text == "Rates by source" and svg.attrib["viewBox"].startswith("0 0 ")
