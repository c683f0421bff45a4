"""Filters of an analysis: what a URL may ask for, and that every file uses them."""

import csv
import io
import re

import pytest
from django.http import QueryDict
from django.urls import reverse

from ratings.exchange import exports
from ratings.models import Rater, Rating, Study
from ratings.results.analyses import filters
from ratings.results.analyses.filters import Filters
from ratings.results.rating_rows import RatingRow, iter_rating_rows
from ratings.studies import SealedError, lifecycle
from tests.support import run_factory, study_factory, study_log_texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(admin_user) -> Study:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    lifecycle.close_and_unblind(study, admin_user)
    study.refresh_from_db()
    return study


def parse_filters(study: Study, query: str) -> Filters:
    return filters.parse_query(QueryDict(query), filters.list_choices(study), other_parameters=("page",))


def test_filters_are_the_same_after_a_round_trip_through_url_and_json(study) -> None:
    found = parse_filters(study, "error=subtle&rater=R01&source=&page=2")
    assert found == Filters(error="subtle", rater="R01")
    assert found.build_query() == "error=subtle&rater=R01"
    assert parse_filters(study, found.build_query()) == found == Filters.from_dict(found.to_dict())
    assert found.description == "Only planted error: subtle error; rater: R01."
    assert not parse_filters(study, "page=2") and parse_filters(study, "").description == ""


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("error=subtil", "This study has no planted error 'subtil'; it has none, obvious, subtle."),
        ("sorce=offline", "There is no filter 'sorce'. Available filters: source, experiment, action"),
        ("rater=R01&rater=R02", "Choose one rater at a time; the URL has 2."),
        ("who=people&who=martians", "This study has no who rated 'martians'; it has people."),
    ],
)
def test_unknown_filter_values_are_reported_and_filter_nothing(study, query, told) -> None:
    found = parse_filters(study, query)
    assert not found
    assert told in " ".join(found.unknown)
    assert found.unknown[0].startswith(("This", "There", "Choose"))


def test_filters_select_the_rows_that_have_the_chosen_values(study) -> None:
    def select(**values: str) -> list[RatingRow]:
        return list(iter_rating_rows(study, within=Filters(**values).build_condition()))

    every = list(iter_rating_rows(study))
    kept = select(error="subtle", rater="R02")
    assert kept == [row for row in every if row.perturbation == "subtle" and row.rater == "R02"]
    assert 0 < len(kept) < len(every)
    assert select() == every
    kinds = {row.error_kind for row in every}
    assert kinds == {None, "LEAK-kind"}
    assert {row.perturbation for row in select(error_kind="LEAK-kind")} == {"obvious", "subtle"}


def test_display_filters_leave_out_imported_ratings(study) -> None:
    def count(**values: str) -> int:
        return len(list(iter_rating_rows(study, within=Filters(**values).build_condition())))

    total = count()
    Rating.objects.filter(assignment__rater__label="R01").update(imported=True)
    n_imported = count(who="imported")
    assert n_imported == count(rater="R01") and 0 < n_imported < total
    assert (
        count(who="people") == count(layout="aligned") == count(context="0") == count(marks="off") == total - n_imported
    )
    Rater.objects.filter(label="R02").update(simulated=True)
    assert count(who="simulated") == count(rater="R02") == total - n_imported - count(who="people")
    assert count(context="1") == count(layout="confirm") == 0


def test_ratings_file_uses_the_filters_and_logs_them(study, admin_client) -> None:
    address = reverse("ratings:ratings_csv", kwargs={"slug": study.slug})
    response = admin_client.get(f"{address}?error=none")
    body = b"".join(response.streaming_content).decode()
    found = list(csv.DictReader(io.StringIO(body, newline="")))
    assert {row["perturbation"] for row in found} == {"none"}
    assert len(found) == sum(row.perturbation == "none" for row in iter_rating_rows(study))
    assert '-ratings_error-none.csv"' in response["Content-Disposition"]
    assert study_log_texts.get_event_text(study, "exported") == "with sources. Only planted error: no planted error"


def test_file_with_an_unknown_filter_is_refused_with_its_name(study, admin_client) -> None:
    response = admin_client.get(reverse("ratings:ratings_csv", kwargs={"slug": study.slug}) + "?error=gross")
    assert response.status_code == 400
    assert response.content.decode() == "This study has no planted error 'gross'; it has none, obvious, subtle.\n"
    assert not study.events.filter(kind="exported").exists()


def test_sealed_file_cannot_be_filtered_by_sealed_columns(admin_client) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    known = filters.list_choices(study)
    assert all(known[name] == () for name in filters.SEALED)
    assert [choice.value for choice in known["rater"]] == [f"R0{number}" for number in range(1, 7)]
    address = reverse("ratings:ratings_csv", kwargs={"slug": study.slug})
    refused = admin_client.get(f"{address}?error=subtle")
    assert (refused.status_code, "it is sealed" in refused.content.decode()) == (400, True)
    with pytest.raises(SealedError, match="cannot be filtered by their sources"):
        exports.export_csv_lines(study, blinded=True, filters=Filters(error="subtle"))
    assert not study.events.filter(kind="exported").exists()
    found = b"".join(admin_client.get(f"{address}?rater=R02").streaming_content).decode()
    assert {row["rater"] for row in csv.DictReader(io.StringIO(found, newline=""))} == {"R02"}


def test_filter_choices_take_the_same_queries_for_small_and_large_studies(study, django_assert_num_queries) -> None:
    with django_assert_num_queries(2):
        found = filters.list_choices(study)
    assert [choice.label for choice in found["error"]] == ["no planted error", "obvious error", "subtle error"]
    assert [choice.value for choice in found["who"]] == ["people"]


def test_table_file_contains_numbers_in_full_precision() -> None:
    lines = list(exports.format_table_lines(("a", "b"), [(1 / 3, "=1"), (-0.1, None)], exact=True))
    assert lines == ['"a","b"\r\n', '"0.3333333333333333","\'=1"\r\n', '"-0.1",""\r\n']
    assert float(lines[1].split(",")[0].strip('"')) == 1 / 3
    assert list(exports.format_table_lines(("a",), [(1 / 3,), (-1 / 3,)])) == ['"a"\r\n', '"0.333"\r\n', '"-0.333"\r\n']


def test_file_suffix_of_filters_is_safe_in_file_names_and_differs_for_different_filters() -> None:
    assert Filters().file_suffix == ""
    assert Filters(error="subtle", rater="R01").file_suffix == "_error-subtle_rater-R01"
    # Names of casts come from files and imports: quotes, line breaks, path separators and other scripts are possible.
    hostile = ['../../etc/"x"\r\nSet-Cookie: a', "a b", "a/b", "A.B", "名前", "x" * 300, "x" * 301]
    suffixes = [Filters(source=value).file_suffix for value in hostile]
    assert len(set(suffixes)) == len(hostile)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,100}", suffix) for suffix in suffixes), suffixes
