import csv
import io
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.urls import reverse

from ratings.exchange import exports, long_tables
from ratings.exchange.archive import study_files
from ratings.exchange.imports import ImportRefused
from ratings.exchange.imports.rating_imports import check_file, import_file
from ratings.exchange.rating_tables import escape_cell
from ratings.models import ImportedItem, Item, ItemSource, Rating, RatingEvent, Study
from ratings.studies import StudyError, lifecycle, progress
from tests.support import exported_study, run_factory, study_factory, study_log_texts
from tests.support.steps import InterruptedFile

pytestmark = pytest.mark.django_db

HEAD = "item,rater,verdict,confidence"


@pytest.fixture
def study(db: None) -> Study:
    run_factory.create_pool()
    return study_factory.create_open_study()


def table(*rows: str, head: str = HEAD) -> io.BytesIO:
    return io.BytesIO("\r\n".join((head, *rows)).encode())


def codes(study: Study) -> list[str]:
    return [str(code) for code in study.items.order_by("pk").values_list("code", flat=True)]


def said(study: Study, *rows: str, head: str = HEAD) -> list[tuple[int, str]]:
    return [(problem.line, problem.field) for problem in check_file(study, table(*rows, head=head)).problems]


@pytest.mark.both_databases
def test_rating_import_creates_raters_with_the_next_labels(study: Study, admin_user: Any) -> None:
    raters, (first, second, *_) = study.raters.count(), codes(study)
    head = f"{HEAD},submitted_at,seconds,note"
    import_file(
        study,
        table(
            f"{first},Dr A,plausible,4,2026-03-01T14:05:00+01:00,32.5,=odd\u202e",
            f"{second},Dr A,cannot judge,,,,",
            f"{first},Dr B,0,1,2026-03-01 14:05,,",
            head=head,
        ),
        admin_user,
    )
    a, b = study.raters.exclude(imported_as="").order_by("number")
    assert [(rater.label, rater.imported_as, rater.user) for rater in (a, b)] == [
        (f"R{raters + 1:02}", "Dr A", None),
        (f"R{raters + 2:02}", "Dr B", None),
    ]
    rating = Rating.objects.get(assignment__rater=a, assignment__item__code=first)
    assert (rating.verdict, rating.confidence, rating.seconds, rating.note) == (True, 4, 32.5, "=odd\ufffd")
    assert rating.submitted_at.isoformat() == "2026-03-01T13:05:00+00:00"
    assert (rating.imported, rating.assignment.slot, rating.assignment.occasion) == (True, None, 1)
    assert Rating.objects.get(assignment__rater=a, assignment__item__code=second).cannot_judge
    events = RatingEvent.objects.filter(assignment__rater__in=[a, b])
    assert {event.kind for event in events} == {"imported"}
    assert events.count() == 3
    assert study_log_texts.get_event_text(study, "ratings imported") == "3 ratings by 2 raters"


@pytest.mark.both_databases
def test_imported_ratings_count_and_are_labelled_imported(study: Study) -> None:
    first, second, *_ = codes(study)
    import_file(study, table(f"{first},A,1,5", f"{second},A,cannot judge,", f"{first},B,0,5"))
    report = progress.build_report(study)
    assert report.cannot_judge == 1
    assert report.imported == "3 of 3 ratings were collected elsewhere and imported."
    # Ten items with two ratings each are requested; imported ratings fill no slot but are counted.
    assert (report.progress.done, report.progress.total) == (3, 20)
    rows = list(exports.iter_rating_cells(study, blinded=True))
    assert {row["imported"] for row in rows} == {1}
    assert {row["layout"] for row in rows} == {""}
    assert {row["seconds"] for row in rows} == {""}


def versions(study: Study) -> list[dict[str, str]]:
    of = {entry.name: entry for entry in study_files.list_common_files(study, blinded=not study.is_unblinded)}[
        "versions.csv"
    ]
    return list(csv.DictReader(io.StringIO("".join(map(str, of.pieces())), newline="")))


