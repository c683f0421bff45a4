"""Import items from a file with one JSON object per line into a study: all of them or none."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from ratings.blinding import Payload
from ratings.exchange.imports import item_lines, json_lines
from ratings.models import ImportedItem, Item, Study
from ratings.models.study_events import ImportsRemoved, ItemsImported
from ratings.protocol import study_protocol
from ratings.studies import StudyError, pool, preparations, quarantine, running_raters
from ratings.studies.lifecycle import log_event
from wetbench_site.database import JsonText, RowBatch, build_batch, delete_rows
from wetbench_site.validation import Problem

MAX_PROBLEMS = 1_000
ALLOWED_STATUSES = ("draft", "open", "paused")
_AFTER_ALL_LINES = 10**9  # as a line number: sorts behind every other problem


class ImportRefused(ValueError):  # noqa: N818  # an expected outcome, not an error of the program
    """Nothing was imported. `problems` lists everything that is wrong with the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class SpooledItems:
    """The parsed items of a file, in a temporary file: as objects, those of a large file would take gigabytes.

    Iteration returns them in the order of the file's lines, as unsaved rows.
    """

    _JSON_COLUMNS = ("record", "payload", "context", "target", "verdicts")
    _COLUMNS = (
        "key", "payload_sha256", "context_sha256", "label", "perturbation", "truth", "reference", "pair", "experiment",
        "action", *_JSON_COLUMNS,
    )  # fmt: skip

    def __init__(self) -> None:
        # Without a name in the file system, so that no other account can read it and nothing remains of it.
        self._file = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # open as long as this object exists
        self.ids_and_payloads: dict[int, tuple[str, str]] = {}  # by line: the item's id, and the digest of its payload
        self.count_by_source: Counter[tuple[str, str, str, bool | None]] = Counter()
        self.n_located = self.n_plain = 0

    def __len__(self) -> int:
        return len(self.ids_and_payloads)

    def __iter__(self) -> Iterator[ImportedItem]:
        for _, row in self._iter_rows():
            values = {name: json.loads(row[name]) if name in self._JSON_COLUMNS else row[name] for name in row}
            yield ImportedItem(**values)

    def add_item(self, line: int, item: ImportedItem) -> None:
        """Write the item to the file. Only what `item_lines` makes of a line can be added."""
        self.ids_and_payloads[line] = item.key, item.payload_sha256
        self.count_by_source[item.label, item.perturbation, item.reference, item.truth] += 1
        self.n_located += bool(item.target)
        self.n_plain += item.payload.get("lineage") is False
        values = (getattr(item, name) for name in self._COLUMNS)
        # Documents as the texts that the database stores, so that storing them needs no time.
        texts = [
            json.dumps(v) if name in self._JSON_COLUMNS else v for name, v in zip(self._COLUMNS, values, strict=True)
        ]
        self._file.write(json.dumps([line, *texts], ensure_ascii=False) + "\n")

    def iter_shown(self) -> Iterator[tuple[int, Payload, Payload]]:
        """Yield line, payload and context of each item: all that raters may see of it."""
        for line, row in self._iter_rows():
            yield line, json.loads(row["payload"]), json.loads(row["context"])

    def iter_batches(self, study: Study, user: User | None) -> Iterator[RowBatch]:
        """Yield the rows of the items in this study, in pieces."""
        now, columns = timezone.now(), ("study_id", "by_id", "at", *self._COLUMNS)
        rows = (
            (study.pk, user.pk if user else None, now, *(JsonText(v) if n in self._JSON_COLUMNS else v for n, v in row.items()))
            for _, row in self._iter_rows()
        )  # fmt: skip
        # In pieces, because an item with its record may have 512 KiB.
        while piece := list(itertools.islice(rows, 100)):
            yield build_batch(ImportedItem, columns, piece)

    def _iter_rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self._file.seek(0)
        for text in self._file:
            line, *values = json.loads(text)
            yield line, dict(zip(self._COLUMNS, values, strict=True))


@dataclass(frozen=True)
class CheckedItems:
    """The content of a file after all checks. If there is any problem, nothing of the file can be imported."""

    items: SpooledItems
    problems: tuple[Problem, ...]
    quarantine_reasons: tuple[Problem, ...] = ()  # locations and texts that might reveal the source of an item

    @property
    def count_by_source(self) -> list[tuple[str, str, str, bool | None, int]]:
        """Return (source, error type, reference, truth, number of items) for each group of items, sorted."""
        counts = ((*group, n) for group, n in self.items.count_by_source.items())
        return sorted(counts, key=lambda line: (*line[:3], str(line[3])))

    @property
    def n_located(self) -> int:
        """The number of items whose error has a known location."""
        return self.items.n_located

    @property
    def n_plain(self) -> int:
        """The number of transitions to be shown as plain lists, because it is uncertain which output continues which input."""
        return self.items.n_plain

    @property
    def n_quarantined(self) -> int:
        """The number of items with texts that might reveal their source. A person must decide before the study can use them."""
        return len({problem.line for problem in self.quarantine_reasons})


class ParsedFile(NamedTuple):
    """The items of a file, with the study settings for which it was parsed. Only a draft may change those settings."""

    parsed_for: tuple[str, object]
    items: SpooledItems
    problems: list[Problem]
    quarantine_reasons: list[Problem]  # a draft puts these items into quarantine; an open study rejects the file


def check_file(study: Study, stream: BinaryIO) -> CheckedItems:
    """Return what `import_file` would import. Nothing is written."""
    parsed = parse_file(study, stream)
    return _check_items(Study.objects.get(pk=study.pk), parsed)


