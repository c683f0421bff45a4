"""Result pages of an unblinded study and its item pages: they show the stored analysis completely."""

import json
import re
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape

from ratings.models import Analysis, Assignment, ItemSource, MachineRater, Rating, RenderedResults, Study
from ratings.rating import submit
from ratings.results.analyses import analysis_job, sections_raters, store
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.studies import lifecycle
from ratings.templatetags.result_tables import build_page_table
from ratings.web.results import items, result_sections
from simulation.jobs import jobs
from simulation.models import Job, Twin
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db


def rated(by: User, **changes: Any) -> Study:
    """Return a study of ten items with two ratings each: both raters rate the genuine items and one subtle twin plausible, with
    confidence 4."""
    run_factory.create_pool()
    study = study_factory.create_open_study(**changes)
    Study.objects.filter(pk=study.pk).update(created_by=by)
    missed = study.items.filter(source__perturbation="subtle").order_by("pk")[0]
    for rater in study_factory.fill_all_rater_places(study):
        for place in rater.assignments.select_related("item__source"):
            yes = place.item.source.perturbation == "none" or place.item == missed
            submit.submit_rating(place, yes, 4 if yes else 5, uuid.uuid4())
    study.refresh_from_db()
    return study


def unblinded(study: Study) -> Study:
    lifecycle.close_and_unblind(study, User.objects.get_or_create(username="eve")[0])
    study.refresh_from_db()
    return study


