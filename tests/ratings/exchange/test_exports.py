import csv
import io
import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ratings.exchange import exports
from ratings.exchange.exports import COLUMN_MEANINGS, COLUMNS, SEALED, export_csv_lines
from ratings.exchange.rating_tables import escape_cell
from ratings.models import Assignment, BlindingAudit, ItemSource, Rater, Rating, Study
from ratings.results.rating_rows import iter_rating_rows
from ratings.studies import SealedError
from ratings.web.rater import rating_form
from tests.support import run_factory, study_factory


@pytest.fixture
def study(db) -> Study:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    return study


def table(study: Study, blinded: bool) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(export_csv_lines(study, blinded)), newline="")))


@pytest.mark.both_databases
def test_export_has_one_row_per_rating_and_all_columns(study, admin_user) -> None:
    found = table(study_factory.unblind_study(study, admin_user), blinded=False)
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


@pytest.mark.both_databases
def test_export_twins_share_a_pair_that_each_rater_sees_once(study, admin_user) -> None:
    found = table(study_factory.unblind_study(study, admin_user), blinded=False)
    items = {row["item"]: row["pair"] for row in found}
    assert len(items) == 10
    assert len(set(items.values())) < 10
    met = [(row["rater"], row["pair"]) for row in found]
    assert len(met) == len(set(met))


def test_export_before_unblinding_has_empty_sealed_columns(study) -> None:
    with pytest.raises(SealedError):
        export_csv_lines(study, blinded=False)
    found = table(study, blinded=True)
    assert tuple(found[0]) == COLUMNS
    assert {row[name] for row in found for name in SEALED} == {""}
    assert [row["item"] for row in found] == sorted(row["item"] for row in found)


@pytest.mark.both_databases
def test_blinded_export_does_not_query_the_sources(study, monkeypatch) -> None:
    streamed: list[str] = []  # Django does not record the statements of a streamed result
    read_rows = exports._read_rows
    monkeypatch.setattr(exports, "_read_rows", lambda rows: streamed.append(str(rows.query)) or read_rows(rows))
    with CaptureQueriesContext(connection) as asked:
        assert len(table(study, blinded=True)) == len(list(exports.iter_rating_cells(study, blinded=True))) == 20
    statements = [*streamed, *(query["sql"] for query in asked)]
    assert len(streamed) == 1 and not any(ItemSource._meta.db_table in statement for statement in statements)


@pytest.mark.both_databases
def test_export_reads_all_ratings_in_one_query(study, admin_user, django_assert_num_queries) -> None:
    study_factory.unblind_study(study, admin_user)
    assert connection.features.supports_json_field  # Django asks SQLite once for each connection
    with django_assert_num_queries(1):
        assert len(list(exports.iter_rating_cells(study, blinded=False))) == 20


@pytest.mark.parametrize("blinded", [True, False])
def test_export_query_count_does_not_grow_with_ratings(db, client, admin_user, blinded) -> None:
    run_factory.create_pool(20)
    client.force_login(admin_user)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = study_factory.create_open_study(
            raters=2, sources=source, ratings_per_item=1, slug=f"study-{count}", allow_unblinded=True
        )
        for rater in study.raters.all():
            study_factory.rate_everything(rater)
        if not blinded:
            study_factory.unblind_study(study, admin_user)
        with CaptureQueriesContext(connection) as queries:
            file = b"".join(client.get(f"/studies/{study.slug}/ratings.csv").streaming_content)
        assert file.count(b"\n") == 1 + count
        asked.append(len(queries))
    assert asked[0] == asked[1]


def test_export_is_logged_unless_it_is_refused(study, admin_user) -> None:
    with pytest.raises(SealedError):
        export_csv_lines(study, False, admin_user)
    assert not study.events.filter(kind="exported").exists()
    export_csv_lines(study, True, admin_user)
    event = study.events.get(kind="exported")
    assert (event.by, event.data) == (admin_user, {"blinded": True, "filters": {}, "filters_text": ""})


def test_export_escapes_formulas(study, admin_user) -> None:
    ItemSource.objects.update(label="=HYPERLINK(1)", action='@SUM(1,"2")')
    found = table(study_factory.unblind_study(study, admin_user), blinded=False)
    assert {row["source"] for row in found} == {"'=HYPERLINK(1)"}
    assert {row["action"] for row in found} == {'\'@SUM(1,"2")'}


