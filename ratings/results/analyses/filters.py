"""Filters select which ratings of a study are analysed. They are part of the URL, the same for all tables and files."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Q
from django.http import QueryDict

from ratings.models import ItemSource, Study
from ratings.protocol import study_protocol
from wetbench_site.text import hash_text, natural_sort_key


class _Column(NamedTuple):
    """A column to filter by: its title, the condition for a value, and labels of values; others are their own label.

    `sealed_column`: the column of ItemSource that has the values. It is a filter only after unblinding.
    """

    title: str
    build_condition: Callable[[str], Q]
    labels: Mapping[str, str] = {}
    sealed_column: str = ""


def _create_sealed_column(title: str, name: str, labels: Mapping[str, str] = {}) -> _Column:
    return _Column(title, lambda value: Q((f"assignment__item__source__{name}", value)), labels, name)


_WHO = {
    "people": Q(imported=False, assignment__rater__simulated=False),
    "simulated": Q(imported=False, assignment__rater__simulated=True),
    "imported": Q(imported=True),
}
# How ratings collected elsewhere were displayed is not known.
_COLUMNS: Mapping[str, _Column] = {
    "source": _create_sealed_column("cast", "label"),
    "experiment": _create_sealed_column("experiment", "experiment"),
    "action": _create_sealed_column("action", "action"),
    "error": _create_sealed_column(
        "planted error",
        "perturbation",
        {"none": "no planted error", "obvious": "obvious error", "subtle": "subtle error"},
    ),
    "error_kind": _create_sealed_column("kind of error", "twin__kind"),
    "layout": _Column("layout", lambda value: Q(imported=False, assignment__layout=value)),
    "context": _Column(
        "goal and earlier steps",
        lambda value: Q(imported=False, assignment__with_context=value == "1"),
        {"1": "shown", "0": "not shown"},
    ),
    "marks": _Column(
        "marks", lambda value: Q(imported=False, assignment__marks=value), {"if_not_plausible": "if not plausible"}
    ),
    "rater": _Column("rater", lambda value: Q(assignment__rater__label=value)),
    "who": _Column("who rated", _WHO.__getitem__, {"simulated": "simulated raters", "imported": "collected elsewhere"}),
}
TITLES: Mapping[str, str] = {name: column.title for name, column in _COLUMNS.items()}
SEALED = tuple(name for name, column in _COLUMNS.items() if column.sealed_column)
_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_SUFFIX = 80  # characters of a file name
_LISTED, _LONGEST = 12, 60  # values listed in a message, characters quoted from the URL


class Choice(NamedTuple):
    """A value to filter by, as it is written in the URL, and its label."""

    value: str
    label: str


Choices = Mapping[str, Sequence[Choice]]


@dataclass(frozen=True)
class Filters:
    """The selected value of each column; "" selects all ratings.

    `unknown` has a sentence for each problem with the request, such as a value that does not exist. Such a value is not used
    as a filter, and must be reported.
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
        """Return whether any filter is active."""
        return bool(self.to_dict())

    def to_dict(self) -> dict[str, str]:
        """Return the active filters only, so that equal filters give equal JSON."""
        # The order is that of TITLES, not of the URL, because the JSON is part of the key of a stored analysis.
        return {name: value for name in TITLES if (value := getattr(self, name))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Filters":
        """Return the filters that `to_dict` wrote as `values`. Raises TypeError for an unknown column."""
        return cls(**values)

    def build_query(self) -> str:
        """Return the filters as the query string of a URL, without the question mark; "" if no filter is active."""
        return urlencode(self.to_dict())

    @property
    def description(self) -> str:
        """Return a sentence that names the active filters, to be shown beside every number; "" if there are none."""
        parts = [f"{TITLES[name]}: {describe_value(name, value)}" for name, value in self.to_dict().items()]
        return f"Only {'; '.join(parts)}." if parts else ""

    @property
    def assignments(self) -> str:
        """Return the active filters as they are in the URL, for a column of a file: "error=subtle; rater=R01"."""
        return "; ".join(f"{name}={value}" for name, value in self.to_dict().items())

    @property
    def file_suffix(self) -> str:
        """Return the end of the name of a file with these ratings, such as "_error-subtle_rater-R01"; "" without filters.

        It has ASCII letters, digits, hyphens and underscores only. If it cannot show every value completely, it ends in a digest,
        so that files with different filters have different names.
        """
        values = self.to_dict()
        words = {name: _NOT_IN_FILE_NAMES.sub("-", value).strip("-") for name, value in values.items()}
        suffix = "".join(f"_{name.replace('_', '-')}-{word}" for name, word in words.items())
        if len(suffix) <= _LONGEST_SUFFIX and words == values:
            return suffix
        return f"{suffix[:_LONGEST_SUFFIX].rstrip('-_')}_{hash_text(json.dumps(values))[:8]}"

    @property
    def is_sealed(self) -> bool:
        """Return whether a filter is by a column that only unblinded studies may read."""
        return any(getattr(self, name) for name in SEALED)

    def build_condition(self) -> Q:
        """Return the condition for ratings that pass the filters."""
        return Q(*(_COLUMNS[name].build_condition(value) for name, value in self.to_dict().items()))


def describe_value(name: str, value: str) -> str:
    """Return the label of a filter value of this column."""
    return _COLUMNS[name].labels.get(value, value)


def list_choices(study: Study) -> Choices:
    """Return the filter values by column, in two queries. While the study is sealed, they reveal no source."""
    # Even the list of values would reveal which models took part.
    values_by_column: dict[str, set[str]] = {name: set() for name in SEALED}
    if study.is_unblinded:
        rows, columns = ItemSource.objects.filter(item__study=study), [_COLUMNS[name].sealed_column for name in SEALED]
        combinations = list(rows.order_by().values_list(*columns).distinct())
        values_by_column = {
            name: {row[i] for row in combinations if row[i] not in (None, "")} for i, name in enumerate(SEALED)
        }
    raters = list(study.raters.filter(dropped=False).values_list("label", "simulated", "imported_as"))
    # The arms of the protocol and not those of the assignments, of which a study can have a hundred thousand.
    display = study_protocol.load_protocol(study.protocol).display
    has_arms = not all(known_as for _, _, known_as in raters)
    values_by_column |= {
        "layout": set(display.layouts) if has_arms else set(),
        "context": {str(int(value)) for value in display.context} if has_arms else set(),
        "marks": set(display.marks) if has_arms else set(),
        "rater": {label for label, _, _ in raters},
        "who": {
            "imported" if known_as else "simulated" if is_simulated else "people"
            for _, is_simulated, known_as in raters
        },
    }
    return {
        name: tuple(Choice(value, describe_value(name, value)) for value in sorted(values, key=natural_sort_key))
        for name, values in values_by_column.items()
    }


def parse_query(query: QueryDict, choices_by_name: Choices, other_parameters: Collection[str] = ()) -> Filters:
    """Return the filters in a query string; empty values and `other_parameters` are ignored."""
    unknown = [
        f"There is no filter {name[:_LONGEST]!r}. Available filters: {', '.join(TITLES)}."
        for name in sorted(query)
        if name not in TITLES and name not in other_parameters
    ]
    selected: dict[str, str] = {}
    for name in TITLES:
        # The filter form also sends its empty fields.
        values = [value for value in query.getlist(name) if value]
        choices = choices_by_name[name]
        known_values = {choice.value for choice in choices}
        unknown += [_explain_unknown(name, value, choices) for value in values if value not in known_values]
        if len(values) > 1:
            unknown.append(f"Choose one {TITLES[name]} at a time; the URL has {len(values)}.")
        # An ambiguous or unknown value is not used as a filter; `unknown` reports it.
        selected[name] = values[0] if len(values) == 1 and values[0] in known_values else ""
    return Filters(**selected, unknown=tuple(unknown))


def _explain_unknown(name: str, value: str, available: Sequence[Choice]) -> str:
    if not available and name in SEALED:
        return f"This study cannot be filtered by {TITLES[name]}: it is sealed or there is none."
    listing = ", ".join(choice.value for choice in available[:_LISTED])
    omitted = f" and {len(available) - _LISTED} more" if len(available) > _LISTED else ""
    return f"This study has no {TITLES[name]} {value[:_LONGEST]!r}; it has {listing or 'none'}{omitted}."
