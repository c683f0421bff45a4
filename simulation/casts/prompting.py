"""Prompt sets as rows: the built-in one and those a laboratory brought, each version under its hash."""

from functools import lru_cache
from pathlib import Path

from simulation.lab.errors import LabError
from simulation.llm.prompts import prompt_sets
from simulation.llm.prompts.prompt_sets import Import, PromptSetError, PromptTexts, SetName
from simulation.models import PromptSet

BUILT_IN, BUILT_IN_RATING = prompt_sets.BUILT_IN, prompt_sets.BUILT_IN_RATING

_OF_RATERS = "rating.item.txt"  # a file that every set for raters has, and no other


class NoSuchPromptSet(LabError):  # noqa: N818  # an answer
    """No stored prompt set has that name or hash."""


def stored(name: str = BUILT_IN) -> PromptSet:
    """The row of `name` or `name@hash`; without a hash the newest of that name. NoSuchPromptSet if there is none.

    The built-in set is stored when it is first asked for, and again when its files have changed.
    """
    asked = _asked(name)
    for shipped in _shipped():
        if asked.name == shipped.name and shipped.sha256.startswith(asked.version):
            return _store(shipped)
    found = PromptSet.objects.filter(name=asked.name, sha256__startswith=asked.version)[:2]
    if not found:
        raise NoSuchPromptSet(f"There is no prompt set {name[:90]!r}; there are {', '.join(known_names())}")
    if asked.version and len(found) > 1:
        raise NoSuchPromptSet(f"{name!r} fits more than one version: give more digits of the hash")
    return found[0]


def for_play(name: str = BUILT_IN) -> PromptSet:
    """`stored`, of a set for those who play. NoSuchPromptSet for one that is for raters."""
    return _of_family(stored(name), rating=False)


def for_rating(name: str = BUILT_IN_RATING) -> PromptSet:
    """`stored`, of a set for models that rate. NoSuchPromptSet for one that is for those who play."""
    return _of_family(stored(name), rating=True)


@lru_cache(maxsize=32)
def texts(sha256: str) -> PromptTexts:
    """The texts under a hash. NoSuchPromptSet if no row has it; LabError if the row was changed behind its hash."""
    for shipped in _shipped():
        if sha256 == shipped.sha256:
            return shipped
    row = PromptSet.objects.filter(sha256=sha256).first()
    if row is None:
        raise NoSuchPromptSet(f"There is no prompt set with the hash {sha256[:64]}")
    found = PromptTexts(row.name, row.files)
    if found.sha256 != sha256:
        raise LabError(f"The stored texts of prompt set {row} do not have its hash any more")
    return found


def current() -> list[PromptSet]:
    """The newest version of every name, the built-in set first: what an order of episodes or twins can choose from."""
    rows = {BUILT_IN: stored()}
    for row in PromptSet.objects.exclude(files__has_key=_OF_RATERS).defer("files"):
        rows.setdefault(row.name, row)
    return list(rows.values())


def known_names() -> list[str]:
    """Every name, the built-in's first."""
    others = PromptSet.objects.exclude(name=BUILT_IN).order_by("name").values_list("name", flat=True).distinct()
    return [BUILT_IN, *others]


def import_folder(folder: Path, name: str) -> tuple[PromptSet, Import]:
    """Store the set of a folder under a name. PromptSetError with everything that is wrong; then nothing is stored.

    A set that was stored before is given back as it is, under the name it has.
    """
    asked = SetName.read(name)
    if asked.version or asked.name in (BUILT_IN, BUILT_IN_RATING):
        raise PromptSetError((f"{name} cannot be the name of a new set: give another with --name",))
    read = prompt_sets.read_folder(folder, asked.name)
    rating = prompt_sets.is_rating(read.texts.files)
    stored(BUILT_IN_RATING if rating else BUILT_IN)  # a copy of a built-in set is the built-in set
    if any(prompt_sets.is_rating(row.files) != rating for row in PromptSet.objects.filter(name=asked.name)):
        raise PromptSetError((f"{name} is a set of the other kind (to play, to rate): give another name with --name",))
    return _store(read.texts), read


def _shipped() -> tuple[PromptTexts, ...]:
    return prompt_sets.built_in(), prompt_sets.built_in_rating()


def _of_family(row: PromptSet, rating: bool) -> PromptSet:
    if prompt_sets.is_rating(row.files) != rating:
        wanted, found = ("to rate", "to play") if rating else ("to play", "to rate")
        raise NoSuchPromptSet(f"The prompt set {row.name} tells models how {found}; choose one that tells how {wanted}")
    return row


def _asked(name: str) -> SetName:
    try:
        return SetName.read(name)
    except PromptSetError as error:
        raise NoSuchPromptSet(str(error)) from error


def _store(found: PromptTexts) -> PromptSet:
    row, _ = PromptSet.objects.get_or_create(
        sha256=found.sha256, defaults={"name": found.name, "files": dict(found.files)}
    )
    return row