@pytest.mark.both_databases
def test_blinded_files_link_no_imported_rating_to_its_item(study: Study, admin_user: Any) -> None:
    study_factory.rate_everything(study.raters.order_by("number")[0])
    Rating.objects.update(note="I was told this is item-7")
    every = codes(study)
    # The importer recognises each row by its note, its rater or its position in the file.
    import_file(study, table(*(f"{code},A,1,5,,,item {n}" for n, code in enumerate(every)), head=f"{HEAD},submitted_at,seconds,note"))  # fmt: skip
    label = study.raters.get(imported_as="A").label
    for rows in (list(exports.iter_rating_cells(study, blinded=True)), versions(study)):
        own = [row for row in rows if row["rater"] == label]
        assert len(own) == len(every) and rows[-len(own) :] == own  # apart from the others, not beside their items
        assert {(row["item"], row["note"]) for row in own} == {("", "")}
        assert all(row["item"] for row in rows[: -len(own)])
        assert {row["note"] for row in rows} == {""}
    lifecycle.close_and_unblind(study, admin_user)
    study.refresh_from_db()
    for rows in (list(exports.iter_rating_cells(study, blinded=False)), versions(study)):
        own = [row for row in rows if row["rater"] == label]
        assert {(str(row["item"]), row["note"]) for row in own} == {(c, f"item {n}") for n, c in enumerate(every)}


def answers(study: Study, *files: tuple[str, ...], head: str = HEAD) -> set[tuple[tuple[int, str, str], ...]]:
    """Return the problems of these files, with codes and ids masked."""
    found = set()
    for rows in files:
        names = {row.split(",")[0] for row in rows}
        problems = check_file(study, table(*rows, head=head)).problems
        found.add(tuple((p.line, p.field, re.sub("|".join(names), "it", p.message)) for p in problems))
    return found


def test_rating_import_does_not_reveal_the_codes_of_imported_items(study: Study) -> None:
    for item, key in zip(study.items.order_by("pk")[:2], ("K1", "K2"), strict=True):
        row = ImportedItem.objects.create(
            study=study, key=key, record={}, label="elsewhere", perturbation="none", payload={}, payload_sha256=key
        )
        ItemSource.objects.filter(item=item).update(imported=row, transition=None, twin=None)
    # "has already rated this item on line 2" would reveal that this code is K1; codes are rejected, whether the item is imported or not.
    tries = [f"{code},A,1,5" for code in codes(study)]
    assert said(study, "K1,A,1,5", *tries) == [(line, "item") for line in range(3, 3 + len(tries))]
    assert said(study, "K1,A,1,5", "K2,A,1,5") == []
    assert said(study, "K1,A,1,5", "K1,A,1,5") == [(3, "rater")]


def test_rating_import_times_do_not_reveal_codes_of_imported_items(study: Study) -> None:
    rater = study.raters.order_by("number")[0]
    study_factory.rate_everything(rater)
    exported_study.mark_as_imported(study, 10)
    moments = [str(at) for at in Rating.objects.values_list("submitted_at", flat=True)]
    files = [(f"K0,{rater.label},1,5,{moment}",) for moment in moments]  # of whichever item that moment is
    ((refused,),) = answers(study, *files, head=f"{HEAD},submitted_at")
    assert refused[:2] == (2, "submitted_at")


@pytest.mark.both_databases
def test_rating_import_rejects_only_ratings_with_the_same_rater_and_time(study: Study) -> None:
    rater = study.raters.order_by("number")[0]
    study_factory.rate_everything(rater)
    rating = Rating.objects.order_by("pk")[0]
    own = str(rating.assignment.item.code)
    other = next(code for code in codes(study) if code != own)
    at, head = rating.submitted_at.isoformat(), f"{HEAD},submitted_at"
    assert said(study, f"{own},{rater.label},1,5,{at}", head=head) == [(2, "submitted_at")]
    assert said(study, f"{own},{rater.label},1,5,2026-01-01", head=head) == []
    assert said(study, f"{other},{rater.label},1,5,{at}", f"{own},A,1,5,{at}", head=head) == [(2, "submitted_at")]


@pytest.mark.both_databases
def test_rating_import_keeps_a_rater_labelled_as_simulated(study: Study, admin_client: Any) -> None:
    first, second, *_ = codes(study)
    head = f"{HEAD},simulated"
    import_file(study, table(f"{first},A,1,5,", f"{second},A,1,5,1", f"{first},B,1,5,0", f"{second},C,1,5,", head=head))
    raters = study.raters.exclude(imported_as="").order_by("number")
    assert [(rater.imported_as, rater.simulated) for rater in raters] == [("A", True), ("B", False), ("C", False)]
    rows = exports.iter_rating_cells(study, blinded=True)
    assert sorted((row["rater"], row["simulated"], row["imported"]) for row in rows) == sorted(
        [(raters[0].label, 1, 1)] * 2 + [(raters[1].label, 0, 1), (raters[2].label, 0, 1)]
    )
    assert progress.build_report(study).by_simulated == 2
    page = admin_client.get(reverse("ratings:import_ratings", args=[study.slug])).content.decode()
    assert page.count('<span class="pill pill--warn">simulated</span>') == 1


