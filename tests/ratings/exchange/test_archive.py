"""The archive of a study: its content, its description of itself, and that it is reproducible."""

import csv
import hashlib
import io
import json
import re
import shutil
import statistics
import subprocess
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from ratings.exchange.archive import contents, texts
from ratings.exchange.archive.study_facts import CountRange
from ratings.exchange.exports import COLUMN_MEANINGS, COLUMNS
from ratings.results.analyses.tables import TABLE_SPECS
from tests.support import exported_study, imrmc_reader
from tests.support.exported_study import ExportedStudy

pytestmark = pytest.mark.django_db

BLINDED = [
    "README.md", "SHA256SUMS", "certificate.json", "codebook.csv", "datapackage.json", "events.csv", "items.csv",
    "made_with.json", "methods.txt", "protocol.json", "raters.csv", "ratings.csv", "ratings_wide.csv", "versions.csv",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(django_db_setup: None, django_db_blocker: Any) -> Iterator[ExportedStudy]:
    """Both archives of one study, built once for this module."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield exported_study.export_study()
        transaction.set_rollback(True)


# Content


def test_archives_contain_all_expected_files(whole: ExportedStudy) -> None:
    assert sorted(whole.blinded) == BLINDED
    figures = sorted({name.split("/")[1].rpartition(".")[0] for name in whole.files if name.endswith(".svg")})
    assert {"rates", "confidence", "violins", "roc", "agreement", "misses", "matrix", "precision"} <= set(figures)
    drawn = {f"figures/{name}.{ending}" for name in figures for ending in ("svg", "pdf", "png", "csv")}
    besides = {"figures/violins_confidence.csv", "figures/roc_detection.csv"}
    own = {"results.json", "items.jsonl", "machine_raters.csv", "machine_ratings.csv"}
    tables = {f"tables/{name}.csv" for name in TABLE_SPECS}
    written = {f"latex/{name}.tex" for name in ("rates", "agreement", "detection", "table1")}
    slug = "gpt-5-50-x-b"  # of "=gpt_5 & 50%\{x}../<b>": nothing a path could be steered with
    studies = {f"imrmc/01-{slug}-obvious-error.imrmc", f"imrmc/02-{slug}-subtle-error.imrmc"}
    assert set(whole.files) == {*BLINDED, *drawn, *besides, *own, *tables, *written, *studies}


def test_archive_results_ratings_and_tables_equal_those_of_the_page(whole: ExportedStudy) -> None:
    assert whole.files["results.json"] == whole.results
    assert whole.files["ratings.csv"].decode() == whole.ratings_csv
    for name in TABLE_SPECS:
        table, found = whole.document["tables"][name], whole.read_rows(f"tables/{name}.csv")
        assert len(found) == len(table["rows"])
        for row, cells in zip(table["rows"], found, strict=True):
            for column, cell in zip(table["columns"], row, strict=True):
                if isinstance(cell, float):
                    assert float(cells[column["name"]]) == cell  # to the last digit


def test_archive_figures_have_the_format_of_their_extension(whole: ExportedStudy) -> None:
    for name, file in whole.files.items():
        if name.startswith("figures/"):
            begins = {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG\r\n", "csv": b""}[name.rpartition(".")[2]]
            assert file.startswith(begins) and len(file) > 20
    assert whole.files["figures/rates.csv"] == whole.files["tables/rates.csv"]


def test_archive_wide_and_long_tables_agree(whole: ExportedStudy) -> None:
    long, wide = whole.read_rows("ratings.csv"), whole.read_rows("ratings_wide.csv")
    counting = [row for row in long if row["counts"] == "1"]
    assert len(long) == 20 and len(counting) == 18  # one surplus, one second showing
    by_item = {row["item"]: row for row in wide}
    for row in counting:
        cells = by_item[row["item"]]
        label = row["rater"]
        assert (cells[f"{label}_verdict"], cells[f"{label}_confidence"]) == (row["verdict"], row["confidence"])
        assert (cells["source"], cells["truth"]) == (row["source"], row["truth"])
    filled = sum(cells[name] != "" for cells in wide for name in cells if name.endswith("_verdict"))
    assert filled == 17 and sum(int(row["ratings"]) for row in wide) == 18  # one could not be judged
    assert sum(int(row["could_not_judge"]) for row in wide) == 1


def test_archive_versions_end_with_the_rating_in_force(whole: ExportedStudy) -> None:
    last: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in whole.read_rows("versions.csv"):
        last[row["item"], row["rater"], row["occasion"]] = row
    standing = {(row["item"], row["rater"], row["occasion"]): row for row in whole.read_rows("ratings.csv")}
    assert last.keys() == standing.keys()
    for key, row in last.items():
        for name in ("revision", "verdict", "confidence", "cannot_judge", "marked", "note"):
            assert row[name] == standing[key][name]
    # 20 answers, eleven corrected by a note, one to "cannot judge".
    assert len(whole.read_rows("versions.csv")) == 20 + len(exported_study.NOTES) + 1


def test_archive_events_are_ordered_by_time_without_exports(whole: ExportedStudy) -> None:
    events = whole.read_rows("events.csv")
    assert [row["at"] for row in events] == sorted(row["at"] for row in events)
    kinds = [row["kind"] for row in events if row["event"] == "study"]
    assert kinds[:2] == ["created", "opened"] and kinds[-1] == "unblinded" and "exported" not in kinds
    assert sum(row["event"] == "answer" for row in events) == 20
    (member,) = [row for row in events if row["kind"] == "member"]
    assert member["detail"] == ""  # it would name an account


def test_archive_describes_items_and_model_raters(whole: ExportedStudy) -> None:
    items = {row["item"]: row for row in whole.read_rows("items.csv")}
    assert sorted(items) == sorted(whole.facts["items"])
    payloads = [json.loads(line) for line in whole.files["items.jsonl"].decode().splitlines()]
    assert [one["item"] for one in payloads] == sorted(items)
    assert all(one["payload"]["kind"] == "transition" for one in payloads)
    ratings = whole.read_rows("machine_ratings.csv")
    assert len(ratings) == 10 and {row["reasoning"] for row in ratings} == {"'=1+1\nno, really"}
    (machine,) = whole.read_rows("machine_raters.csv")
    assert (machine["rater"], machine["name"], machine["kind"], machine["ratings"]) == (
        "M1",
        "rules <1>",
        "checker",
        "10",
    )


def test_archive_imrmc_files_contain_the_ratings_and_truths_of_each_error_source(whole: ExportedStudy) -> None:
    for place, source in enumerate(whole.table.error_sources, 1):
        (name,) = [name for name in whole.files if name.startswith(f"imrmc/{place:02}-")]
        read = imrmc_reader.parse_reader_study(whole.files[name].decode())
        own = whole.table.select_against_unperturbed(source)
        expected = {
            (own.raters[r], own.items[i]): (-s, 1 - t)
            for r, i, s, t in zip(own.rater, own.item, own.signed_ratings, own.reference, strict=True)
        }
        assert {(one.reader, one.case): (one.score, read.truth[one.case]) for one in read.readings} == expected


# Description of itself


def test_archive_checksums_cover_every_file(whole: ExportedStudy) -> None:
    for files in (whole.files, whole.blinded):
        sums = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].decode().splitlines())
        assert sorted(sums) == sorted(set(files) - {"SHA256SUMS"})
        assert all(hashlib.sha256(files[name]).hexdigest() == digest for name, digest in sums.items())


# Rules of the Data Package standard 2.0 from frictionlessdata/datapackage, profiles/target/2.0/datapackage.json and
# profiles/source/dictionary/{resource,schema}.yaml: required properties, their patterns, and the types of fields.
PATH = re.compile(r"^((?=[^./~])(?!file:)((?!\/\.\.\/)(?!\\)(?!:\/\/).)*|(http|ftp)s?:\/\/.*)$")
HASH = re.compile(r"^([^:]+:[a-fA-F0-9]+|[a-fA-F0-9]{32}|)$")
MEDIATYPE = re.compile(r"^(.+)/(.+)$")
FIELDS = {
    "string": {"default", "email", "uri", "binary", "uuid"}, "number": {"default"}, "integer": {"default"},
    "boolean": {"default"}, "array": {"default"}, "datetime": None,
}  # fmt: skip


def test_archive_descriptor_follows_the_data_package_standard(whole: ExportedStudy) -> None:
    for files in (whole.files, whole.blinded):
        package = json.loads(files["datapackage.json"])
        assert all(isinstance(package[name], str) for name in ("$schema", "name", "id", "title", "description"))
        resources = package["resources"]
        assert isinstance(resources, list) and resources
        assert sorted(one["path"] for one in resources) == sorted(set(files) - {"datapackage.json", "SHA256SUMS"})
        assert len({one["name"] for one in resources}) == len(resources)
        for one in resources:
            assert "data" not in one and isinstance(one["name"], str) and PATH.fullmatch(one["path"])
            assert MEDIATYPE.fullmatch(one["mediatype"]) and HASH.fullmatch(one["hash"])
            assert isinstance(one["bytes"], int) and one["bytes"] == len(files[one["path"]])
            assert one["hash"] == f"sha256:{hashlib.sha256(files[one['path']]).hexdigest()}"
            assert one.get("type", "table") == "table" and ("schema" in one) == one["path"].endswith(".csv")
            for field in one.get("schema", {"fields": []})["fields"]:
                formats = FIELDS[field["type"]]
                assert field["name"] and (formats is None or field.get("format", "default") in formats)


def test_archive_cells_have_the_type_of_their_schema(whole: ExportedStudy) -> None:
    readers = {
        "string": str, "integer": int, "number": float, "boolean": {"0": False, "1": True}.__getitem__,
        "datetime": datetime.fromisoformat, "array": lambda cell: list(json.loads(cell)),
    }  # fmt: skip
    for files in (whole.files, whole.blinded):
        for one in json.loads(files["datapackage.json"])["resources"]:
            if "schema" in one:
                fields = one["schema"]["fields"]
                lines = files[one["path"]].decode().splitlines()
                assert next(csv.reader(lines)) == [field["name"] for field in fields]
                types = {field["name"]: readers[field["type"]] for field in fields}
                for row in exported_study.parse_csv(files[one["path"]]):
                    for name, cell in row.items():
                        assert cell == "" or types[name](cell) is not None


def test_archive_primary_keys_are_unique(whole: ExportedStudy) -> None:
    for files, keyed in ((whole.files, {"items", "raters", "machine_raters", "machine_ratings", "codebook"}),
                         (whole.blinded, {"items", "raters", "codebook"})):  # fmt: skip
        found = {
            one["path"]: one["schema"]["primaryKey"]
            for one in json.loads(files["datapackage.json"])["resources"]
            if "primaryKey" in one.get("schema", {})
        }
        assert set(found) == {f"{name}.csv" for name in keyed}
        for name, key in found.items():
            keys = [tuple(row[column] for column in key) for row in exported_study.parse_csv(files[name])]
            assert keys and len(set(keys)) == len(keys) and all(map(all, keys))


def test_archive_codebook_has_every_column_of_every_table(whole: ExportedStudy) -> None:
    for files in (whole.files, whole.blinded):
        told = defaultdict(list)
        for row in exported_study.parse_csv(files["codebook.csv"]):
            assert row["meaning"] and row["type"] in ("text", "count", "number", "flag", "moment", "list")
            told[row["file"]].append(row["column"])
        assert sorted(told) == sorted(name for name in files if name.endswith(".csv"))
        for name, columns in told.items():
            assert next(csv.reader(files[name].decode().splitlines())) == columns
        assert told["ratings.csv"] == list(COLUMNS) == list(COLUMN_MEANINGS)


def test_archive_readme_names_every_file_and_says_that_imrmc_itself_was_not_run(whole: ExportedStudy) -> None:
    readme = whole.files["README.md"].decode()
    assert all(f"- `{name}`: " in readme for name in set(whole.files) - {"README.md"})
    assert "they were not run in that program" in " ".join(readme.split())
    assert exported_study.SOURCE not in readme  # its signs are escaped


def test_archive_records_versions_and_seeds(whole: ExportedStudy) -> None:
    made = json.loads(whole.files["made_with.json"])
    assert re.fullmatch("[0-9a-f]{64}", made["wetbench"]["source_sha256"])
    assert {"Django", "numpy", "scipy", "altair"} <= made["libraries"].keys() and made["study"]["seed"] == 7
    assert made["analysis"]["sha256"] == hashlib.sha256(whole.results).hexdigest()
    assert (made["analysis"]["seed"], made["analysis"]["resamples"]) == (0, 2000)


# Reproducible and without names


def test_archive_is_reproducible_byte_for_byte_after_an_export(whole: ExportedStudy) -> None:
    assert whole.blinded_zips[0] == whole.blinded_zips[1]
    first = {name: hashlib.sha256(file).hexdigest() for name, file in whole.files.items()}
    # PDF and PNG are rendered from the SVG; tests/ratings/results/figures checks that they are reproducible.
    left_out = {name for name in first if exported_study.is_print_figure(name)} | {"SHA256SUMS", "datapackage.json"}
    assert whole.second_digests == {name: digest for name, digest in first.items() if name not in left_out}


def test_archive_members_have_a_fixed_time_and_sorted_names(whole: ExportedStudy) -> None:
    with zipfile.ZipFile(io.BytesIO(whole.zip)) as archive:
        infos = archive.infolist()
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    names = [info.filename for info in infos]
    assert (names[0], names[-2:]) == ("README.md", ["datapackage.json", "SHA256SUMS"])
    assert names[1:-2] == sorted(names[1:-2])


def test_archive_contains_no_names_addresses_or_accounts(whole: ExportedStudy) -> None:
    for files in (whole.files, whole.blinded):
        for name, file in files.items():
            if not exported_study.is_print_figure(name):
                text = file.decode()
                assert [told for told in exported_study.NAMES if told in text] == [], name


def test_blinded_archive_contains_no_source_truth_or_note(whole: ExportedStudy) -> None:
    text = "".join(file.decode() for file in whole.blinded.values())
    for secret in ("gpt_5", *(note.strip() for note in exported_study.NOTES if len(note) > 4), whole.facts["salt"]):
        assert secret not in text
    sealed = {row["column"] for row in whole.read_rows("codebook.csv") if "(sealed)" in row["meaning"]}
    for name in ("ratings.csv", "ratings_wide.csv", "items.csv"):
        for row in exported_study.parse_csv(whole.blinded[name]):
            assert {row[column] for column in sealed & row.keys()} == {""}
    assert whole.facts["salt"] in whole.files["methods.txt"].decode()


# Text for papers


def test_archive_methods_report_the_studys_numbers(whole: ExportedStudy) -> None:
    said = " ".join(whole.files["methods.txt"].decode().split())
    for part in (
        "There were 10 items; the protocol requests 4 items by offline, 3 obvious items by offline and 3 subtle items by "
        "offline. An error was planted in 60.0% of the rated items.",
        "18 ratings that count came from 4 people.",
        "Model raters rated the same frozen items and are excluded from all numbers on raters: M1, rules <1>.",
        "2 ratings of each item were requested; items had 1 to 2 (median 2).",
        f"drawn from the seed 7 and the salt {whole.facts['salt']}.",
        "Layout: aligned throughout.",
        "Ratings excluded from every number: 1 submitted after the item had been reassigned to another rater.",
        "In 1 rating the rater could not judge;",
        f"and passed (SHA-256 of the report {'5' * 64}).",
        "There was no interim analysis. The study was unblinded on",
        "was not met: every number is interim. 2 ratings to go.",
        "use 2,000 resamples and the seed 0.",
        "Wilson with the effective n of items and raters, t quantile, new raters, new items",
    ):
        assert part in said, part
    blinded = " ".join(whole.blinded["methods.txt"].decode().split())
    assert "According to the protocol, an error is planted in 60.0% of the items from the pool." in blinded
    assert "resamples" not in blinded and "a salt that is withheld until unblinding" in blinded


def test_latex_table_prints_hostile_names_literally(whole: ExportedStudy) -> None:
    written = whole.files["latex/rates.tex"].decode()
    assert r"=gpt\_5 \& 50\%\textbackslash{}\{x\}../\textless{}b\textgreater{}" in written
    for name in ("rates", "agreement", "detection", "table1"):
        text = whole.files[f"latex/{name}.tex"].decode()
        body = re.sub(r"\\[{}%&_#$]", "", text)
        assert body.count("{") == body.count("}") and text.isascii()
        rows = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert columns and rows
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(columns[1])}


def find_latex() -> str:
    """Return the path of pdflatex, or skip the test if it or booktabs is not installed."""
    program, finder = shutil.which("pdflatex"), shutil.which("kpsewhich")
    if not program or not finder or subprocess.run([finder, "booktabs.sty"], capture_output=True).returncode:
        pytest.skip("needs LaTeX with booktabs: sudo apt-get install texlive-latex-recommended")
    return program


@pytest.mark.optional
def test_latex_tables_compile_with_only_booktabs(whole: ExportedStudy, tmp_path: Path) -> None:
    latex = find_latex()
    names = [name for name in whole.files if name.startswith("latex/")]
    for name in names:
        (tmp_path / Path(name).name).write_bytes(whole.files[name])
    inputs = "\n".join(f"\\input{{{Path(name).name}}}" for name in names)
    printable = [chr(code) for code in range(0x20, 0x250)]
    text = "\n\n".join(texts.escape_latex(f"[{sign}] *{sign}") for sign in printable)
    document = (
        "\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{}\n\n{}\n\\end{{document}}\n"
    )
    (tmp_path / "all.tex").write_text(document.format(inputs, text), encoding="utf-8")
    command = [latex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = (tmp_path / "all.log").read_text(encoding="utf-8", errors="replace")
    assert len(names) == 4 and done.returncode == 0, log[-3000:]
    assert "Missing character" not in log and (tmp_path / "all.pdf").stat().st_size > 0


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        ("a_b", r"a\_b"), ("100 %", r"100 \%"), ("\\input{x}", r"\textbackslash{}input\{x\}"), ("x^2~", r"x\textasciicircum{}2\textasciitilde{}"),
        ("é ü", "é ü"), ("水", "?"), ("a\nb", "a b"), ("\u202e", "?"), ("[1]", "{[}1{]}"), ("“so”", "``so''"),
        ("*x", "{*}x"),
    ],
)  # fmt: skip
def test_latex_text_is_escaped(text: str, set_as: str) -> None:
    assert texts.escape_latex(text) == set_as


def test_latex_keeps_latin_letters_with_one_accent() -> None:
    signs = [chr(code) for code in range(0xA0, 0x250)]
    assert "".join(sign for sign in signs if texts.escape_latex(sign) == sign) == (
        "ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿ"
        "ĀāĂăĆćĈĉĊċČčĎďĒēĔĕĖėĚěĜĝĞğĠġĢģĤĥĨĩĪīĬĭİĴĵĶķĹĺĻļĽľŃńŅņŇňŌōŎŏŐőŔŕŖŗŘřŚśŜŝŞşŠšŢţŤťŨũŪūŬŭŮůŰűŴŵŶŷŸŹźŻżŽž"
    )
    assert texts.escape_latex("Ĳĳ Ŀŀ ŉ ſ") == "?? ?? ? ?"  # two letters in one, or another form of one


def test_count_range_consists_of_minimum_median_and_maximum() -> None:
    # 0, 1, 1, 4: the middle is 1; 0, 1, 4, 4: between 1 and 4.
    assert CountRange.from_frequencies({0: 1, 1: 2, 4: 1}) == (0, 1, 4)
    assert CountRange.from_frequencies({4: 2, 0: 1, 1: 1}) == (0, 2.5, 4)
    assert CountRange.from_frequencies({}) == (0, 0, 0)


def test_methods_join_names_with_commas_and_and() -> None:
    assert [texts.join_with_and(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip


def test_archive_methods_state_the_range_of_items_that_two_raters_share(whole: ExportedStudy) -> None:
    # Four raters, ten items, two raters for each: count for every pair of raters the items that both have rated.
    shared = {(a, b): 0 for a in range(4) for b in range(a + 1, 4)}
    raters_of_item = defaultdict(set)
    for item, rater in zip(whole.table.item.tolist(), whole.table.rater.tolist(), strict=True):
        raters_of_item[item].add(rater)
    for raters in raters_of_item.values():
        for pair in combinations(sorted(raters), 2):
            shared[pair] += 1
    expected = CountRange(min(shared.values()), statistics.median(shared.values()), max(shared.values()))
    assert contents._count_shared_items(whole.table) == expected
    assert f"Any two raters share {texts.format_range(expected)} items" in whole.files["methods.txt"].decode()
