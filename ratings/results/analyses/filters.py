"""Which of a study's ratings are looked at: what stands in an address after the question mark, the same for every file."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict

from ratings.models import Assignment, ItemSource, Study
from ratings.results.rows import BlindRow
from ratings.stats.table import natural

TITLES: Mapping[str, str] = {
    "source": "cast",
    "experiment": "experiment",
    "action": "action",
    "error": "planted error",
    "error_kind": "kind of error",
    "layout": "layout",
    "context": "goal and earlier steps",
    "marks": "marks",
    "rater": "rater",
    "who": "who rated",
}
SEALED = ("source", "experiment", "action", "error", "error_kind")
_WORDS: Mapping[tuple[str, str], str] = {
    ("error", "none"): "no planted error",
    ("error", "obvious"): "obvious error",
    ("error", "subtle"): "subtle error",
    ("context", "1"): "shown",
    ("context", "0"): "not shown",
    ("marks", "if_not_plausible"): "if not plausible",
    ("who", "people"): "people",
    ("who", "simulated"): "simulated raters",
    ("who", "imported"): "collected elsewhere",
}


class UnknownFilterError(ValueError):
    """An address asks for what this study does not have; the message names all of it."""


class Choice(NamedTuple):
    """A value that can be filtered by, as the address holds it and as people read it."""

    value: str
    label: str


Choices = Mapping[str, tuple[Choice, ...]]


@dataclass(frozen=True)
class Filters:
    """The value that is let through, by column; "" lets everything through.

    `unknown`: sentences on what was asked for and is not there; such a value filters nothing and must be told.
    """

    source: str = ""
    experiment: str = ""
    action: str = ""
    error: str = ""
    error_kind: str = ""
    layout: str = ""
    context: str = ""
    marks: str = ""
    rater: str = ""
    who: str = ""
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.to_json())

    def to_json(self) -> dict[str, str]:
        """Only the columns that filter: the same filters are the same JSON."""
        return {name: value for name in TITLES if (value := getattr(self, name))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Filters":
        """Of what `to_json` gave. TypeError for a column that is none."""
        return cls(**data)

    def query(self) -> str:
        """For an address, without the question mark; "" if nothing is left out."""
        return urlencode(self.to_json())

    @property
    def said(self) -> str:
        """In words, to stand beside every number; "" if nothing is left out."""
        parts = [f"{TITLES[name]}: {word(name, value)}" for name, value in self.to_json().items()]
        return f"Only {'; '.join(parts)}." if parts else ""

    def kept(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Those of the rows that are let through. Sealed columns can only be asked of rows that have them."""
        wanted = [(_OF[name], value) for name, value in self.to_json().items()]
        return (row for row in rows if all(of(row) == value for of, value in wanted)) if wanted else rows

    def refuse_unknown(self) -> None:
        """UnknownFilterError if something was asked for that is not there: a file must not hold more than was asked for."""
        if self.unknown:
            raise UnknownFilterError(" ".join(self.unknown))


def _who(row: BlindRow) -> str:
    return "imported" if row.imported else "simulated" if row.simulated else "people"


def _shown(name: str) -> Callable[[Any], str]:
    """Of an arm; how ratings that were collected elsewhere were shown is not known."""
    return lambda row: "" if row.imported else getattr(row, name)


_OF: Mapping[str, Callable[[Any], str]] = {
    "source": lambda row: row.source,
    "experiment": lambda row: row.experiment,
    "action": lambda row: row.action,
    "error": lambda row: row.perturbation,
    "error_kind": lambda row: row.error_kind or "",
    "layout": _shown("layout"),
    "context": lambda row: "" if row.imported else str(int(row.context)),
    "marks": _shown("marks"),
    "rater": lambda row: row.rater,
    "who": _who,
}


def word(name: str, value: str) -> str:
    """A value of a column as people read it."""
    return _WORDS.get((name, value), value)


def choices(study: Study) -> Choices:
    """What there is to choose from, by column, in three queries; while the study is sealed, only what tells no source."""
    arms = Assignment.objects.filter(item__study=study, rater__imported_as="")
    layouts, contexts, marks = _distinct(arms, "layout", "with_context", "marks")
    seats = list(study.raters.filter(dropped=False).values_list("label", "simulated", "imported_as"))
    shown = {
        "layout": layouts,
        "context": {str(int(value)) for value in contexts},
        "marks": marks,
        "rater": {label for label, _, _ in seats},
        "who": {"imported" if known_as else "simulated" if made else "people" for _, made, known_as in seats},
    }
    return {name: _choices(name, values) for name, values in {**_sources(study), **shown}.items()}


def _choices(name: str, values: Collection[str]) -> tuple[Choice, ...]:
    return tuple(Choice(value, word(name, value)) for value in sorted(values, key=natural))


def _sources(study: Study) -> dict[str, set[str]]:
    if not study.is_unblinded:
        return {name: set() for name in SEALED}
    columns = "label", "experiment", "action", "perturbation", "twin__kind"
    found = _distinct(ItemSource.objects.filter(item__study=study), *columns)
    return {name: {value for value in values if value} for name, values in zip(SEALED, found, strict=True)}


def _distinct(rows: QuerySet[Any], *columns: str) -> list[set[Any]]:
    found = list(rows.order_by().values_list(*columns).distinct())
    return [{row[at] for row in found} for at in range(len(columns))]


def from_query(query: QueryDict, known: Choices, also: Collection[str] = ()) -> Filters:
    """What an address asks for; empty values ask for nothing. `also`: other names that the address may hold."""
    strange = sorted(name for name in query if name not in TITLES and name not in also)
    unknown = [f"There is no filter {name[:_LONGEST]!r}; there are {', '.join(TITLES)}." for name in strange]
    chosen: dict[str, str] = {}
    for name in TITLES:
        values = [value for value in query.getlist(name) if value]
        there = {choice.value for choice in known[name]}
        unknown += [_no_such(name, value, known[name]) for value in values if value not in there]
        if len(values) > 1:
            unknown.append(f"Only one {TITLES[name]} can be looked at at a time; {len(values)} were asked for.")
        chosen[name] = values[0] if len(values) == 1 and values[0] in there else ""
    return Filters(**chosen, unknown=tuple(unknown))


def _no_such(name: str, value: str, there: tuple[Choice, ...]) -> str:
    if not there and name in SEALED:
        return f"Nothing can be filtered by {TITLES[name]} here: it is sealed, or this study has none."
    listed = ", ".join(choice.value for choice in there[:_LISTED])
    more = f" and {len(there) - _LISTED} more" if len(there) > _LISTED else ""
    return f"This study has no {TITLES[name]} {value[:_LONGEST]!r}; it has {listed or 'none'}{more}."


_LISTED, _LONGEST = 12, 60