def test_rating_import_reports_contradictions_on_simulated_raters(study: Study) -> None:
    first, second, *_ = codes(study)
    head = f"{HEAD},simulated"
    (problem,) = check_file(
        study, table(f"{first},A,1,5,1", f"{first},B,1,5,0", f"{second},A,1,5,0", head=head)
    ).problems
    assert str(problem) == (
        "line 4: simulated: is 0 for 'A', but 1 on line 2; it must be the same in all rows of a rater"
    )
    (problem,) = check_file(study, table(f"{first},A,1,5,yes", head=head)).problems
    assert str(problem) == "line 2: simulated: is 'yes'; it must be 1 for a simulated rater, 0 for others, or empty"
    import_file(study, table(f"{first},A,1,5,1", head=head))
    assert said(study, f"{second},A,1,5,0", head=head) == [(2, "simulated")]
    assert said(study, f"{second},A,1,5,", head=head) == []


@pytest.mark.both_databases
def test_rating_import_leaves_out_rows_that_a_blinded_export_marks_as_imported(
    study: Study, admin_client: Any, tmp_path: Any, capsys: Any
) -> None:
    first, second, *_ = codes(study)
    head = f"{HEAD},occasion,surplus,counts,imported"
    path = tmp_path / "blinded.csv"
    path.write_bytes(
        table(f"{first},R01,1,5,1,0,1,0", ",R05,1,5,1,0,1,1", f"{second},R01,1,5,2,0,0,0", head=head).getvalue()
    )
    call_command("import_ratings", study.slug, str(path), "--dry-run")
    assert capsys.readouterr().out.strip() == (
        "1 rating of 1 item by 1 rater would be imported. 1 row left out: the study of origin does not count them. "
        "1 row left out: imported ratings, whose items a blinded export does not identify."
    )
    with path.open("rb") as sent:
        page = admin_client.post(reverse("ratings:import_ratings", args=[study.slug]), {"file": sent}).content.decode()
    assert "1 row left out because a blinded file does not identify the items of imported ratings." in page
    # Only in an export: in other files, a row without an item is a mistake.
    assert said(study, f"{first},A,1,5,1", ",A,1,5,1", head=f"{HEAD},imported") == [(3, "item")]
    assert said(study, ",R05,1,5,1,0,1,1", head=head) == [(0, "")]


@pytest.mark.both_databases
def test_rating_import_adds_ratings_to_raters_of_an_earlier_file(study: Study) -> None:
    first, second, *_ = codes(study)
    import_file(study, table(f"{first},A,1,5"))
    checked = check_file(study, table(f"{second},A,1,5", f"{second},B,1,5"))
    assert (checked.known_raters, checked.new_raters) == (("A",), ("B",))
    import_file(study, table(f"{second},A,1,5", f"{second},B,1,5"))
    rater = study.raters.get(imported_as="A")
    assert list(rater.assignments.order_by("position").values_list("position", flat=True)) == [1, 2]
    assert said(study, f"{first},A,0,1") == [(2, "rater")]