@pytest.mark.both_databases
def test_export_formats_moments_and_numbers_exactly(study, admin_user) -> None:
    first, second = Rating.objects.order_by("pk")[:2]
    nine = datetime(2026, 1, 5, 9, tzinfo=UTC)
    # Halves of a thousandth: 1.0005 is stored as a number below it; the other two are exact, and the even digit is taken.
    times = {"opened_at": nine, "seconds": 1.0005, "active_seconds": 0.0625, "first_verdict_seconds": 0.1875}
    Rating.objects.filter(pk=first.pk).update(submitted_at=nine.replace(microsecond=120_000), **times)
    Rating.objects.filter(pk=second.pk).update(imported=True, seconds=0)
    found = {
        row["item"] + row["rater"]: row for row in table(study_factory.unblind_study(study, admin_user), blinded=False)
    }

    def cells(rating: Rating, *names: str) -> list[str]:
        return [found[str(rating.assignment.item.code) + rating.assignment.rater.label][name] for name in names]

    moments = ["2026-01-05T09:00:00+00:00", "2026-01-05T09:00:00.120000+00:00"]
    assert cells(first, "opened_at", "submitted_at") == moments
    assert cells(first, "seconds", "active_seconds", "first_verdict_seconds") == ["1.000", "0.062", "0.188"]
    assert cells(second, "seconds", "active_seconds", "layout", "changes", "imported") == ["", "", "", "", "1"]


FREE_TEXTS = ("", "=1", '"', '"=1"', 'a","b', ',"=1', "%s 100%", "\r\n=1", "\ttab", "two\nlines", "'quoted", "＝1", " =1", "µL", "\\N", "{}")  # fmt: skip


@pytest.mark.both_databases
def test_export_writes_any_text_as_the_table_writer_does(study, admin_user) -> None:
    ratings = list(Rating.objects.order_by("pk")[: len(FREE_TEXTS)])
    for rating, text in zip(ratings, FREE_TEXTS, strict=True):
        rating.note, rating.marks = text, [text, "é"]
        rating.save()
        texts = dict.fromkeys(("label", "experiment", "action"), text)
        ItemSource.objects.filter(item=rating.assignment.item_id).update(**texts)
    study_factory.unblind_study(study, admin_user)
    rows = list(iter_rating_rows(study))
    names = ("note", "marked", "source", "experiment", "action")
    expected = list(exports.format_table_lines(names, [[getattr(row, name) for name in names] for row in rows]))
    file = csv.DictReader(io.StringIO("".join(export_csv_lines(study, blinded=False)), newline=""))
    written = list(csv.reader(io.StringIO("".join(expected), newline="")))[1:]
    assert [[row[name] for name in names] for row in file] == written
    assert {row.note for row in rows} == set(FREE_TEXTS)


def test_export_texts_of_the_rating_page_need_no_escaping() -> None:
    characters = [chr(number) for number in range(0x10000)]
    starts = {one for one in characters if rating_form.VERSION.fullmatch(one)}
    starts |= {one for one in characters if rating_form.VIEWPORT.fullmatch(f"{one}440x900")}
    assert starts == set("0123456789")
    assert not rating_form.VERSION.fullmatch('2"') and not rating_form.VIEWPORT.fullmatch('1"40x900')


def test_export_escapes_every_text_that_has_no_fixed_values() -> None:
    choices = {
        "layout": Assignment, "marks": Assignment, "layout_shown": Rating, "hand": Rating, "perturbation": ItemSource, "reference": ItemSource,
    }  # fmt: skip
    for name, model in choices.items():
        values = [value for value, _ in model._meta.get_field(name).flatchoices]
        assert values and [escape_cell(value) for value in values] == values and '"' not in "".join(values)
    # The study is a slug, item and pair are codes, raters are R01, R02 ..., and the two last come from the rating page.
    others = {"study", "item", "pair", "rater", "viewport", "interface_version"}
    unescaped = {field.name for field in exports.RATING_FIELDS if field.kind == "text"} - set(exports.FREE_TEXTS)
    assert unescaped == others | choices.keys()


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "'x", "  =1", "＝1", "|x", "\0x", "\u00a0=1"]
)
def test_csv_risky_text_gets_one_apostrophe(text: str) -> None:
    assert escape_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "offline", "1", "a=b", " x", "–1"])
def test_csv_harmless_text_is_unchanged(text: str) -> None:
    assert escape_cell(text) == text


def test_codebook_names_the_sealed_columns() -> None:
    assert tuple(name for name, meaning in COLUMN_MEANINGS.items() if "(sealed)" in meaning) == SEALED


def test_export_keeps_names_and_positions_of_old_columns() -> None:
    assert COLUMNS[:16] == (
        "study", "item", "pair", "rater", "verdict", "confidence", "source", "perturbation", "truth", "experiment",
        "action", "opened_at", "submitted_at", "seconds", "position", "simulated",
    )  # fmt: skip


