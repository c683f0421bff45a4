"""Prompt sets: the texts sent to language models, their placeholders, and their hash."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from simulation.lab.errors import LabError
from simulation.llm.prompts import prompt_files
from simulation.llm.prompts.prompt_files import ALL_FILES, EXAMPLES, PLACEHOLDERS, RATING, Placeholders

BUILT_IN, BUILT_IN_RATING = "wetbench", "wetbench-rating"
_FOLDERS = Path(__file__).parent
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_HASH = re.compile(r"[0-9a-f]{6,64}")


class PromptSetError(LabError):
    """A prompt set is invalid. Each of `problems` names the file and what is allowed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetName(NamedTuple):
    """A name such as `name` or `name@hash`, with the first 6 to 64 digits of a version's hash.

    Without a hash, the current version is meant.
    """

    name: str
    version: str = ""

    @classmethod
    def parse_name(cls, written: str) -> "SetName":
        """Return the parsed name. Raises PromptSetError if it is invalid."""
        name, separator, version = written.partition("@")
        if not _NAME.fullmatch(name):
            raise PromptSetError((f"{written[:80]!r} is not a name of a prompt set: 1 to 80 letters, digits, - and _",))
        if separator and not _HASH.fullmatch(version):
            raise PromptSetError(
                (f"{written[:80]!r}: after @ must follow the first 6 to 64 digits of a hash, as in {name}@1a2b3c",)
            )
        return cls(name, version)


@dataclass(frozen=True)
class PromptTexts:
    """A complete set: every file of its family (PLACEHOLDERS or RATING) by name. Equal hashes mean equal texts."""

    name: str
    files: Mapping[str, str]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        # The mapping is copied and made read-only: the hash must stay true. Fields of a frozen dataclass can only be
        # set in this way.
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "sha256", compute_hash(self.files))

    def fill_in(self, file: str, **values: str) -> str:
        """Return the file's text with `{name}` replaced by its value, in one pass, so nothing in a value is replaced.

        Every placeholder of the file needs a value. Other braces stay as they are. Raises TypeError for missing or unknown values.
        """
        allowed = ALL_FILES[file].all_names
        if set(values) != set(allowed):
            raise TypeError(
                f"{file} is filled with {', '.join(allowed) or 'nothing'}, not with {', '.join(sorted(values))}"
            )
        # One pass, so that a placeholder inside a value is not filled.
        return (
            prompt_files.placeholder_pattern(allowed).sub(lambda found: values[found[1]], self.files[file]).strip("\n")
        )

    def render_examples(self) -> str:
        """Return the worked examples of the classifier, as inserted into classification.txt."""
        return "\n\n".join(
            f"Experimental steps: {example['observation']}\nInterpretation: {example['interpretation']}\n"
            f"Verdict: {example['label']}"
            for example in json.loads(self.files[EXAMPLES])
        )


class ImportedSet(NamedTuple):
    """A set loaded from a folder, with details for the person who imports it."""

    texts: PromptTexts
    borrowed: tuple[str, ...]  # files taken from the built-in set
    unescaped: tuple[str, ...]  # were str.format templates
    doubled: tuple[str, ...]  # contain doubled braces and are not such templates: unchanged


def compute_hash(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of file names and texts, independent of the set's name."""
    # Canonical JSON, so that the order of files does not change the hash.
    canonical = json.dumps(dict(files), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@lru_cache(maxsize=1)
def load_built_in() -> PromptTexts:
    """Return the built-in set for the roles of a simulation."""
    return _load_shipped(BUILT_IN, PLACEHOLDERS)


@lru_cache(maxsize=1)
def load_built_in_rating() -> PromptTexts:
    """Return the built-in set for model raters.

    It is a separate set so that its changes do not affect the simulation set's hash, which is part of run
    configurations.
    """
    return _load_shipped(BUILT_IN_RATING, RATING)


def is_rating_set(files: Collection[str]) -> bool:
    """Return whether a set with these files is for model raters."""
    return not set(files).isdisjoint(RATING)


def load_folder(folder: Path, name: str) -> ImportedSet:
    """Return the set in a folder; missing files come from the built-in set. Raises PromptSetError with all problems."""
    files = prompt_files.files_of_family(folder)
    loaded = _load_or_raise(folder, files)
    if not loaded:
        raise PromptSetError((f"{folder}: contains none of {', '.join(sorted(files))}",))
    ours = (load_built_in_rating() if files is RATING else load_built_in()).files
    texts = {file: loaded[file].text if file in loaded else ours[file] for file in sorted(files)}
    return ImportedSet(
        PromptTexts(name, texts),
        tuple(sorted(set(files) - set(loaded))),
        tuple(sorted(file for file, read in loaded.items() if read.unescaped)),
        tuple(sorted(file for file, read in loaded.items() if "{{" in read.text)),
    )


def _load_shipped(name: str, files: Mapping[str, Placeholders]) -> PromptTexts:
    loaded = _load_or_raise(_FOLDERS / name, files)
    if missing := sorted(set(files) - set(loaded)):
        raise PromptSetError(tuple(f"{file}: is missing" for file in missing))
    return PromptTexts(name, {file: loaded[file].text for file in sorted(loaded)})


def _load_or_raise(folder: Path, files: Mapping[str, Placeholders]) -> dict[str, prompt_files.PromptFile]:
    loaded, problems = prompt_files.load_files(folder, files)
    if problems:
        raise PromptSetError(problems)
    return loaded