@pytest.mark.both_databases
def test_rating_import_keeps_ratings_of_two_versions_of_a_pair(study: Study) -> None:
    by_pair: dict[Any, list[str]] = {}
    for source in ItemSource.objects.filter(item__study=study).select_related("item"):
        by_pair.setdefault(source.pair, []).append(str(source.item.code))
    two = next(versions for versions in by_pair.values() if len(versions) > 1)[:2]
    import_file(study, table(*(f"{code},A,1,5" for code in two)))
    assert study.raters.get(imported_as="A").assignments.count() == 2


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("nothing,A,1,5", "item"),
        (",A,1,5", "item"),
        ("{item},,1,5", "rater"),
        ("{item}," + "x" * 121 + ",1,5", "rater"),
        ("{item},a\u202eb,1,5", "rater"),
        ("{item},A,perhaps,5", "verdict"),
        ("{item},A,,5", "verdict"),
        ("{item},A,1,6", "confidence"),
        ("{item},A,1,", "confidence"),
        ("{item},A,1,3.5", "confidence"),
        ("{item},A,1,NaN", "confidence"),
        ("{item},A,1,٣", "confidence"),
        ("{item},A,cannot judge,3", "confidence"),
        ("{item},A,1,5,yesterday", "submitted_at"),
        ("{item},A,1,5,1999-01-01", "submitted_at"),
        ("{item},A,1,5,2999-01-01", "submitted_at"),
        ("{item},A,1,5,0001-01-01T00:00:00+14:00", "submitted_at"),
        ("{item},A,1,5,,-1", "seconds"),
        ("{item},A,1,5,,inf", "seconds"),
        ("{item},A,1,5,,NaN", "seconds"),
        ("{item},A,1,5,,1e99", "seconds"),
        ("{item},A,1,5,,1_000", "seconds"),
        ("{item},A,1,5,,," + "n" * 4001, "note"),
        ("{item},A,1,5,,,a\0b", "note"),
        ("{item},A,1,5,,,,more", ""),
    ],
)
def test_rating_import_names_line_and_column_of_an_invalid_row(study: Study, row: str, field: str) -> None:
    good, item, *_ = codes(study)
    found = said(study, f"{good},A,1,5", row.replace("{item}", item), head=f"{HEAD},submitted_at,seconds,note")
    assert found == [(3, field)]
    with pytest.raises(ImportRefused):
        import_file(
            study, table(f"{good},A,1,5", row.replace("{item}", item), head=f"{HEAD},submitted_at,seconds,note")
        )
    assert not Rating.objects.exists()
    assert not study.raters.exclude(imported_as="").exists()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (HEAD.encode(), "no rows"),
        (b"item,rater,verdict\n", "missing: confidence"),
        (b"item,item,rater,verdict,confidence\n", "appears twice"),
        (b"\xff\xfe" + HEAD.encode(), "not UTF-8"),
        (b"PK\x03\x04\xff", "a compressed file"),
        (HEAD.encode() + b'\nx,"A,1,5', "not a table"),
        (HEAD.encode() + b"\n" + b"x" * 200_000, "line 2: a cell is longer than 131,072 characters"),
        (HEAD.encode() + b'\nx,A,1,5\ny,"B' + b"\n" * 200_000, "line 3: a cell is longer"),
        (HEAD.encode() + b"," * 300_000 + b"\nx,A,1,5", "line 1: a row is longer than 256 KiB"),
        (HEAD.encode() + b"\nx,A,1,5\n" + b'"\n",' * 90_000, "line 3: a row is longer than 256 KiB"),
        (HEAD.encode() + b"\n" + b"x,y,1,1\n" * 10_001, "more than 10,000 rows"),
        (HEAD.encode() + b"\n" * (20 * 1024**2), "larger than 20 MiB"),
    ],
)  # fmt: skip
def test_rating_import_rejects_a_file_that_is_not_a_table(study: Study, raw: bytes, words: str) -> None:
    assert any(words in str(problem) for problem in check_file(study, io.BytesIO(raw)).problems)


def test_rating_import_tolerates_the_changes_that_a_spreadsheet_program_makes(study: Study) -> None:
    first, second, *_ = codes(study)
    text = f'Item;Rater;Verdict;Confidence;Note\r\n{first};"\'=A";Not  Plausible;3;"two\nlines"\r\n;;;;\r\n{second};\'=A;1;3;\r\n'
    import_file(study, io.BytesIO(b"\xef\xbb\xbf" + text.encode()))
    rater = study.raters.get(imported_as="=A")
    assert Rating.objects.get(assignment__rater=rater, assignment__item__code=first).note == "two\nlines"
    # The export puts an apostrophe before text that could be read as a formula, and the import removes it.
    assert escape_cell(rater.imported_as) == "'=A"


@pytest.mark.both_databases
def test_rating_import_ignores_upper_and_lower_case_in_item_codes_and_rejects_duplicates(study: Study) -> None:
    first, *_ = codes(study)
    assert said(study, f"{first},A,1,5", f"{first.upper()},A,1,5") == [(3, "rater")]


@pytest.mark.both_databases
def test_rating_import_into_a_draft_or_unblinded_study_is_refused(study: Study, admin_user: Any) -> None:
    first, *_ = codes(study)
    draft = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="draft")))
    with pytest.raises(StudyError, match="is draft"):
        import_file(draft, table(f"{first},A,1,5"))
    lifecycle.close_and_unblind(study, admin_user)
    with pytest.raises(StudyError, match="is unblinded"):
        import_file(study, table(f"{first},A,1,5"))