@pytest.mark.both_databases
def test_export_includes_ratings_that_do_not_count(study) -> None:
    surplus, again, unsure, dropped = Rating.objects.order_by("pk")[:4]
    Assignment.objects.filter(pk=surplus.assignment_id).update(slot=None, surplus=True)
    Assignment.objects.filter(pk=again.assignment_id).update(slot=None, occasion=2)
    Rating.objects.filter(pk=unsure.pk).update(verdict=None, confidence=None, cannot_judge=True)
    found = {row["item"] + row["rater"]: row for row in table(study, blinded=True)}

    def cells(rating: Rating, *names: str) -> list[str]:
        place = rating.assignment
        return [found[str(place.item.code) + place.rater.label][name] for name in names]

    assert cells(surplus, "counts", "surplus", "occasion") == ["0", "1", "1"]
    assert cells(again, "counts", "surplus", "occasion") == ["0", "0", "2"]
    assert cells(unsure, "counts", "cannot_judge", "verdict", "confidence") == ["1", "1", "", ""]
    rater = dropped.assignment.rater
    Rater.objects.filter(pk=rater.pk).update(withdrawn_at=rater.study.opened_at, dropped=True)
    assert rater.label not in {row["rater"] for row in table(study, blinded=True)}


@pytest.mark.both_databases
def test_export_orders_raters_by_number(db) -> None:
    run_factory.create_pool(20)
    sources = [{"cast": "offline", "perturbation": "none", "count": 12}]
    study = study_factory.create_open_study(raters=12, sources=sources, ratings_per_item=12, design="crossed")
    for rater in study.raters.all():
        study_factory.rate_everything(rater)
    labels = [row["rater"] for row in table(study, blinded=True)][:12]
    assert labels == [f"R{number:02}" for number in range(1, 13)]


@pytest.mark.both_databases
def test_export_preserves_notes_marks_and_times(study, admin_user) -> None:
    rating = Rating.objects.first()
    Rating.objects.filter(pk=rating.pk).update(
        note="+1, said: “=2”\nand more", marks=["A:Volume", "missing"], active_seconds=1.5, hand="keys"
    )
    assert {row["note"] for row in table(study, blinded=True)} == {""}
    (row,) = [row for row in table(study_factory.unblind_study(study, admin_user), blinded=False) if row["note"]]
    assert row["note"] == "'+1, said: “=2”\nand more"
    assert json.loads(row["marked"]) == ["A:Volume", "missing"]
    assert (row["active_seconds"], row["first_verdict_seconds"], row["hand"]) == ("1.500", "", "keys")


def test_export_scores_marked_rows_if_the_error_location_is_known(study, admin_user) -> None:
    ItemSource.objects.update(target=["A:Volume", "A/row"])
    one, other, third, fourth = Rating.objects.order_by("pk")[:4]
    Assignment.objects.filter(rating__in=[one, other, third]).update(marks="always")
    Rating.objects.filter(pk=one.pk).update(marks=["A/row", "missing"], verdict=False)
    Rating.objects.filter(pk=other.pk).update(marks=["B:Volume"], verdict=False)
    Rating.objects.filter(pk=third.pk).update(marks=["A/row"], verdict=True)
    before = table(study, blinded=True)
    assert {row["localised"] for row in before} == {""}
    found = {
        row["item"] + row["rater"]: row["localised"]
        for row in table(study_factory.unblind_study(study, admin_user), blinded=False)
    }

    def localised(rating: Rating) -> str:
        return found[str(rating.assignment.item.code) + rating.assignment.rater.label]

    assert [localised(rating) for rating in (one, other, third, fourth)] == ["1", "0", "0", ""]


def test_certificate_download_exists_after_an_audit(study, admin_client) -> None:
    address = f"/studies/{study.slug}/certificate.json"
    assert admin_client.get(address).status_code == 404
    leak = {"where": "order", "what": "positions and planted errors go together: AUC 0.98"}
    BlindingAudit.objects.create(study=study, passed=False, report={"leaks": [leak], "more": "0.98"}, sha256="5" * 64)
    found = json.loads(admin_client.get(address).content)
    told = {"leaks": [{"where": "order", "what": "described once the study is unblinded"}]}
    assert (found["study"], found["passed"]) == (study.slug, False)
    assert found["report"] == {**told, "known_tells": [], "checks": []}


def test_export_head_request_is_not_logged(study, admin_client) -> None:
    assert admin_client.head(f"/studies/{study.slug}/ratings.csv").status_code == 200
    assert not study.events.filter(kind="exported").exists()
