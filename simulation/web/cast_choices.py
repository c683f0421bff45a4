"""Casts and models as choices of a form: those that can run here, and those that cannot, with what to do about it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from simulation.casts import cast_availability
from wetbench_site.text import format_count


class Option(Protocol):
    """What a cast and a model rater have in common."""

    @property
    def why_not(self) -> str: ...
    @property
    def missing_keys(self) -> tuple[str, ...]: ...


class CastGroup(NamedTuple):
    """Casts of one kind, each with whether it is chosen."""

    title: str
    rows: Sequence[tuple[cast_availability.CastOption | cast_availability.RaterOption, bool]]


class UnavailableGroup(NamedTuple):
    """The names of all options that lack the same keys or, without keys, are unavailable for the same reason."""

    keys: tuple[str, ...]
    reason: str
    names: tuple[str, ...]


class UnavailableCasts(NamedTuple):
    """The options that cannot run here, as one line, and the same in groups: those that only need keys come first."""

    summary: str
    groups: tuple[UnavailableGroup, ...]
    needs_keys: bool


def list_cast_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in cast_availability.list_names()]


def group_unavailable(noun: str, options: Iterable[tuple[str, Option]]) -> UnavailableCasts | None:
    """Return the named options that cannot run here, or None if all can. `noun` names one of them: cast, model."""
    names: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for name, option in options:
        if option.why_not:
            keys = option.missing_keys
            names.setdefault((keys, "" if keys else option.why_not), []).append(name)
    if not names:
        return None
    groups = [UnavailableGroup(keys, reason, tuple(listed)) for (keys, reason), listed in names.items()]
    groups.sort(key=lambda group: (not group.keys, len(group.keys)))
    n_keys = sum(len(group.names) for group in groups if group.keys)
    n_other = sum(len(group.names) for group in groups if not group.keys)
    parts = []
    if n_keys:
        parts.append(
            f"{format_count(n_keys, noun)} need{'s' * (n_keys == 1)} {'an API key' if n_keys == 1 else 'API keys'}"
        )
    if n_other:
        parts.append(f"{format_count(n_other, noun)} cannot run here{' for another reason' if n_keys else ''}")
    return UnavailableCasts("; ".join(parts), tuple(groups), bool(n_keys))