def test_rating_import_rejects_items_of_another_study(study: Study) -> None:
    other = study_factory.create_open_study(slug="other")
    foreign = str(Item.objects.filter(study=other)[0].code)
    assert said(study, f"{foreign},A,1,5") == [(2, "item")]


def test_import_ratings_command_imports_a_file_or_explains_why_not(study: Study, tmp_path: Any, capsys: Any) -> None:
    first, *_ = codes(study)
    path = tmp_path / "ratings.csv"
    path.write_bytes(table(f"{first},A,1,5").getvalue())
    call_command("import_ratings", study.slug, str(path), "--dry-run")
    assert "1 rating of 1 item by 1 rater would be imported." in capsys.readouterr().out
    assert not Rating.objects.exists()
    call_command("import_ratings", study.slug, str(path))
    with pytest.raises(CommandError, match="nothing was imported") as refused:
        call_command("import_ratings", study.slug, str(path))
    assert (str(refused.value), refused.value.returncode) == ("1 problem; nothing was imported", 1)
    assert Rating.objects.count() == 1


def test_rating_import_page_checks_the_table_first(
    study: Study, admin_client: Any, settings: Any, tmp_path: Any
) -> None:
    settings.VAR_DIR = tmp_path
    first, *_ = codes(study)
    address = reverse("ratings:import_ratings", args=[study.slug])
    data = table(f"{first},<b>A</b>,1,5")
    data.name = "ratings.csv"
    page = admin_client.post(address, {"file": data})
    assert page.status_code == 200
    assert b"<b>A</b>" not in page.content
    assert not Rating.objects.exists()
    assert admin_client.post(address, {"token": page.context["token"]}).status_code == 302
    assert Rating.objects.get().imported
    assert admin_client.get(address).status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_rating_import_parses_the_table_outside_the_transaction(study: Study) -> None:
    held: list[bool] = []
    file = InterruptedFile(table(f"{codes(study)[0]},A,1,5"), lambda: held.append(connection.in_atomic_block))
    import_file(study, file)
    assert held == [False]
    assert Rating.objects.count() == 1


@pytest.mark.both_databases
def test_rating_import_detects_ratings_of_a_concurrent_import(study: Study) -> None:
    first, second, *_ = codes(study)
    row = f"{first},A,1,5"
    with pytest.raises(ImportRefused, match="has already rated this item in an earlier file"):
        import_file(study, InterruptedFile(table(row), lambda: import_file(study, table(row))))
    import_file(study, InterruptedFile(table(f"{first},B,1,5"), lambda: import_file(study, table(f"{second},B,0,5"))))
    assert sorted(study.raters.exclude(imported_as="").values_list("imported_as", flat=True)) == ["A", "B"]
    assert Rating.objects.count() == 3


@pytest.mark.both_databases
def test_rating_import_fails_if_the_study_was_unblinded_meanwhile(study: Study, admin_user: Any) -> None:
    with pytest.raises(StudyError, match="is unblinded"):
        import_file(
            study,
            InterruptedFile(table(f"{codes(study)[0]},A,1,5"), lambda: lifecycle.close_and_unblind(study, admin_user)),
        )
    assert not Rating.objects.exists()


@pytest.mark.parametrize(
    ("sign", "words", "sure"),
    [(",", ("1.0", "0.0"), "3.0"), ("\t", ("valid", "invalid"), "3"), (";", ("Plausible", "NOT  plausible"), " 3 ")],
)
def test_rating_import_and_agreement_command_parse_a_file_identically(
    study: Study, sign: str, words: tuple[str, str], sure: str
) -> None:
    first, second, *_ = codes(study)
    rows = [HEAD.split(","), [first, "A", words[0], sure], [second, "A", words[1], sure]]
    file = "\n".join(sign.join(row) for row in rows).encode()
    checked = check_file(study, io.BytesIO(file))
    assert [(row.verdict, row.confidence) for row in checked.rows] == [(True, 3), (False, 3)]
    table = long_tables.parse_long_csv(io.BytesIO(file)).table
    by_item = dict(zip((table.items[place] for place in table.item), table.verdict, strict=True))
    assert by_item == {first: 1, second: 0} and list(table.confidence) == [3, 3]
