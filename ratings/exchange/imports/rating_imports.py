"""Import ratings collected elsewhere into a study: the whole file or nothing. They count and are labelled imported.

The file is a CSV table; every problem has its line and column. A study's own export is such a table. Rows that the export
marks as not counted (repeats, surplus ratings, reassigned items) are left out and their number is reported, as are the
imported rows of a blinded export, which name no item.
"""

import io
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from ratings.blinding.pseudonyms import replace_invisible
from ratings.exchange import rating_tables
from ratings.exchange.imports import json_lines
from ratings.exchange.imports.item_imports import MAX_PROBLEMS, ImportRefused
from ratings.models import Assignment, ItemSource, Rater, Rating, RatingEvent, Study
from ratings.models.study_events import RatingsImported
from ratings.studies import StudyError, designs
from ratings.studies.item_counts import update_item_counts
from ratings.studies.lifecycle import log_event
from wetbench_site.text import UNSTORABLE
from wetbench_site.validation import Problem

REQUIRED_COLUMNS = ("item", "rater", "verdict", "confidence")
OPTIONAL_COLUMNS = ("submitted_at", "seconds", "note", "simulated")
MAX_BYTES = 20 * 1024 * 1024  # of a file, which is read as a whole
MAX_ROWS = 10_000
MAX_NOTE_LENGTH = 4_000
# "p" and "s" are short for plausible and sufficient; here, unlike in `long_tables`, they cannot be names of categories.
_YES = (*rating_tables.YES_WORDS, "p", "s")
_ITEM_CODE = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_EARLIEST_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class ParsedRow(NamedTuple):
    """One rating of the file. `verdict` and `confidence` are None if the rater could not judge, `simulated` if not stated."""

    line: int
    item: str
    rater: str
    verdict: bool | None
    confidence: int | None
    submitted_at: datetime | None
    seconds: float
    note: str
    simulated: bool | None


class ParsedTable(NamedTuple):
    """The valid rows, the problems of the others, and the numbers of rows left out (not counted, no item)."""

    rows: list[ParsedRow]
    problems: list[Problem]
    left_out: int = 0
    nameless: int = 0


def parse_ratings_csv(stream: BinaryIO, now: datetime) -> ParsedTable:
    """Parse the file into a table, without comparing it with a study."""
    problems: list[Problem] = []
    rows: list[ParsedRow] = []
    left_out = nameless = 0
    try:
        # the order matters: rows that are left out may be incomplete without being a problem
        for line, cells in _iter_cells(_decode_file(stream)):
            # Both names are needed: in tables of other tools, a common name such as `counts` could mean anything.
            is_exported = "occasion" in cells and "surplus" in cells
            if is_exported and cells.get("counts", "").strip() == "0":
                left_out += 1
            elif is_exported and cells.get("imported", "").strip() == "1" and not cells.get("item", "").strip():
                nameless += 1
            else:
                n_before = len(problems)
                row = _parse_row(line, cells, now, json_lines.create_recorder(problems, line))
                rows += [row] * (len(problems) == n_before)
    except rating_tables.TableError as error:
        problems.append(error.problem)
    if not rows and not problems:
        message = "it has no row that counts and names its item"
        problems.append(Problem(0, "", message if left_out or nameless else "the table has no rows"))
    return ParsedTable(rows, problems + _find_contradicting_rows(rows), left_out, nameless)


def _find_contradicting_rows(rows: Iterable[ParsedRow]) -> list[Problem]:
    """Return problems for rows that contradict an earlier row on whether their rater is simulated."""
    first_rows: dict[str, ParsedRow] = {}
    problems = []
    for row in rows:
        if row.simulated is not None and (first := first_rows.setdefault(row.rater, row)).simulated != row.simulated:
            others = f"{row.rater[:60]!r}, but {first.simulated:d} on line {first.line}"
            message = f"is {row.simulated:d} for {others}; it must be the same in all rows of a rater"
            problems.append(Problem(row.line, "simulated", message))
    return problems


