"""A prompt set: the texts that language models are given, their placeholders, and their hash."""

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
from simulation.llm.prompts.prompt_files import EVERY, EXAMPLES, PLACEHOLDERS, RATING, Placeholders

BUILT_IN, BUILT_IN_RATING = "wetbench", "wetbench-rating"
_FOLDERS = Path(__file__).parent
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_HASH = re.compile(r"[0-9a-f]{6,64}")


class PromptSetError(LabError):
    """A prompt set is wrong. Each of `problems` names the file and what is allowed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SetName(NamedTuple):
    """`name` or `name@hash`, the first 6 to 64 digits of a version's hash; without it the current one."""

    name: str
    version: str = ""

    @classmethod
    def read(cls, written: str) -> "SetName":
        """PromptSetError if it is written otherwise."""
        name, at, version = written.partition("@")
        if not _NAME.fullmatch(name):
            raise PromptSetError((f"{written[:80]!r} is no name of a prompt set: 1 to 80 letters, digits, - and _",))
        if at and not _HASH.fullmatch(version):
            raise PromptSetError(
                (f"{written[:80]!r}: after @ stand the first 6 to 64 digits of a hash, as in {name}@1a2b3c",)
            )
        return cls(name, version)


@dataclass(frozen=True)
class PromptTexts:
    """A whole set: every file of its family (PLACEHOLDERS or RATING) by name. Two sets with the same hash say the same."""

    name: str
    files: Mapping[str, str]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "sha256", content_hash(self.files))

    def fill(self, file: str, **values: str) -> str:
        """The file's text with `{name}` replaced by its value, in one pass: nothing in a value is ever replaced.

        Every placeholder that the file may have needs a value. Other braces stay as they are.
        """
        allowed = EVERY[file].all
        if set(values) != set(allowed):
            raise TypeError(
                f"{file} is filled with {', '.join(allowed) or 'nothing'}, not with {', '.join(sorted(values))}"
            )
        return prompt_files.placeholder(allowed).sub(lambda found: values[found[1]], self.files[file]).strip("\n")

    def examples(self) -> str:
        """The worked examples of the classifier, as they are put into classification.txt."""
        return "\n\n".join(
            f"Experimental steps: {example['observation']}\nInterpretation: {example['interpretation']}\n"
            f"Verdict: {example['label']}"
            for example in json.loads(self.files[EXAMPLES])
        )


class Import(NamedTuple):
    """A set read from a folder, and what whoever brought it should know."""

    texts: PromptTexts
    borrowed: tuple[str, ...]  # files taken from the built-in set
    unescaped: tuple[str, ...]  # were str.format templates
    doubled: tuple[str, ...]  # hold doubled braces and are no such templates: they stay


def content_hash(files: Mapping[str, str]) -> str:
    """SHA-256 over file names and texts, whatever the set is called."""
    told = json.dumps(dict(files), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()


@lru_cache(maxsize=1)
def built_in() -> PromptTexts:
    """The set that comes with WetBench for those who play."""
    return _shipped(BUILT_IN, PLACEHOLDERS)


@lru_cache(maxsize=1)
def built_in_rating() -> PromptTexts:
    """The set that comes with WetBench for models that rate. Apart from the other, whose hash is in every order."""
    return _shipped(BUILT_IN_RATING, RATING)


def is_rating(files: Collection[str]) -> bool:
    """Whether a set with these files is one for raters."""
    return not set(files).isdisjoint(RATING)


def read_folder(folder: Path, name: str) -> Import:
    """The set in a folder; files that are not there are the built-in set's. PromptSetError with everything wrong."""
    files = prompt_files.family(folder)
    found = _read(folder, files)
    if not found:
        raise PromptSetError((f"{folder}: holds none of {', '.join(sorted(files))}",))
    ours = (built_in_rating() if files is RATING else built_in()).files
    texts = {file: found[file].text if file in found else ours[file] for file in sorted(files)}
    return Import(
        PromptTexts(name, texts),
        tuple(sorted(set(files) - set(found))),
        tuple(sorted(file for file, read in found.items() if read.unescaped)),
        tuple(sorted(file for file, read in found.items() if "{{" in read.text)),
    )


def _shipped(name: str, files: Mapping[str, Placeholders]) -> PromptTexts:
    found = _read(_FOLDERS / name, files)
    if missing := sorted(set(files) - set(found)):
        raise PromptSetError(tuple(f"{file}: is missing" for file in missing))
    return PromptTexts(name, {file: found[file].text for file in sorted(found)})


def _read(folder: Path, files: Mapping[str, Placeholders]) -> dict[str, prompt_files.PromptFile]:
    found, problems = prompt_files.read(folder, files)
    if problems:
        raise PromptSetError(problems)
    return found
