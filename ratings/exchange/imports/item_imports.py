"""Import items from a file with one JSON object per line into a study: all of them or none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings.exchange.imports import import_items, import_lines
from ratings.exchange.imports.import_lines import Problem
from ratings.models import ImportedItem, Item, Study
from ratings.models.study_events import ImportsRemoved, ItemsImported
from ratings.protocol import protocols
from ratings.studies import StudyError
from ratings.studies.lifecycle import log
from ratings.studies.pool import imported, quarantine
from ratings.studies.seats import seating

MOST_PROBLEMS = 1_000
INTO = ("draft", "open", "paused")
_AFTER_ALL_LINES = 10**9  # as a line number: sorts behind every other problem


class ImportRefused(ValueError):  # noqa: N818  # an expected outcome, not an error of the program
    """Nothing was imported. `problems` lists everything that is wrong with the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Checked:
    """The content of a file after all checks. With any problem, nothing of it can be imported."""

    items: tuple[ImportedItem, ...]
    problems: tuple[Problem, ...]
    held_lines: tuple[Problem, ...] = ()  # locations and texts that might reveal the source of an item

    @property
    def sources(self) -> list[tuple[str, str, str, bool | None, int]]:
        """Return (source, error type, reference, truth, number of items) of each group of items, by name."""
        counts = Counter((item.label, item.perturbation, item.reference, item.truth) for item in self.items)
        return sorted(((*group, n) for group, n in counts.items()), key=lambda line: (*line[:3], str(line[3])))

    @property
    def located(self) -> int:
        """The number of items whose error has a known location."""
        return sum(bool(item.target) for item in self.items)

    @property
    def plain(self) -> int:
        """The number of transitions to be shown as plain lists, because it is uncertain which output continues which input."""
        return sum(item.payload.get("lineage") is False for item in self.items)

    @property
    def held(self) -> int:
        """The number of items with texts that might reveal their source. A person must decide before the study can use them."""
        return len({problem.line for problem in self.held_lines})


class Read(NamedTuple):
    """The items of a file by line number, with the study settings for which it was parsed. Only a draft may change those settings."""

    read_for: tuple[str, object]
    items: dict[int, ImportedItem]
    problems: list[Problem]
    giving_away: list[Problem]  # a draft puts these items into quarantine; an open study rejects the file


def check(study: Study, stream: BinaryIO) -> Checked:
    """Return what `import_file` would import. Nothing is written."""
    study = Study.objects.get(pk=study.pk)
    return _checked(study, _read(study, stream))


def take(study: Study, stream: BinaryIO, by: User | None = None) -> Checked:
    """Import the file. A draft stores the items until it opens; an open study assigns them after the items already shown."""
    # Before the transaction: it locks the study's row, and raters' answers wait for that lock.
    parsed = read_for(study, stream)
    with transaction.atomic():
        return write(study, parsed, by)


def read_for(study: Study, stream: BinaryIO) -> Read:
    """Return the parsed file. This first half of `import_file` can take long and needs no lock."""
    return _read(Study.objects.get(pk=study.pk), stream)


def write(study: Study, read: Read, by: User | None = None) -> Checked:
    """Store the parsed file. Call it in a transaction. Raises ImportRefused if there is any problem."""
    return _write(Study.objects.select_for_update().get(pk=study.pk), read, by)


def _write(study: Study, read: Read, by: User | None) -> Checked:
    checked = _checked(study, read)
    if checked.problems:
        raise ImportRefused(checked.problems)
    for item in checked.items:
        item.by = by
    # batches, because an item with its record may have 256 KiB
    rows = ImportedItem.objects.bulk_create(checked.items, batch_size=200)
    log(study, ItemsImported(items=len(rows), sources=tuple(sorted({row.label for row in rows}))), by)
    if not study.is_draft:
        seating.add_items(study, imported.candidates(rows), by)
    return checked