def import_file(study: Study, stream: BinaryIO, user: User | None = None) -> CheckedItems:
    """Import the file. A draft stores the items until it opens; an open study assigns them after the items already shown."""
    # Before the transaction: it locks the study's row, and raters' answers wait for that lock.
    parsed = parse_file(study, stream)
    with transaction.atomic():
        return store_import(study, parsed, user)


def parse_file(study: Study, stream: BinaryIO) -> ParsedFile:
    """Return the parsed file. This first half of `import_file` can take long and needs no lock."""
    study = Study.objects.get(pk=study.pk)
    _check_accepts_items(study)
    protocol = study_protocol.load_protocol(study.protocol)
    items = SpooledItems()
    problems: list[Problem] = []
    for number, data in json_lines.iter_objects(stream):
        if isinstance(data, Problem):
            problems.append(data)
        elif item := item_lines.parse_item(data, study, protocol, json_lines.create_recorder(problems, number)):
            items.add_item(number, item)
        if len(problems) > MAX_PROBLEMS:
            problems.append(Problem(_AFTER_ALL_LINES, "", "too many problems; the following lines were not checked"))
            break
    problems += _find_duplicate_lines(items)
    return ParsedFile(_get_parse_settings(study), items, problems, _find_quarantine_reasons(study, items))


def store_import(study: Study, parsed: ParsedFile, user: User | None = None) -> CheckedItems:
    """Store the parsed file. Call it in a transaction. Raises ImportRefused if there is any problem."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    checked = _check_items(study, parsed)
    if checked.problems:
        raise ImportRefused(checked.problems)
    last_key = study.imported_items.aggregate(last=Max("pk"))["last"] or 0
    for batch in checked.items.iter_batches(study, user):
        batch.insert()
    sources = tuple(sorted({label for label, *_ in checked.items.count_by_source}))
    log_event(study, ItemsImported(items=len(checked.items), sources=sources), user)
    if not study.is_draft:
        rows = study.imported_items.filter(pk__gt=last_key).defer("record")
        running_raters.add_items(study, pool.build_candidates(rows), user)
    return checked


@transaction.atomic
def remove_all_items(study: Study, user: User | None = None) -> int:
    """Remove every imported item from a draft and return their number."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if not study.is_draft:
        raise StudyError(f"{study.name} is {study.status}; imported items can only be removed from a draft")
    # An opening that is being prepared refers to them, and so does one that was interrupted.
    preparations.delete_preparations(study)
    n_removed = study.imported_items.count()
    delete_rows(study.imported_items.all())
    log_event(study, ImportsRemoved(removed=n_removed), user)
    return n_removed


def _check_items(study: Study, parsed: ParsedFile) -> CheckedItems:
    """Check the parsed file against the current state of the study."""
    _check_accepts_items(study)
    # the study is locked now, but was not while the file was parsed
    if _get_parse_settings(study) != parsed.parsed_for:
        raise StudyError(f"{study.name} was changed while the file was being checked; import it again")
    problems = parsed.problems + _find_known_items(study, parsed.items)
    for line, field, reason in [] if study.is_draft else parsed.quarantine_reasons:
        message = f"might reveal its source: {reason}; import it into a draft, where you can decide about it"
        problems.append(Problem(line, field, message))
    reported = sorted(problems, key=lambda problem: problem.line)[:MAX_PROBLEMS]
    return CheckedItems(parsed.items, tuple(reported), tuple(parsed.quarantine_reasons))


def _get_parse_settings(study: Study) -> tuple[str, object]:
    """Return what determines how a line is parsed: the kind of study and how items are displayed."""
    return study.kind, study_protocol.load_protocol(study.protocol).display


def _check_accepts_items(study: Study) -> None:
    if study.status not in ALLOWED_STATUSES:
        rule = "items can only be imported into a draft, open or paused study"
        raise StudyError(f"{study.name} is {study.status}; {rule}")


def _find_duplicate_lines(items: SpooledItems) -> list[Problem]:
    """Return a problem for each line whose id, or whose content as raters see it, equals that of an earlier line."""
    lines_by_id: dict[str, int] = {}
    lines_by_payload: dict[str, int] = {}
    problems = []
    for number, (key, payload_sha256) in items.ids_and_payloads.items():
        if (first := lines_by_id.setdefault(key, number)) != number:
            problems.append(Problem(number, "id", f"{key[:60]!r} is also the id of line {first}"))
        elif (first := lines_by_payload.setdefault(payload_sha256, number)) != number:
            message = f"raters could not distinguish it from line {first}: both would look the same"
            problems.append(Problem(number, "", message))
    return problems


def _find_known_items(study: Study, items: SpooledItems) -> list[Problem]:
    """Return problems for lines whose id or displayed content the study already has."""
    keys = set(study.imported_items.values_list("key", flat=True))
    payloads = set(study.imported_items.values_list("payload_sha256", flat=True))
    payloads |= set(Item.objects.filter(study=study).values_list("payload_sha256", flat=True))
    problems = []
    for number, (key, payload_sha256) in items.ids_and_payloads.items():
        if key in keys:
            problems.append(Problem(number, "id", f"{key[:60]!r} was already imported into this study"))
        elif payload_sha256 in payloads:
            problems.append(Problem(number, "", "the study already has an item that looks exactly the same"))
    return problems


def _find_quarantine_reasons(study: Study, items: SpooledItems) -> list[Problem]:
    """Return every location where the text of an item might reveal its source. A person has to decide about each."""
    # Only now, because an item must contain no name of a source of the whole file.
    screen = quarantine.TextScreen(quarantine.build_lexicon(study, {label for label, *_ in items.count_by_source}))
    reasons = []
    for number, payload, context in items.iter_shown():
        found, _ = screen.examine_item(payload, context)
        reasons += [Problem(number, field, message) for field, message in found]
    return reasons
