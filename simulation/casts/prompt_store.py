"""Stored prompt sets: the built-in ones and those of a laboratory, each version under its hash."""

from functools import lru_cache
from pathlib import Path

from simulation.lab.errors import LabError
from simulation.llm import prompt_sets
from simulation.llm.prompt_files import (
    BUILT_IN,
    BUILT_IN_CODE,
    BUILT_IN_PROTOCOL,
    BUILT_IN_RATING,
    SHIPPED,
    find_family,
)
from simulation.llm.prompt_sets import ImportedSet, PromptSetError, PromptTexts, SetName
from simulation.models import PromptSet

# What the sets of a family are for, and a file that every set of it has.
_USES = {BUILT_IN: "simulation", BUILT_IN_RATING: "rating", BUILT_IN_CODE: "code"}
_OWN_FILES = {BUILT_IN: "agent.system.txt", BUILT_IN_RATING: "rating.item.txt", BUILT_IN_CODE: "code.system.txt"}


class NoSuchPromptSet(LabError):  # noqa: N818  # a result, not an error
    """No stored prompt set has that name or hash."""


def get_prompt_set(name: str = BUILT_IN) -> PromptSet:
    """Return the prompt set called `name` or `name@hash`; without a hash, its newest version. Raises NoSuchPromptSet.

    The built-in set is stored at first use, and again when its files have changed.
    """
    set_name = _parse_name(name)
    # The built-in sets are compared by their files, so a new release stores its new texts at first use.
    for shipped in _load_shipped():
        if set_name.name == shipped.name and shipped.sha256.startswith(set_name.version):
            return _store_texts(shipped)
    # Two rows are enough to see that the abbreviation is ambiguous.
    matches = PromptSet.objects.filter(name=set_name.name, sha256__startswith=set_name.version)[:2]
    if not matches:
        raise NoSuchPromptSet(f"There is no prompt set {name[:90]!r}; there are {', '.join(list_names())}")
    if set_name.version and len(matches) > 1:
        raise NoSuchPromptSet(f"{name!r} matches more than one version: enter more digits of the hash")
    return matches[0]


def get_simulation_set(name: str = BUILT_IN) -> PromptSet:
    """Return a set for the roles of a simulation. Raises NoSuchPromptSet if it is of another family."""
    return _check_family(get_prompt_set(name), BUILT_IN)


def get_protocol_set(name: str = BUILT_IN_PROTOCOL) -> PromptSet:
    """Return a simulation set whose agent is shown a written protocol. Raises NoSuchPromptSet if it has no place for one."""
    row = get_simulation_set(name)
    if "{protocol}" not in row.files["agent.user.txt"]:
        raise NoSuchPromptSet(
            f"The prompt set {row.name} has no place {{protocol}} in agent.user.txt, so its agent would not see the protocol: "
            f"choose {BUILT_IN_PROTOCOL}, or add the place"
        )
    return row


def get_rating_set(name: str = BUILT_IN_RATING) -> PromptSet:
    """Return a set for model raters. Raises NoSuchPromptSet if it is of another family."""
    return _check_family(get_prompt_set(name), BUILT_IN_RATING)


def get_code_set(name: str = BUILT_IN_CODE) -> PromptSet:
    """Return a set for agents that edit code. Raises NoSuchPromptSet if it is of another family."""
    return _check_family(get_prompt_set(name), BUILT_IN_CODE)


# Texts under a hash never change, so the cache needs no expiry.
@lru_cache(maxsize=32)
def load_texts(sha256: str) -> PromptTexts:
    """Return the texts of the prompt set with this hash.

    Raises NoSuchPromptSet if there is none, LabError if the stored texts no longer match the hash.
    """
    for shipped in _load_shipped():
        if sha256 == shipped.sha256:
            return shipped
    row = PromptSet.objects.filter(sha256=sha256).first()
    if row is None:
        raise NoSuchPromptSet(f"There is no prompt set with the hash {sha256[:64]}")
    loaded = PromptTexts(row.name, row.files)
    # Somebody changed the row by hand. A run must use exactly the texts that its hash identifies.
    if loaded.sha256 != sha256:
        raise LabError(f"The stored texts of prompt set {row} no longer match its hash")
    return loaded


def list_current(family: str = BUILT_IN) -> list[PromptSet]:
    """Return the newest version of every name of a family, the built-in sets first: the choices for a run."""
    rows = {name: get_prompt_set(name) for name, base in SHIPPED.items() if base == family}
    # The newest comes first by the default order, so the first row of a name is kept.
    for row in PromptSet.objects.filter(files__has_key=_OWN_FILES[family]).defer("files"):
        rows.setdefault(row.name, row)
    return list(rows.values())


def list_names() -> list[str]:
    """Return the names of all prompt sets, the built-in one first."""
    others = PromptSet.objects.exclude(name=BUILT_IN).order_by("name").values_list("name", flat=True).distinct()
    return [BUILT_IN, *others]


def import_folder(folder: Path, name: str) -> tuple[PromptSet, ImportedSet]:
    """Store the set of a folder under a name.

    If the set is invalid, stores nothing and raises PromptSetError with every problem. A set that was stored before is
    returned unchanged, under its existing name.
    """
    set_name = SetName.parse_name(name)
    if set_name.version or set_name.name in SHIPPED:
        raise PromptSetError((f"{name} cannot be the name of a new set: choose another with --name",))
    read = prompt_sets.load_folder(folder, set_name.name)
    family = find_family(read.texts.files)
    get_prompt_set(family)  # so that a copy of a built-in set is recognised as such
    if any(find_family(row.files) != family for row in PromptSet.objects.filter(name=set_name.name)):
        raise PromptSetError(
            (f"{name} is a set of another kind ({', '.join(_USES.values())}): choose another name with --name",)
        )
    return _store_texts(read.texts), read


def _load_shipped() -> tuple[PromptTexts, ...]:
    return tuple(map(prompt_sets.load_family, SHIPPED))


def _check_family(row: PromptSet, expected: str) -> PromptSet:
    if (actual := find_family(row.files)) != expected:
        raise NoSuchPromptSet(f"The prompt set {row.name} is for {_USES[actual]}; choose one for {_USES[expected]}")
    return row


def _parse_name(name: str) -> SetName:
    try:
        return SetName.parse_name(name)
    except PromptSetError as error:
        raise NoSuchPromptSet(str(error)) from error


def _store_texts(found: PromptTexts) -> PromptSet:
    # Simultaneous imports of the same set store one row, because the hash is unique.
    row, _ = PromptSet.objects.get_or_create(
        sha256=found.sha256, defaults={"name": found.name, "files": dict(found.files)}
    )
    return row