def at(name: str, study: Study, *more: Any) -> str:
    return reverse(f"ratings:{name}", args=[study.slug, *more])


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_results_page_shows_the_numbers_of_the_stored_analysis(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    answer = staff.get(at("study", study))
    document = Analysis.objects.get(study=study).document
    shown = {number.name: number for number in answer.context["headline"]}
    assert [entry["name"] for entry in document["headline"]] == ["Ratings collected", *shown]
    # Four genuine items by two raters, all plausible; three obvious twins, all caught; of three subtle twins one was missed by
    # both: 4 of 6 caught.
    by_key = {entry["key"]: shown[entry["name"]].value for entry in document["headline"][1:]}
    detected = by_key["plausible_unperturbed"], by_key["obvious_caught"], by_key["subtle_caught"]
    assert detected == ("100%", "100%", "67%") and len(shown) == 5
    assert answer.context["sample_text"] in text(answer)
    assert answer.context["sample_text"].startswith("20 ratings by 6 raters on 10 items")
    page = text(staff.get(at("results", study, "rates")))
    for row in list_records(document["tables"]["rates"]):
        assert escape(row["source"]) in page
        assert f">{row['rate']:.1%}<" in page
    assert "60% of these items have a planted error" in page
    assert not re.search(r"\sstyle=", page)


def test_key_number_of_kappa_names_the_inference_target() -> None:
    entry = {
        "name": "A",
        "kind": "number",
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "said": "",
        "published": None,
        "reason": "",
    }
    keys = "agreement", "model_agreement", "auc"
    found = result_sections.build_key_numbers({"headline": [{**entry, "key": key} for key in keys]})
    assert [number.target for number in found] == ["for these raters", "for these raters", ""]
    page = re.sub("<[^>]+>", "", render_to_string("ratings/_results_overview.html", {"headline": found}))
    assert "95% interval for these raters: 0.40 to 0.60" in page and "95% interval: 0.40 to 0.60" in page


@pytest.mark.parametrize(("height", "tall"), [("1000", False), ("1000.5", True)])
def test_figure_taller_than_a_printed_page_may_be_split_across_pages(height: str, tall: bool) -> None:
    figure = SimpleNamespace(
        wide=f'<svg viewBox="0 0 700 {height}" width="700" height="{height}" role="img"><g/></svg>',
        summary="",
        notes=[],
    )
    document = {"subject": {"kind": ""}, "tables": {}}
    (panel,) = next(
        part for part in result_sections.build_sections(document, {"misses": figure}) if part.slug == "machines"
    ).panels
    assert panel.tall == tall


def test_results_page_lists_every_statistic_of_the_analysis(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    listed = staff.get(at("study", study)).context["statistics"]
    assert sum(one.total for one in listed) == len(Analysis.objects.get(study=study).document["results"]) > 40
    undefined = [line for one in listed for line in one.lines if line.value == "undefined"]
    assert undefined
    assert all(line.reason for line in undefined)


def test_undefined_statistics_show_the_reason(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.filter(pk=study.pk).update(created_by=ada)
    answer = staff.get(at("study", unblinded(study)))
    numbers = answer.context["headline"]
    assert [number.value for number in numbers] == ["undefined"] * 5
    assert all(number.reason for number in numbers)
    assert answer.context["sample_text"].startswith("0 ratings by 0 raters on 0 items")
    assert "closed before anyone rated" in text(answer)


def test_result_filters_are_in_the_url_the_chips_and_every_link(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    page = text(staff.get(at("study", study), {"error": "subtle", "rater": "R01"}))
    assert page.count('<option value="R01" selected>') == 1
    assert f'href="{at("study", study)}?rater=R01"' in page  # the filters that remain without the other chip
    assert f'href="{at("study", study)}?error=subtle"' in page
    links = re.findall(r'href="([^"]*(?:\.csv|results\.json)[^"]*)"', page)
    assert links[0].startswith(at("ratings_csv", study))  # the button at the top
    assert links
    assert all(link.endswith("?error=subtle&amp;rater=R01") for link in links), links
    assert "Only planted error: subtle error; rater: R01." in page
    first = staff.get(at("study", study), {"error": "subtle", "rater": "R01"}).context["sample_text"]
    own = Rating.objects.filter(assignment__rater__label="R01", assignment__item__source__perturbation="subtle")
    assert first.startswith(f"{own.count()} rating{'s' * (own.count() > 1)} by 1 rater on ")
    assert 0 < own.count() < 20
    # With any filter, raters saw six planted errors in ten items.
    said = "In the whole study, 60% of the rated items have a planted error"
    assert said in page and said in text(staff.get(at("study", study), {"error": "none"}))


def test_result_sections_have_their_own_pages_with_the_filters_of_the_url(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    jobs.run_job_here(store.get_or_request(study, Filters(error="subtle")).job)
    overview = staff.get(at("study", study), {"error": "subtle"})
    links = {link.slug: link.url for link in overview.context["links"]}
    assert links["rates"] == f"{at('results', study, 'rates')}?error=subtle"
    # Filters by error leave no false alarms, so there is no ROC curve; every section that is listed has content.
    assert {"rates", "agreement", "raters", "items", "statistics", "about"} <= set(links)
    for slug, url in links.items():
        answer = staff.get(url)
        page, title = text(answer), result_sections.TITLES.get(slug, study.name)
        assert f"<title>{escape(title)} · " in page
        assert f'href="{escape(url)}" aria-current="page">' in page
        assert "Nothing to show" not in page and "No ratings" not in page
        if slug != "about":
            assert "Only planted error: subtle error." in page and f'action="{url.partition("?")[0]}"' in page
    assert len(text(overview).encode()) < 300_000


def test_result_section_without_results_says_so(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    ItemSource.objects.filter(perturbation="none").update(action="Centrifuge")
    answer = staff.get(at("results", study, "contrasts"), {"rater": "R01", "error": "subtle"})
    assert answer.status_code == 200 and "Nothing to show" in text(answer)
    assert "No rating matches these filters." in text(
        staff.get(at("results", study, "rates"), {"error": "subtle", "action": "Centrifuge"})
    )
    assert staff.get(f"/studies/{study.slug}/results/other/").status_code == 404


def test_result_sections_of_a_sealed_study_lead_to_its_page(staff: Client, ada: User) -> None:
    study = rated(ada)
    answer = staff.get(at("results", study, "rates"))
    assert (answer.status_code, answer["Location"]) == (302, at("study", study))


def test_results_keep_the_addresses_from_when_they_were_one_page(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    answer = staff.get(at("study", study), {"matrix": "all", "rater": "R01"})
    assert answer["Location"] == f"{at('results', study, 'items')}?matrix=all&rater=R01"
    page = text(staff.get(at("study", study)))
    # Each anchor of the former page is that of the link to the page that has its content now.
    for anchor in ("rates", "agreement", "groups", "raters", "items", "statistics", "about"):
        assert f'<li id="{anchor}"><a href="{at("results", study, anchor)}"' in page
    assert f'<a id="panel-raters" href="{at("results", study, "raters")}#panel-raters">' in page


def test_result_notes_that_figures_share_are_stated_once() -> None:
    figure = SimpleNamespace(wide="", summary="", notes=["Whiskers: intervals.", "Only here."])
    other = SimpleNamespace(wide="", summary="", notes=["Whiskers: intervals."])
    document = {"subject": {"kind": ""}, "tables": {}}
    (section,) = result_sections.build_sections(document, {"rates": figure, "roc": other})
    assert section.notes == ["Whiskers: intervals."]
    assert [panel.notes for panel in section.panels] == [["Only here."], []]


def test_unknown_result_filter_is_reported_and_ignored(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    answer = staff.get(at("study", study), {"error": "<b>x", "colour": "red"})
    assert answer.context["sample_text"].startswith("20 ratings by 6 raters")
    assert "This study has no planted error &#x27;&lt;b&gt;x&#x27;" in text(answer)
    assert "There is no filter &#x27;colour&#x27;" in text(answer)


def test_result_filters_without_matches_show_a_message(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    ItemSource.objects.filter(perturbation="none").update(action="Centrifuge")
    answer = staff.get(at("study", study), {"error": "subtle", "action": "Centrifuge"})
    assert "No rating matches these filters." in text(answer)


def test_contested_items_show_all_ratings_and_marked_rows(staff: Client, ada: User) -> None:
    study = rated(ada)
    Assignment.objects.update(marks="always")
    one = Rating.objects.filter(assignment__item__source__perturbation="none").order_by("pk")[0]
    Rating.objects.filter(pk=one.pk).update(verdict=False, confidence=2, marks=["A:Volume"])
    (line,) = staff.get(at("study", unblinded(study))).context["contested"]
    assert line.row["item"] == str(one.assignment.item.code)
    assert [(cell.side, cell.text) for cell in line.strip] == [("yes", "+4"), ("no", "\N{MINUS SIGN}2")]
    assert [(tick.label, tick.raters, tick.planted) for tick in line.ticks] == [("A: Volume", 1, False)]


def test_contested_items_beyond_the_table_are_counted(
    staff: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = rated(ada)
    for item in study.items.filter(source__perturbation="none").order_by("pk")[:3]:
        one = Rating.objects.filter(assignment__item=item).order_by("pk")[0]
        Rating.objects.filter(pk=one.pk).update(verdict=False)
    unblinded(study)
    monkeypatch.setattr(items, "MAX_ITEMS", 2)
    monkeypatch.setattr(sections_raters, "CONTESTED", 3)
    page = text(staff.get(at("results", study, "items")))
    # The subtle twin that both missed is disputed and comes first: two of the three remain in the table.
    assert "2 of 3 items with disagreement" in page
    Analysis.objects.all().delete()
    monkeypatch.setattr(sections_raters, "CONTESTED", 1)
    page = text(staff.get(at("results", study, "items")))
    assert "Raters disagree about 3 items, but none of them is listed here" in page
    assert "Raters agree on every item" not in page


def test_rating_matrix_contains_every_rating_and_flags_wrong_ones(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    matrix = staff.get(at("study", study)).context["matrix"]
    cells = [cell for row in matrix.rows for cell in row.cells if cell]
    assert (len(matrix.rows), len(cells), matrix.items) == (10, 20, 10)
    assert sum(cell.wrong for cell in cells) == 2
    document = Analysis.objects.get(study=study).document
    row = document["tables"]["matrix"]["rows"][0]
    document["tables"]["matrix"]["rows"] = [
        [*row[:1], f"item {n}", *row[2:]] for n in range(result_sections.MATRIX_CELLS + 1)
    ]
    cut, whole = result_sections.build_matrix(document, {}), result_sections.build_matrix(document, {}, whole=True)
    assert cut and whole
    assert (len(cut.rows), cut.items, len(whole.rows)) == (
        result_sections.MATRIX_CELLS,
        result_sections.MATRIX_CELLS + 1,
        whole.items,
    )


def test_results_of_large_studies_are_computed_by_a_job(
    staff: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "INLINE", 19)
    study = unblinded(rated(ada))
    answer = staff.get(at("study", study))
    job = Job.objects.get(kind="analysis")
    assert "The results are being computed" in text(answer)
    assert f'id="job-{job.code}"' in text(answer)
    Job.objects.filter(pk=job.pk).update(status="failed", error="no room", reason="internal", ended_at=job.created_at)
    assert "The results could not be computed" in text(staff.get(at("study", study)))
    made = store.compute_analysis(study, Filters())
    assert "Its figures could not be drawn." in text(staff.get(at("study", study)))
    analysis_job.draw_figures(made)
    done = text(staff.get(at("study", study)))
    assert "Computed just now from 20 ratings; intervals from 2,000 resamples, seed 0." in done
    assert f'id="job-{job.code}"' not in done


def test_finished_results_are_shown_without_their_document(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    job = store.get_or_request(study, Filters()).job
    assert jobs.run_job_here(job).status == "done"
    with CaptureQueriesContext(connection) as asked:
        page = text(staff.get(at("study", study)))
    read = " ".join(query["sql"] for query in asked.captured_queries)
    assert "renderedresults" in read
    assert not re.search(r'"(document|svg)"|"ratings_(rating|assignment|itemsource)"."(verdict|label|position)"', read)
    # Without stored HTML the page is the same, and the HTML is stored.
    [stored] = RenderedResults.objects.all()
    stored.delete()
    assert remove_tokens(text(staff.get(at("study", study)))) == remove_tokens(page)
    assert RenderedResults.objects.get().content == stored.content


def remove_tokens(page: str) -> str:
    """Return the page without what differs in every response."""
    return re.sub(r'"\w{64}"', "", page)


def test_results_rendered_by_another_release_are_rendered_again(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    jobs.run_job_here(store.get_or_request(study, Filters()).job)
    RenderedResults.objects.update(version="other", content=b"")
    page = text(staff.get(at("study", study)))
    assert "Rates by source" in page
    assert text(staff.get(at("study", study))).count("Rates by source") == page.count("Rates by source")
    assert RenderedResults.objects.get().version != "other"


def test_results_are_not_stored_before_the_figures_are_drawn(staff: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    assert "The full analysis is being computed." in text(staff.get(at("study", study)))
    store.compute_analysis(study, Filters())
    assert "Its figures are being drawn." in text(staff.get(at("study", study)))
    assert not RenderedResults.objects.exists()


def test_every_item_of_the_matrix_is_shown_on_request_although_results_are_stored(
    staff: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_sections, "MATRIX_CELLS", 4)
    study = unblinded(rated(ada))
    jobs.run_job_here(store.get_or_request(study, Filters()).job)
    assert "Show all of them" in text(staff.get(at("results", study, "items")))
    assert "Show all of them" not in text(staff.get(at("results", study, "items"), {"matrix": "all"}))
    assert "Show all of them" in text(staff.get(at("results", study, "items")))


def test_outdated_results_are_labelled(staff: Client, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    study = unblinded(rated(ada))
    store.compute_analysis(study, Filters())
    assert "out of date" not in text(staff.get(at("study", study)))
    monkeypatch.setattr(store, "INLINE", 0)
    study.raters.filter(label="R01").update(dropped=True, withdrawn_at=study.opened_at)
    answer = staff.get(at("study", study))
    assert "out of date" in text(answer)
    assert answer.context["sample_text"].startswith("20 ratings by 6 raters")


def test_sealed_study_shows_expected_precision_and_nothing_by_source(staff: Client, ada: User) -> None:
    study = rated(ada)
    with CaptureQueriesContext(connection) as asked:
        page = text(staff.get(at("study", study)))
    table = ItemSource._meta.db_table
    assert not any(table in query["sql"] for query in asked.captured_queries)
    assert "Expected precision with more data" in page
    assert not Analysis.objects.exists()
    assert not re.search("Error found|All statistics|Subtle errors detected", page)


def test_evidence_results_are_compared_with_the_classifier(staff: Client, ada: User) -> None:
    run_factory.create_evidence_pool()
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_evidence_protocol()), ada)
    lifecycle.open_study(study)
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    answer = staff.get(at("study", unblinded(study)))
    assert answer.context["parts"][0].slug == "machines"
    assert "offline/checklist" in text(answer)
    assert answer.context["design"] == ""


def test_results_page_escapes_text_from_models_and_files(staff: Client, ada: User) -> None:
    study = rated(ada)
    ItemSource.objects.filter(item__study=study).update(label="<script>1</script>", experiment="<i>e", action="<i>a")
    item = study.items.filter(source__perturbation="subtle")[0]
    machine = MachineRater.objects.create(study=study, label="M1", cast="x", name="<script>m</script>")
    machine.ratings.create(
        item=item, verdict=False, confidence=3, payload_sha256="0" * 64, reasoning="<script>r</script>"
    )
    Twin.objects.update(explanation="<script>w</script>")
    unblinded(study)
    pages = [at("results", study, section) for section in ("rates", "groups", "items", "statistics")]
    for address in (*pages, at("items", study), at("item", study, item.code)):
        page = text(staff.get(address))
        assert "&lt;script&gt;" in page
        assert not re.search(r"<script>[1mrw]|<i>[ea]", page)


def test_item_page_shows_the_twin_beside_its_original(staff: Client, ada: User) -> None:
    study = rated(ada)
    item = study.items.filter(source__perturbation="subtle").select_related("source__twin__transition")[0]
    ItemSource.objects.filter(item=item).update(target=["A:Volume"])
    Assignment.objects.update(marks="always")
    ticking = Rating.objects.filter(assignment__item=item).order_by("pk")[0]
    Rating.objects.filter(pk=ticking.pk).update(marks=["A:Volume", "missing"])
    answer = staff.get(at("item", unblinded(study), item.code))
    lines = {line.key: line for line in answer.context["lines"]}
    number = item.source.twin.transition.number
    # run_factory.twin: the sample of step n has n + 110 mL afterwards, in the first subtle twin n + 121 mL
    assert (lines["A:Volume"].original, lines["A:Volume"].shown) == (f"{number + 110} mL", f"{number + 121} mL")
    assert (lines["A:Volume"].planted, lines["A:Volume"].ticked, answer.context["could"]) == (True, 1, 2)
    assert lines["missing"].ticked == 1
    heat = {one.label: (one.ticked, one.strength, one.planted) for one in answer.context["heat"]}
    # marked by one of two raters: half of five steps, rounded up
    assert heat["Sample (A), Volume"] == (1, 3, True)
    page = text(answer)
    assert "planted error</span>" in page
    assert "LEAK-why" in page
    assert reverse("simulation:episode", args=[item.source.twin.transition.episode.code]) in page


def test_item_page_has_no_laboratory_links_for_analysts(client: Client, ada: User) -> None:
    study = unblinded(rated(ada))
    ana = User.objects.create_user("ana")
    study.members.create(user=ana, role="analyst")
    client.force_login(ana)
    item = study.items.filter(source__perturbation="subtle")[0]
    page = text(client.get(at("item", study, item.code)))
    assert "/episodes/" not in page
    assert "Where it came from" in page


def test_item_page_shows_model_raters_beside_people(staff: Client, ada: User) -> None:
    study = rated(ada)
    item = study.items.filter(source__perturbation="subtle")[0]
    machine = MachineRater.objects.create(study=study, label="M1", cast="checker", name="conservation checker")
    machine.ratings.create(item=item, verdict=False, payload_sha256="0" * 64, reasoning="volume does not add up")
    other = MachineRater.objects.create(study=study, label="M2", cast="x/y", name="y")
    other.ratings.create(item=item, failed="malformed", error="no JSON in it", payload_sha256="0" * 64)
    page = text(staff.get(at("item", unblinded(study), item.code)))
    assert "2 by people, 2 by models" in page
    for said in ("conservation checker", "volume does not add up", "no verdict: malformed", "no JSON in it"):
        assert said in page


def test_item_pages_are_sealed_until_unblinding(staff: Client, ada: User) -> None:
    study = rated(ada)
    code = study.items.all()[0].code
    assert b"offline" not in staff.get(at("items", study)).content
    assert staff.get(at("item", study, code)).status_code == 404
    unblinded(study)
    assert b"1 disputed item." in staff.get(at("items", study)).content
    assert staff.get(at("items", study), {"show": "disputed", "page": "x"}).context["page"].paginator.count == 1
    assert staff.get(at("item", study, code)).status_code == 200
    assert staff.get(at("item", study, uuid.uuid4())).status_code == 404


def test_result_page_query_count_does_not_grow_with_items(staff: Client, ada: User) -> None:
    run_factory.create_pool(40)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = study_factory.create_open_study(raters=2, sources=source, slug=f"study-{count}")
        Study.objects.filter(pk=study.pk).update(created_by=ada)
        for rater in study.raters.all():
            study_factory.rate_everything(rater)
        code = unblinded(study).items.order_by("pk")[0].code
        jobs.run_job_here(store.get_or_request(study, Filters()).job)
        own = []
        for address in (at("study", study), at("items", study), at("item", study, code)):
            with CaptureQueriesContext(connection) as queries:
                assert staff.get(address).status_code == 200
            own.append(len(queries))
        asked.append(own)
    assert asked[0] == asked[1]
    assert max(asked[0]) <= 40


def test_result_table_formats_small_p_values_and_internal_names() -> None:
    kinds = {"p": "number", "threshold": "number", "median_seconds": "number", "error_kind": "text", "verdict": "flag"}
    titles = {"error_kind": "Kind of error"}
    columns = [
        {"name": name, "title": titles.get(name, name), "meaning": "", "kind": kind} for name, kind in kinds.items()
    ]
    rows = [[0.0001, -5, 0.02, "another_phase", 1], [0.0485, 1, 61.2, "", 0]]
    shown = build_page_table({"title": "T", "columns": columns, "rows": rows, "notes": []})
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["< 0.001", "\N{MINUS SIGN}5", "under 1 s", "another phase", "yes"], ["0.049", "1", "61 s", "–", "no"],
    ]  # fmt: skip


def test_contrast_table_is_complete_and_grouped_by_family() -> None:
    kinds = {
        "family": "text", "first": "text", "second": "text", "quantity": "text", "first_value": "number", "difference": "number",
        "p_holm": "number", "shared_items": "count", "reason": "text",
    }  # fmt: skip
    columns = [
        {"name": name, "title": name, "meaning": f"what {name} is", "kind": kind} for name, kind in kinds.items()
    ]
    rows = [["experiments", f"E{at}", "O", "rate", 0.5, 0.1, 0.01 if at < 2 else 0.4, None, ""] for at in range(70)]
    rows += [["raters", "<b>R1</b>", "O", "rate", 0.5, 0.1, 0.05, 4, "few"]]
    rows += [["experiments", "E70", "O", "rate", 0.5, None, None, None, ""]]
    table = {"title": "T", "columns": columns, "rows": rows, "notes": ["a note"]}
    shown = build_page_table(table)
    assert [(one.name, len(one.rows), one.clear) for one in shown.groups] == [("experiments", 71, 2), ("raters", 1, 0)]
    assert shown.total == 72 and not shown.rows
    # The name of a row is one cell, with the difference next to it; columns that are empty in a family are left out.
    titles = ["Contrast", "difference", "p_holm", "first_value"]
    assert [head.title for head in shown.groups[0].heads] == titles
    assert [head.title for head in shown.groups[1].heads] == [*titles, "shared_items", "reason"]
    assert [cell.text for cell in shown.groups[1].rows[0]] == [
        "<b>R1</b> minus O, rate",
        "0.10",
        "0.050",
        "0.50",
        "4",
        "few",
    ]
    page = render_to_string("ratings/_result_table.html", {"table": table})
    assert all(f"<bdi>E{at} minus O, rate</bdi>" in page for at in range(71)) and "&lt;b&gt;R1&lt;/b&gt;" in page
    assert re.search(r'Experiments <span class="muted">\(71; 2 with Holm.s p below .05\)</span>', page)
    assert re.search(r'Raters <span class="muted">\(1\)</span>', page)
    assert page.count("a note") == 1 and page.count("what reason is") == 1 and "rows; the CSV" not in page


def test_sealed_study_labels_the_expected_precision(staff: Client, ada: User) -> None:
    page = text(staff.get(at("study", rated(ada))))
    start = page.index("Expected precision with more data")
    order = [page.index(said, start) for said in ("Share rated plausible", "Kappa between raters", "AUC")]
    assert order == sorted(order)


def test_result_table_shows_both_ends_of_an_interval_in_one_cell() -> None:
    columns = [
        {"name": name, "title": title, "meaning": "", "kind": kind}
        for name, title, kind in (
            ("source", "Source", "text"), ("low", "Low", "share"), ("high", "High", "share"), ("auc_low", "AUC low", "number"),
            ("auc_high", "AUC high", "number"), ("localised", "Located", "count"), ("localised_of", "of", "count"),
            ("reason", "Reason", "text"),
        )
    ]  # fmt: skip
    rows = [["a", 0.25, 0.5, 0.5, 1, 3, 4, ""], ["b", None, None, 0.4, 0.6, 0, 0, ""]]
    shown = build_page_table({"title": "T", "columns": columns, "rows": rows, "notes": []})
    assert [head.title for head in shown.heads] == ["Source", "95% interval", "AUC interval", "Located"]
    assert [[cell.text for cell in row] for row in shown.rows] == [
        ["a", "25.0% to 50.0%", "0.50 to 1.00", "3 of 4"], ["b", "–", "0.40 to 0.60", "–"],
    ]  # fmt: skip
    assert json.dumps(rows)  # the table itself is not changed
