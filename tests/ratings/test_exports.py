import csv
import io

import factories
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ratings import exports, studies
from ratings.exports import COLUMNS, SEALED, csv_lines, plain
from ratings.models import ItemSource, Study
from ratings.reports import SealedError

pytestmark = pytest.mark.both_databases


@pytest.fixture
def study(db) -> Study:
    factories.pool()
    study = factories.open_study()
    for rater in study.raters.all():
        factories.rate_all(rater)
    return study


def table(study: Study, blinded: bool) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(csv_lines(study, blinded)), newline="")))


def unblinded(study: Study, by: object) -> Study:
    studies.unblind(study, by)
    study.refresh_from_db()
    return study


def test_one_row_per_rating_under_the_columns_of_the_issue(study, admin_user) -> None:
    found = table(unblinded(study, admin_user), blinded=False)
    assert tuple(found[0]) == COLUMNS
    assert len(found) == 20
    sources = {str(s.item.code): s for s in ItemSource.objects.select_related("item")}
    for row in found:
        source = sources[row["item"]]
        assert (row["perturbation"], row["source"]) == (source.perturbation, "offline")
        assert row["truth"] == ("1" if source.perturbation == "none" else "0")
        assert row["pair"] == str(source.pair)
        assert (row["study"], row["simulated"]) == ("small-study", "0")
        assert float(row["seconds"]) >= 0
        assert row["verdict"] in ("0", "1")


def test_an_original_and_its_twins_share_their_pair_and_no_rater_meets_it_twice(study, admin_user) -> None:
    found = table(unblinded(study, admin_user), blinded=False)
    items = {row["item"]: row["pair"] for row in found}
    assert len(items) == 10
    assert len(set(items.values())) < 10
    met = [(row["rater"], row["pair"]) for row in found]
    assert len(met) == len(set(met))


def test_before_unblinding_only_the_blinded_file_is_given_and_its_sealed_columns_are_empty(study) -> None:
    with pytest.raises(SealedError):
        csv_lines(study, blinded=False)
    found = table(study, blinded=True)
    assert tuple(found[0]) == COLUMNS
    assert {row[name] for row in found for name in SEALED} == {""}
    assert [row["item"] for row in found] == sorted(row["item"] for row in found)


def test_the_blinded_file_does_not_even_read_the_sources(study) -> None:
    with CaptureQueriesContext(connection) as asked:
        table(study, blinded=True)
    assert not any(ItemSource._meta.db_table in query["sql"] for query in asked.captured_queries)


def test_file_and_report_come_from_the_same_rows_in_one_query(study, admin_user, django_assert_num_queries) -> None:
    unblinded(study, admin_user)
    with django_assert_num_queries(1):
        assert len(list(exports.rows(study, blinded=False))) == 20


def test_an_export_is_logged_and_a_refused_one_is_not(study, admin_user) -> None:
    with pytest.raises(SealedError):
        csv_lines(study, False, admin_user)
    assert not study.events.filter(kind="exported").exists()
    csv_lines(study, True, admin_user)
    event = study.events.get(kind="exported")
    assert (event.by, event.detail) == (admin_user, "blinded")


def test_no_cell_of_text_can_become_a_formula(study, admin_user) -> None:
    ItemSource.objects.update(label="=HYPERLINK(1)", action='@SUM(1,"2")')
    found = table(unblinded(study, admin_user), blinded=False)
    assert {row["source"] for row in found} == {"'=HYPERLINK(1)"}
    assert {row["action"] for row in found} == {'\'@SUM(1,"2")'}


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "'x", "  =1", "＝1", "|x", "\0x", "\u00a0=1"]
)
def test_a_risky_text_gets_one_apostrophe(text: str) -> None:
    assert plain(text) == "'" + text


@pytest.mark.parametrize("text", ["", "offline", "1", "a=b", " x", "–1"])
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text
