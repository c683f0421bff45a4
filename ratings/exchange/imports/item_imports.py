"""Items from elsewhere, taken into a study from a file of one JSON object a line: all of them or none."""

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


class ImportRefused(ValueError):  # noqa: N818  # what a file is told, not a fault
    """Nothing was imported; `problems` says everything that is wrong with the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Checked:
    """What a file holds. With any problem nothing of it can be imported."""

    items: tuple[ImportedItem, ...]
    problems: tuple[Problem, ...]
    held_lines: tuple[Problem, ...] = ()  # where words or names might give an item away, and which

    @property
    def sources(self) -> list[tuple[str, str, str, bool | None, int]]:
        """Return (source, error type, reference, truth, how many) of each group of items, by name."""
        count = Counter((item.label, item.perturbation, item.reference, item.truth) for item in self.items)
        return sorted(((*what, n) for what, n in count.items()), key=lambda line: (*line[:3], str(line[3])))

    @property
    def located(self) -> int:
        """Items whose error has a known place."""
        return sum(bool(item.target) for item in self.items)

    @property
    def plain(self) -> int:
        """Transitions that will be shown as plain lists: which output goes on from which input is not certain."""
        return sum(item.payload.get("lineage") is False for item in self.items)

    @property
    def held(self) -> int:
        """Items with words that might give them away: they need a decision before the study can use them."""
        return len({problem.line for problem in self.held_lines})


class Read(NamedTuple):
    """A file by the numbers of its lines, and what of the study it was read for: only a draft may change that."""

    read_for: tuple[str, object]
    items: dict[int, ImportedItem]
    problems: list[Problem]
    giving_away: list[Problem]  # an item with any waits in a draft's quarantine; an open study refuses it


def check(study: Study, stream: BinaryIO) -> Checked:
    """The dry run: everything `take` would do, and nothing written."""
    study = Study.objects.get(pk=study.pk)
    return _checked(study, _read(study, stream))


def take(study: Study, stream: BinaryIO, by: User | None = None) -> Checked:
    """Import the file: a draft keeps its items until it opens, an open study deals them out behind what was served.

    Answers wait for whoever holds the study's row, so the file is read and blinded before.
    """
    read = read_for(study, stream)
    with transaction.atomic():
        return write(study, read, by)


def read_for(study: Study, stream: BinaryIO) -> Read:
    """The first half of `take`, which can take long: nobody waits for it."""
    return _read(Study.objects.get(pk=study.pk), stream)


def write(study: Study, read: Read, by: User | None = None) -> Checked:
    """The second half, in the transaction of whoever calls. ImportRefused if anything is wrong with the file."""
    return _write(Study.objects.select_for_update().get(pk=study.pk), read, by)


def _write(study: Study, read: Read, by: User | None) -> Checked:
    checked = _checked(study, read)
    if checked.problems:
        raise ImportRefused(checked.problems)
    for item in checked.items:
        item.by = by
    rows = ImportedItem.objects.bulk_create(checked.items, batch_size=200)
    log(study, ItemsImported(items=len(rows), sources=tuple(sorted({row.label for row in rows}))), by)
    if not study.is_draft:
        seating.add_items(study, imported.candidates(rows), by)
    return checked


@transaction.atomic
def remove_all(study: Study, by: User | None = None) -> int:
    """Take every imported item out of a draft again."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if not study.is_draft:
        raise StudyError(f"{study.name} is {study.status}; imported items can be removed from a draft alone")
    count, _ = study.imported_items.all().delete()
    log(study, ImportsRemoved(removed=count), by)
    return count


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
            problems.append(Problem(10**9, "", "more problems than can be told; the lines behind were not read"))
            break
    return Read(_asks(study), items, problems + _twice(items), _giving_away(study, items))


def _checked(study: Study, read: Read) -> Checked:
    """What was read, against the study as it is now."""
    _refuse_unless_taking(study)
    if _asks(study) != read.read_for:
        raise StudyError(f"{study.name} was changed while the file was read; import it again")
    problems = read.problems + _met_before(study, read.items)
    if not study.is_draft:
        problems += [problem._replace(said=_REFUSED.format(problem.said)) for problem in read.giving_away]
    shown = sorted(problems, key=lambda problem: problem.line)[:MOST_PROBLEMS]
    return Checked(tuple(read.items.values()), tuple(shown), tuple(read.giving_away))


def _asks(study: Study) -> tuple[str, object]:
    """What decides how a line is read: the kind of item, and how items are shown."""
    return study.kind, protocols.stored(study.protocol).display


def _refuse_unless_taking(study: Study) -> None:
    if study.status not in INTO:
        raise StudyError(f"{study.name} is {study.status}; items are imported into a study that is a draft or open")


def _twice(items: dict[int, ImportedItem]) -> list[Problem]:
    """Lines with the id of another, and lines that no rater could tell from another."""
    keys: dict[str, int] = {}
    looks: dict[str, int] = {}
    problems = []
    for number, item in items.items():
        if (first := keys.setdefault(item.key, number)) != number:
            problems.append(Problem(number, "id", f"{item.key[:60]!r} is the id of line {first} as well"))
        elif (first := looks.setdefault(item.payload_sha256, number)) != number:
            problems.append(
                Problem(number, "", f"raters could not tell it from line {first}: both would look the same")
            )
    return problems


def _met_before(study: Study, items: dict[int, ImportedItem]) -> list[Problem]:
    """Lines whose id or looks the study has already."""
    keys = set(study.imported_items.values_list("key", flat=True))
    looks = set(study.imported_items.values_list("payload_sha256", flat=True))
    looks |= set(Item.objects.filter(study=study).values_list("payload_sha256", flat=True))
    problems = []
    for number, item in items.items():
        if item.key in keys:
            problems.append(Problem(number, "id", f"{item.key[:60]!r} has been imported into this study before"))
        elif item.payload_sha256 in looks:
            problems.append(Problem(number, "", "the study holds an item that looks exactly the same"))
    return problems


_REFUSED = "might give it away: {}; import it into a draft, where this can be decided"


def _giving_away(study: Study, items: dict[int, ImportedItem]) -> list[Problem]:
    """Return every place where an item might give itself away: a person has to decide about it first."""
    names = quarantine.lexicon(study, {item.label for item in items.values()})
    return [
        Problem(number, place, said)
        for number, item in items.items()
        for place, said in [
            *quarantine.reasons(item.payload, item.context),
            *quarantine.name_reasons(item.payload, item.context, names),
        ]
    ]