def _decode_file(stream: BinaryIO) -> str:
    # one byte more than allowed, to see whether there is more
    raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise rating_tables.TableError(0, f"larger than {MAX_BYTES // 1024**2} MiB")
    try:
        json_lines.check_is_text(raw)
        return raw.decode("utf-8-sig")
    except json_lines.FileError as error:
        raise rating_tables.TableError(0, str(error)) from error
    except UnicodeDecodeError as error:
        raise rating_tables.TableError(raw.count(b"\n", 0, error.start) + 1, "not UTF-8") from error


def _iter_cells(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    rows = rating_tables.iter_rows(io.StringIO(text, newline=""), json_lines.MAX_LINE_LENGTH)
    number, header = next(rows, (0, []))
    if not number:
        raise rating_tables.TableError(0, "the file is empty")
    names = [rating_tables.normalise_column(cell) for cell in header]
    if missing := [name for name in REQUIRED_COLUMNS if name not in names]:
        raise rating_tables.TableError(number, f"the first line must name the columns; missing: {', '.join(missing)}")
    if duplicates := [name for name in (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS) if names.count(name) > 1]:
        raise rating_tables.TableError(number, f"the column {duplicates[0]} appears twice")
    for n_rows, (number, row) in enumerate(rows, 1):
        if n_rows > MAX_ROWS:
            raise rating_tables.TableError(0, f"more than {MAX_ROWS:,} rows")
        if len(row) > len(names):
            raise rating_tables.TableError(number, f"has {len(row)} cells, the first line {len(names)}")
        yield number, dict(zip(names, map(rating_tables.restore_cell, row), strict=False))


def _parse_row(line: int, cells: Mapping[str, str], now: datetime, note: json_lines.RecordProblem) -> ParsedRow:
    for name, cell in cells.items():
        if UNSTORABLE.search(cell):
            note(name[:80], "contains the character NUL or half a surrogate pair")

    def get(name: str) -> str:
        return cells.get(name, "")

    # our own export writes an empty verdict and 1 in `cannot_judge`
    is_unsure = not get("verdict").strip() and get("cannot_judge").strip() == "1"
    verdict, judged = _parse_verdict(rating_tables.CANNOT_JUDGE_WORDS[0] if is_unsure else get("verdict"), note)
    item, rater = (_parse_name(name, get(name).strip(), note) for name in ("item", "rater"))
    # codes are compared as text, and some tools write them in capitals
    item = item.lower() if _ITEM_CODE.fullmatch(item) else item
    confidence = _parse_confidence(get("confidence"), judged, note)
    submitted_at = _parse_time(get("submitted_at"), now, note)
    seconds = _parse_seconds(get("seconds"), note)
    if len(get("note")) > MAX_NOTE_LENGTH:
        note("note", f"is longer than {MAX_NOTE_LENGTH:,} characters")
    simulated = get("simulated").strip()
    if simulated not in ("0", "1", ""):
        note(
            "simulated",
            f"is {rating_tables.format_quoted(get('simulated'))}; it must be 1 for a simulated rater, 0 for others, or empty",
        )
    text, is_simulated = replace_invisible(get("note")), {"0": False, "1": True}.get(simulated)
    return ParsedRow(line, item, rater, verdict, confidence, submitted_at, seconds, text, is_simulated)


def _parse_name(name: str, text: str, note: json_lines.RecordProblem) -> str:
    if not 0 < len(text) <= 120:
        note(name, f"is {rating_tables.format_quoted(text)}; it must have 1 to 120 characters")
    elif json_lines.has_hidden_characters(text):
        note(name, f"is {rating_tables.format_quoted(text)}; it must not contain control characters or line breaks")
    return text


def _parse_verdict(text: str, note: json_lines.RecordProblem) -> tuple[bool | None, bool | None]:
    """Return the verdict (None: cannot judge) and whether there is one. Both are None if the text is not valid."""
    word = rating_tables.normalise_verdict(text)
    if word in _YES or word in rating_tables.NO_WORDS:
        return word in _YES, True
    if word in rating_tables.CANNOT_JUDGE_WORDS:
        return None, False
    allowed = "allowed: 1 or 0, plausible or not plausible, sufficient or not, cannot judge"
    note("verdict", f"is {rating_tables.format_quoted(text)}; {allowed}")
    return None, None


def _parse_confidence(text: str, judged: bool | None, note: json_lines.RecordProblem) -> int | None:
    text = rating_tables.normalise_verdict(text)
    if text in ("1", "2", "3", "4", "5") and judged:
        return int(text)
    if judged:
        note("confidence", f"is {rating_tables.format_quoted(text)}; it must be 1, 2, 3, 4 or 5")
    elif text and judged is False:
        note("confidence", f"is {rating_tables.format_quoted(text)}; it must be empty if the rater could not judge")
    return None


def _parse_time(text: str, now: datetime, note: json_lines.RecordProblem) -> datetime | None:
    """Return a time with its zone; without a zone it is read as UTC."""
    if not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        note("submitted_at", f"is {rating_tables.format_quoted(text)}; it must have the form 2026-03-01T14:05:00+00:00")
        return None
    # a day of tolerance for clocks and times without a zone
    if _EARLIEST_TIME <= time <= now + timedelta(days=1):
        return time
    note("submitted_at", f"is {rating_tables.format_quoted(text)}; it must be between 2000 and now")
    return None


def _parse_seconds(text: str, note: json_lines.RecordProblem) -> float:
    if not text.strip():
        return 0.0
    try:
        seconds = math.nan if "_" in text else float(text)  # Python would read 1_000 as 1000
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 10**6:
        note("seconds", f"is {rating_tables.format_quoted(text)}; it must be a number from 0 to 1,000,000")
        return 0.0
    return seconds


ALLOWED_STATUSES = ("open", "paused", "closed")


class ItemTarget(NamedTuple):
    """An item of the study that a row can refer to."""

    item_id: int
    pair: UUID


@dataclass(frozen=True)
class CheckedRatings:
    """The content of a file after all checks. If there is any problem, nothing of the file can be imported."""

    rows: tuple[ParsedRow, ...]
    problems: tuple[Problem, ...]
    items: int
    known_raters: tuple[str, ...]  # imported from an earlier file
    new_raters: tuple[str, ...]
    left_out: int = 0  # rows of an export that are not counted
    nameless: int = 0  # imported rows of a blinded export, which do not name their item

    @property
    def n_cannot_judge(self) -> int:
        return sum(row.verdict is None for row in self.rows)


def check_file(study: Study, stream: BinaryIO) -> CheckedRatings:
    """Return what `import_file` would import. Nothing is written."""
    parsed = parse_file(study, stream)
    study = Study.objects.get(pk=study.pk)
    return _check_ratings(study, parsed, _load_targets(study))


def import_file(study: Study, stream: BinaryIO, user: User | None = None) -> CheckedRatings:
    """Import the file: create a rater for each new name and, for each row, an assignment, its rating and its event."""
    # Before the transaction: it locks the study's row, and raters' answers wait for that lock.
    parsed = parse_file(study, stream)
    with transaction.atomic():
        return store_import(study, parsed, user)


def parse_file(study: Study, stream: BinaryIO) -> ParsedTable:
    """Return the parsed table. This first half of `import_file` can take long and needs no lock."""
    _check_accepts_ratings(Study.objects.get(pk=study.pk))
    return parse_ratings_csv(stream, timezone.now())


def store_import(study: Study, parsed: ParsedTable, user: User | None = None) -> CheckedRatings:
    """Store the parsed table. Call it in a transaction. Raises ImportRefused if there is any problem."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    targets = _load_targets(study)
    checked = _check_ratings(study, parsed, targets)
    if checked.problems:
        raise ImportRefused(checked.problems)
    raters = _load_or_create_raters(study, checked)
    now = timezone.now()
    assignments = Assignment.objects.bulk_create(_build_assignments(checked.rows, targets, raters, now), batch_size=200)
    ratings = [_build_rating(row, assignment, now) for row, assignment in zip(checked.rows, assignments, strict=True)]
    Rating.objects.bulk_create(ratings, batch_size=200)
    RatingEvent.objects.bulk_create(map(_build_event, ratings), batch_size=200)
    update_item_counts(Rater.objects.filter(pk__in=[rater.pk for rater in raters.values()]))
    log_event(study, RatingsImported(ratings=len(ratings), raters=len(raters)), user)
    return checked


def _check_ratings(study: Study, parsed: ParsedTable, targets: Mapping[str, ItemTarget]) -> CheckedRatings:
    """Check the parsed table against the current state of the study."""
    _check_accepts_ratings(study)
    known_raters = _load_known_raters(study)
    rows_with_item = [row for row in parsed.rows if row.item in targets]
    problems = [
        *parsed.problems,
        *_find_unknown_items(parsed.rows, targets),
        *_find_repeated_ratings(study, rows_with_item, targets),
        *_find_exported_ratings(study, rows_with_item),
        *_find_changed_raters(rows_with_item, known_raters),
    ]
    rater_names = dict.fromkeys(row.rater for row in parsed.rows)
    return CheckedRatings(
        rows=tuple(parsed.rows),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)[:MAX_PROBLEMS]),
        items=len({targets[row.item].item_id for row in rows_with_item}),
        known_raters=tuple(name for name in rater_names if name in known_raters),
        new_raters=tuple(name for name in rater_names if name not in known_raters),
        left_out=parsed.left_out,
        nameless=parsed.nameless,
    )


def _check_accepts_ratings(study: Study) -> None:
    if study.status not in ALLOWED_STATUSES:
        rule = "ratings can only be imported while it is open, paused or closed"
        raise StudyError(f"{study.name} is {study.status}; {rule}")
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover study, and the session of ratings collected elsewhere is not known. Import them into "
            "a study with the design crossed or balanced"
        )


def _load_targets(study: Study) -> dict[str, ItemTarget]:
    """Return the items by code. In a study with imported items, return only those, and only by the id in their file."""
    sources = ItemSource.objects.filter(item__study=study)
    items = list(sources.values_list("item_id", "item__code", "pair", "imported__key"))
    # If both names were accepted, a file that uses both would reveal, by the problem "rated twice", which code
    # belongs to which imported item.
    by_key = {key: ItemTarget(item, pair) for item, _, pair, key in items if key}
    return by_key or {str(code): ItemTarget(item, pair) for item, code, pair, _ in items}


def _load_known_raters(study: Study) -> dict[str, Rater]:
    return {rater.imported_as: rater for rater in study.raters.exclude(imported_as="")}


def _find_unknown_items(rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget]) -> list[Problem]:
    rule = "use the id of imported items; use the code if the study has no imported items"
    unknown = [row for row in rows if row.item not in targets]
    return [Problem(row.line, "item", f"{row.item[:60]!r} is not an item of this study: {rule}") for row in unknown]


def _find_repeated_ratings(study: Study, rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget]) -> list[Problem]:
    """Return problems for rows whose rater has rated the item on an earlier line or in an earlier file."""
    rated = Assignment.objects.filter(rater__study=study).exclude(rater__imported_as="")
    already_rated = set(rated.values_list("item_id", "rater__imported_as"))
    first_lines: dict[tuple[int, str], int] = {}
    problems = []
    for row in rows:
        item_and_rater = targets[row.item].item_id, row.rater
        first = first_lines.setdefault(item_and_rater, row.line)
        where = "in an earlier file" if item_and_rater in already_rated else f"on line {first}"
        if item_and_rater in already_rated or first != row.line:
            problems.append(Problem(row.line, "rater", f"{row.rater[:60]!r} has already rated this item {where}"))
    return problems


def _find_exported_ratings(study: Study, rows: Sequence[ParsedRow]) -> list[Problem]:
    """Return a problem for each row with the rater label and time of a stored rating, as in the study's export."""
    labels = {row.rater for row in rows if row.submitted_at} & set(study.raters.values_list("label", flat=True))
    # The item is not compared: a result that depended on it would reveal which code an imported item has.
    ratings = Rating.objects.filter(assignment__rater__study=study, assignment__rater__label__in=labels)
    existing = set(ratings.values_list("assignment__rater__label", "submitted_at"))
    rule = "with this time is already in this study; remove the row from the file"
    known = [row for row in rows if (row.rater, row.submitted_at) in existing]
    return [Problem(row.line, "submitted_at", f"a rating by {row.rater[:60]!r} {rule}") for row in known]


def _find_changed_raters(rows: Sequence[ParsedRow], known: Mapping[str, Rater]) -> list[Problem]:
    """Return problems for rows that contradict an earlier file on whether a rater is simulated."""
    problems = []
    for row in rows:
        rater = known.get(row.rater)
        if rater and row.simulated is not None and row.simulated != rater.simulated:
            message = f"is {row.simulated:d}, but in an earlier file {row.rater[:60]!r} is {'' if rater.simulated else 'not '}simulated"
            problems.append(Problem(row.line, "simulated", message))
    return problems


def _load_or_create_raters(study: Study, checked: CheckedRatings) -> dict[str, Rater]:
    """Return the raters of the file by name: those of earlier files, and new ones with the next labels."""
    raters = {name: rater for name, rater in _load_known_raters(study).items() if name in checked.known_raters}
    simulated_names = {row.rater for row in checked.rows if row.simulated}
    number = study.raters.aggregate(last=Max("number"))["last"] or 0
    for name in checked.new_raters:
        number += 1
        raters[name] = Rater.objects.create(
            study=study, number=number, label=f"R{number:02}", imported_as=name, simulated=name in simulated_names
        )
    return raters


def _build_assignments(
    rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget], raters: Mapping[str, Rater], import_time: datetime
) -> Iterator[Assignment]:
    """Yield an assignment for each row, without a slot: imported ratings add to those that the study requests."""
    earlier = Assignment.objects.filter(rater__in=raters.values())
    last_position = dict(earlier.values_list("rater").annotate(last=Max("position")))
    seen_pairs = set(earlier.values_list("rater", "pair"))
    for row in rows:
        rater, target = raters[row.rater], targets[row.item]
        # In another tool a rater may have seen several versions of a pair. Each further version is stored under a new
        # pair, because the database allows each pair only once per rater and session.
        pair = target.pair if (rater.pk, target.pair) not in seen_pairs else uuid.uuid4()
        seen_pairs.add((rater.pk, pair))
        last_position[rater.pk] = last_position.get(rater.pk, 0) + 1
        yield Assignment(
            item_id=target.item_id, rater=rater, position=last_position[rater.pk], pair=pair, layout="plain",
            answered_at=row.submitted_at or import_time,
        )  # fmt: skip


def _build_rating(row: ParsedRow, assignment: Assignment, import_time: datetime) -> Rating:
    submitted = row.submitted_at or import_time
    return Rating(
        assignment=assignment, verdict=row.verdict, confidence=row.confidence, cannot_judge=row.verdict is None,
        note=row.note, submission_id=uuid.uuid4(), opened_at=submitted - timedelta(seconds=row.seconds),
        submitted_at=submitted, seconds=row.seconds, imported=True,
    )  # fmt: skip


def _build_event(rating: Rating) -> RatingEvent:
    same = {name: getattr(rating, name) for name in ("assignment", "verdict", "confidence", "cannot_judge", "note")}
    return RatingEvent(kind="imported", revision=1, submission_id=uuid.uuid4(), at=rating.submitted_at, **same)