@transaction.atomic
def remove_all(study: Study, by: User | None = None) -> int:
    """Remove every imported item from a draft and return their number."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if not study.is_draft:
        raise StudyError(f"{study.name} is {study.status}; imported items can only be removed from a draft")
    n_removed, _ = study.imported_items.all().delete()
    log(study, ImportsRemoved(removed=n_removed), by)
    return n_removed


def _read(study: Study, stream: BinaryIO) -> Read:
    _refuse_unless_taking(study)
    protocol = protocols.stored(study.protocol)
    items: dict[int, ImportedItem] = {}
    problems: list[Problem] = []
    for number, data in import_lines.objects(stream):
        if isinstance(data, Problem):
            problems.append(data)
        elif item := import_items.read(data, study, protocol, import_lines.noting(problems, number)):
            items[number] = item
        if len(problems) > MOST_PROBLEMS:
            problems.append(Problem(_AFTER_ALL_LINES, "", "too many problems; the following lines were not checked"))
            break
    return Read(_asks(study), items, problems + _twice(items), _giving_away(study, items))


def _checked(study: Study, read: Read) -> Checked:
    """Check the parsed file against the current state of the study."""
    _refuse_unless_taking(study)
    # the study is locked now, but was not while the file was parsed
    if _asks(study) != read.read_for:
        raise StudyError(f"{study.name} was changed while the file was being checked; import it again")
    problems = read.problems + _met_before(study, read.items)
    if not study.is_draft:
        problems += [
            Problem(problem.line, problem.field, _REFUSED.format(problem.said)) for problem in read.giving_away
        ]
    reported = sorted(problems, key=lambda problem: problem.line)[:MOST_PROBLEMS]
    return Checked(tuple(read.items.values()), tuple(reported), tuple(read.giving_away))


def _asks(study: Study) -> tuple[str, object]:
    """Return what determines how a line is parsed: the kind of study and how items are displayed."""
    return study.kind, protocols.stored(study.protocol).display


def _refuse_unless_taking(study: Study) -> None:
    if study.status not in INTO:
        raise StudyError(
            f"{study.name} is {study.status}; items can only be imported into a draft, open or paused study"
        )


def _twice(items: dict[int, ImportedItem]) -> list[Problem]:
    """Return problems for lines with the id of another, and for lines that raters could not distinguish from another."""
    lines_by_id: dict[str, int] = {}
    lines_by_payload: dict[str, int] = {}
    problems = []
    for number, item in items.items():
        if (first := lines_by_id.setdefault(item.key, number)) != number:
            problems.append(Problem(number, "id", f"{item.key[:60]!r} is also the id of line {first}"))
        elif (first := lines_by_payload.setdefault(item.payload_sha256, number)) != number:
            problems.append(
                Problem(number, "", f"raters could not distinguish it from line {first}: both would look the same")
            )
    return problems


def _met_before(study: Study, items: dict[int, ImportedItem]) -> list[Problem]:
    """Return problems for lines whose id or displayed content the study already has."""
    keys = set(study.imported_items.values_list("key", flat=True))
    payloads = set(study.imported_items.values_list("payload_sha256", flat=True))
    payloads |= set(Item.objects.filter(study=study).values_list("payload_sha256", flat=True))
    problems = []
    for number, item in items.items():
        if item.key in keys:
            problems.append(Problem(number, "id", f"{item.key[:60]!r} was already imported into this study"))
        elif item.payload_sha256 in payloads:
            problems.append(Problem(number, "", "the study already has an item that looks exactly the same"))
    return problems


_REFUSED = "might reveal its source: {}; import it into a draft, where you can decide about it"


def _giving_away(study: Study, items: dict[int, ImportedItem]) -> list[Problem]:
    """Return every location where the text of an item might reveal its source. A person has to decide about each."""
    names = quarantine.lexicon(study, {item.label for item in items.values()})
    return [
        Problem(number, field, message)
        for number, item in items.items()
        for field, message in [
            *quarantine.reasons(item.payload, item.context),
            *quarantine.name_reasons(item.payload, item.context, names),
        ]
    ]
