"""A small study with hostile names and notes, exported once and inspected by many tests."""

import csv
import hashlib
import io
import uuid
import zipfile
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from ratings.exchange import exports
from ratings.exchange.archive import build, contents
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.models import (
    Assignment,
    BlindingAudit,
    ImportedItem,
    ItemSource,
    MachineRater,
    MachineRating,
    Rating,
    Study,
)
from ratings.models.study_events import MemberChanged, TableExported
from ratings.raters import model_raters
from ratings.rating import submit
from ratings.results.analyses import rating_columns, store
from ratings.results.analyses.filters import Filters
from ratings.stats.ratings_table import Ratings
from ratings.studies import lifecycle
from tests.support import run_factory, study_factory

# Has special characters of spreadsheets, LaTeX, Markdown, HTML and file paths.
SOURCE = "=gpt_5 & 50%\\{x}../<b>"
NOTES = (
    "=HYPERLINK(\"http://evil.example/\",\"x\")", "'quoted", "+1", "-1", "@SUM(A1)", "\ttab", "|pipe", "＝1",
    "two\nlines, \"and\" commas; \r\nCR LF", "  =1", "nothing odd in it",
)  # fmt: skip
NAMES = ("ada.lovelace", "Ada", "Lovelace", "ada@lab.example", "boss.name", "analyst.name")


@dataclass
class ExportedStudy:
    """The files of both archives, and what the database has on the same study."""

    files: dict[str, bytes]
    blinded: dict[str, bytes]
    second_digests: dict[str, str]  # digests of a second export, without PDF and PNG
    zip: bytes
    blinded_zips: list[bytes]
    ratings_csv: str
    results: bytes
    document: dict[str, Any]
    table: Ratings
    facts: dict[str, Any] = field(default_factory=dict)

    def read_rows(self, name: str) -> list[dict[str, str]]:
        return parse_csv(self.files[name])


def parse_csv(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode(), newline="")))


def unzip_files(zipped: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def build_archive(study: Study, blinded: bool, **options: Any) -> bytes:
    file = io.BytesIO()
    build.build_zip(study, blinded, file, **options)
    return file.getvalue()


def is_print_figure(name: str) -> bool:
    return name.endswith((".pdf", ".png"))


def hash_entry(entry: ArchiveFile) -> str:
    pieces = (piece.encode() if isinstance(piece, str) else piece for piece in entry.pieces())
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def create_rated_study() -> Study:
    """Create ten items with two ratings each by four named people: one answer cannot judge, one is surplus, one is a repeat."""
    run_factory.create_pool()
    study = study_factory.create_open_study(
        raters=4, name="Export = study", slug="export-study", contact="lab@example.org"
    )
    for index, rater in enumerate(study_factory.fill_all_rater_places(study)):
        if not index:
            User.objects.filter(pk=rater.user_id).update(
                username="ada.lovelace", first_name="Ada", last_name="Lovelace", email="ada@lab.example"
            )
        study_factory.rate_everything(rater)
    ratings = list(Rating.objects.order_by("pk"))
    for rating, note in zip(ratings, NOTES, strict=False):
        answer = rating.assignment, rating.verdict, rating.confidence, uuid.uuid4()
        submit.submit_rating(*answer, note=note, revision=rating.revision)
    undecided, surplus, repeat = ratings[-3:]
    submit.submit_rating(undecided.assignment, None, None, uuid.uuid4(), cannot_judge=True, revision=1)
    Assignment.objects.filter(pk=surplus.assignment_id).update(slot=None, surplus=True)
    Assignment.objects.filter(pk=repeat.assignment_id).update(slot=None, occasion=2)
    return study


def close_and_unblind(study: Study, boss: User) -> None:
    """Add an audit, sources with a hostile name and ratings by a model, then unblind the study."""
    BlindingAudit.objects.create(study=study, passed=True, report={"leaks": []}, sha256="5" * 64, by=boss)
    Study.objects.filter(pk=study.pk).update(salt="0f1e2d3c4b5a")
    ItemSource.objects.filter(item__study=study).update(label=SOURCE)
    machine = MachineRater.objects.create(study=study, label="M1", cast=model_raters.CHECKER, name="rules <1>")
    for index, item in enumerate(study.items.order_by("code")):
        MachineRating.objects.create(
            rater=machine, item=item, verdict=bool(index % 2), reasoning="=1+1\nno, really", payload_sha256="0" * 64
        )
    lifecycle.close_and_unblind(study, boss)
    study.refresh_from_db()


def export_study() -> ExportedStudy:
    """Export the study within the caller's transaction."""
    boss = User.objects.create_user("boss.name", is_staff=True)
    study = create_rated_study()
    lifecycle.log_event(study, MemberChanged(account=7, role="analyst", granted=True), boss)
    close_and_unblind(study, boss)
    archive = build_archive(study, blinded=False)
    lifecycle.log_event(study, TableExported(blinded=False), boss)  # between two archives of the same state
    analysis = store.compute_analysis(study, Filters())
    blinded = [build_archive(study, blinded=True), build_archive(study, blinded=True)]
    return ExportedStudy(
        files=unzip_files(archive),
        blinded=unzip_files(blinded[0]),
        second_digests={
            entry.name: hash_entry(entry)
            for entry in contents.list_unblinded_files(study, analysis)
            if not is_print_figure(entry.name)
        },
        zip=archive,
        blinded_zips=blinded,
        ratings_csv="".join(exports.export_csv_lines(study, blinded=False)),
        results=store.encode_document(analysis.document),
        document=analysis.document,
        table=rating_columns.load_analysis_data(study, Filters()).table,
        facts={"salt": study.salt, "items": [str(code) for code in study.items.values_list("code", flat=True)]},
    )


def mark_as_imported(study: Study, n: int | None = None) -> None:
    """Turn all items of the study, or the first n, into items imported from a file, with the ids K0, K1, ..."""
    for index, source in enumerate(ItemSource.objects.filter(item__study=study).order_by("pk")[:n]):
        row = ImportedItem.objects.create(
            study=study, key=f"K{index}", record={}, label="elsewhere", perturbation="none", payload={},
            payload_sha256=str(index), at=timezone.now(),
        )  # fmt: skip
        ItemSource.objects.filter(pk=source.pk).update(imported=row, transition=None, twin=None)
