"""Prompt sets: the texts sent to language models, their placeholders, and their hash."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.llm.prompt_files import (
    ALL_FILES,
    BUILT_IN,
    BUILT_IN_CODE,
    BUILT_IN_RATING,
    EXAMPLES,
    FAMILIES,
    OPTIONAL,
    SHIPPED,
    Placeholders,
    find_family,
)
from simulation.providers import Message, Prompt
from simulation.providers.base import ReplySchema
from wetbench_site.text import describe_error, hash_text

MAX_FILE_BYTES = 100_000  # bytes of one file; the longest built-in file has a tenth of this
LABELS = ("VALID", "INVALID")
_FOLDERS = Path(__file__).parent / "prompts"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_HASH = re.compile(r"[0-9a-f]{6,64}")


_EXAMPLE_HEADING = "WORKED EXAMPLE\n"


class PromptSetError(LabError):
    """A prompt set is invalid. Each of `problems` names the file and what is allowed."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class TextPart(NamedTuple):
    """A part of a filled file: the value of the placeholder `name`, or text of the set itself if `name` is ""."""

    name: str
    text: str


class SetName(NamedTuple):
    """`name`, which means the current version, or `name@hash` with the first 6 to 64 digits of a version's hash."""

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
    """A set: the files of its family (FAMILIES) by name, of which OPTIONAL ones may be missing. Equal hashes mean equal texts."""

    name: str
    files: Mapping[str, str]
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        # The mapping is copied and made read-only: the hash must stay true. Fields of a frozen dataclass can only be
        # set in this way.
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "sha256", compute_hash(self.files))

    def __hash__(self) -> int:
        return hash(self.sha256)

    def fill_in(self, file: str, **values: str) -> str:
        """Return the file's text with `{name}` replaced by its value, in one pass, so nothing in a value is replaced.

        Every placeholder of the file needs a value. Other braces stay as they are. Raises TypeError for missing or unknown values.
        """
        return "".join(part.text for part in self.split_parts(file, **values))

    def split_parts(self, file: str, **values: str) -> list[TextPart]:
        """Return the text of `fill_in` in parts: the set's own texts and the inserted values, in order."""
        allowed = ALL_FILES[file].all_names
        if set(values) != set(allowed):
            raise TypeError(
                f"{file} is filled with {', '.join(allowed) or 'nothing'}, not with {', '.join(sorted(values))}"
            )
        # Split at a group, the list alternates between the set's own texts and names of placeholders.
        pieces = _placeholder_pattern(allowed).split(self.files[file])
        parts = [TextPart(piece, values[piece]) if at % 2 else TextPart("", piece) for at, piece in enumerate(pieces)]
        return _strip_line_ends(parts)

    def build_prompt(
        self,
        system: str,
        text: str,
        purpose: str,
        wants_json: bool = False,
        schema: ReplySchema | None = None,
        stable_ends: tuple[int, ...] = (),
    ) -> Prompt:
        """Return a prompt of one message, marked with the hash of this set."""
        return Prompt(system, (Message("user", text, stable_ends),), purpose, self.sha256, wants_json, schema)

    def find_example(self, file: str) -> str:
        """Return the worked example at the end of a file, or "" if it has none."""
        return (
            self.files.get(file, "").rpartition(_EXAMPLE_HEADING)[2]
            if _EXAMPLE_HEADING in self.files.get(file, "")
            else ""
        )

    def render_examples(self) -> str:
        """Return the worked examples of the classifier, as inserted into classification.txt."""
        return "\n\n".join(
            f"Experimental steps: {example['observation']}\nInterpretation: {example['interpretation']}\n"
            f"Verdict: {example['label']}"
            for example in json.loads(self.files[EXAMPLES])
        )


def find_changing_part(parts: Iterable[TextPart], stable: Collection[str] = ()) -> tuple[str, int]:
    """Return name and position of the first value that changes from prompt to prompt; "" and the length if there is none.

    `stable` names the placeholders whose values stay the same.
    """
    position = 0
    for part in parts:
        if part.name and part.name not in stable:
            return part.name, position
        position += len(part.text)
    return "", position


def _strip_line_ends(parts: list[TextPart]) -> list[TextPart]:
    """Return the parts without line feeds at the beginning and at the end of the whole text."""
    stripped = list(parts)
    for at in range(len(stripped)):
        stripped[at] = stripped[at]._replace(text=stripped[at].text.lstrip("\n"))
        if stripped[at].text:
            break
    for at in reversed(range(len(stripped))):
        stripped[at] = stripped[at]._replace(text=stripped[at].text.rstrip("\n"))
        if stripped[at].text:
            break
    return stripped


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
    return hash_text(canonical)


def load_built_in() -> PromptTexts:
    """Return the built-in set for the roles of a simulation."""
    return load_family(BUILT_IN)


def load_built_in_rating() -> PromptTexts:
    """Return the built-in set for model raters.

    It is a separate set so that its changes do not affect the simulation set's hash, which is part of run
    configurations.
    """
    return load_family(BUILT_IN_RATING)


def load_built_in_code() -> PromptTexts:
    """Return the built-in set for agents that edit code, and their helpers."""
    return load_family(BUILT_IN_CODE)


@lru_cache
def load_family(name: str) -> PromptTexts:
    """Return the built-in set of that name: that of a family, or one that changes some of its files."""
    base = SHIPPED[name]
    files = FAMILIES[base]
    loaded = _load_files(_FOLDERS / name, files)
    if base != name:
        loaded = {**_load_files(_FOLDERS / base, files), **loaded}
    if missing := sorted(set(files) - set(loaded)):
        raise PromptSetError(tuple(f"{file}: is missing" for file in missing))
    return PromptTexts(name, {file: text for file, (text, _) in loaded.items()})


def load_folder(folder: Path, name: str) -> ImportedSet:
    """Return the set in a folder; missing files come from the built-in set. Raises PromptSetError with all problems."""
    try:
        family = find_family([file for file in ALL_FILES if (folder / file).exists()])
    except (OSError, ValueError):
        family = BUILT_IN  # `_load_files` reports what is wrong with the folder
    files = FAMILIES[family]
    loaded = _load_files(folder, files)
    if not loaded:
        raise PromptSetError((f"{folder}: contains none of {', '.join(sorted(files))}",))
    ours = load_family(family).files
    borrowed = [file for file in sorted(files) if file not in loaded and not set(loaded) & set(OPTIONAL.get(file, ()))]
    texts = {file: loaded[file][0] if file in loaded else ours[file] for file in sorted({*loaded, *borrowed})}
    return ImportedSet(
        PromptTexts(name, texts),
        tuple(borrowed),
        tuple(file for file, (_, was_template) in loaded.items() if was_template),
        tuple(file for file, (text, _) in loaded.items() if "{{" in text),
    )


def _load_files(folder: Path, files: Mapping[str, Placeholders]) -> dict[str, tuple[str, bool]]:
    """Return the text of each .txt and .json file in a folder, and whether doubled braces in it were made single."""
    try:
        # Hidden files are those of editors and version control.
        paths = sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".json") and path.name[0] != ".")
    except (OSError, ValueError) as error:
        raise PromptSetError((f"{folder}: cannot be read as a folder ({describe_error(error)})",)) from None
    loaded: dict[str, tuple[str, bool]] = {}
    problems: list[str] = []
    for path in paths:
        text, problem = _read_text(path, files)
        if problem:
            problems.append(f"{path.name}: {problem}")
            continue
        unescaped = _unescape_braces(text, files[path.name].all_names)
        problems += [f"{path.name}: {problem}" for problem in _find_problems(path.name, unescaped, files)]
        loaded[path.name] = unescaped, unescaped != text
    if problems:
        raise PromptSetError(tuple(problems))
    return loaded


def _read_text(path: Path, files: Mapping[str, Placeholders]) -> tuple[str, str]:
    """Return the file's text with normalised line ends, and what is wrong with the file."""
    if path.name not in files:
        return "", f"no such file in a prompt set; there are {', '.join(sorted(files))}"
    try:
        with path.open("rb") as stream:
            # One byte more than allowed shows that the file is too long, without reading all of it.
            data = stream.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")  # a byte order mark at the beginning is dropped
    except UnicodeDecodeError as error:
        return "", f"is not UTF-8 text (byte {error.start + 1})"
    except OSError as error:
        return "", f"cannot be read ({describe_error(error)})"
    if len(data) > MAX_FILE_BYTES:
        return "", f"is longer than {MAX_FILE_BYTES} bytes"
    if not text.strip():
        return "", "is empty"
    if any(letter < " " and letter not in "\t\r\n" for letter in text):
        return "", "contains control characters"
    return text.replace("\r\n", "\n").replace("\r", "\n"), ""


def _unescape_braces(text: str, allowed: Collection[str]) -> str:
    """Return the text with doubled braces made single if the file is a template for str.format, unlike most JSON."""
    try:
        pieces = list(Formatter().parse(text)) if "{{" in text or "}}" in text else []
    except ValueError:
        return text
    if any(field is not None and (field not in allowed or spec or conversion) for _, field, spec, conversion in pieces):
        return text
    # Rebuilt from the parsed pieces, so that doubled braces become single everywhere and placeholders remain.
    return "".join(literal + (f"{{{field}}}" if field else "") for literal, field, _, _ in pieces) or text


def _find_problems(name: str, text: str, files: Mapping[str, Placeholders]) -> Iterator[str]:
    if name == EXAMPLES:
        yield from _find_example_problems(text)
        return
    placeholders = files[name]
    # Known names only: other words in braces are text, for example JSON.
    known_names = tuple(sorted({each for placeholders in files.values() for each in placeholders.all_names}))
    used = {match[1] for match in _placeholder_pattern(known_names).finditer(text)}
    yield from (f"{{{each}}} is missing" for each in placeholders.needed if each not in used)
    allowed = ", ".join(f"{{{each}}}" for each in placeholders.all_names) or "nothing"
    yield from (
        f"{{{each}}} is not filled in here; {allowed} is" for each in sorted(used - set(placeholders.all_names))
    )


# Cached, because every step fills several files with the same placeholders.
@lru_cache(maxsize=64)
def _placeholder_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds `{name}` for these names; it never matches if there are none."""
    # An empty alternative would match "{}" everywhere.
    return re.compile(r"\{(" + "|".join(names) + r")\}" if names else r"(?!)()")


def _find_example_problems(text: str) -> Iterator[str]:
    """Yield what is wrong with the worked examples: a list of 1 to 50 objects of three texts."""
    try:
        examples = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"is not JSON ({str(error)[:100]})"
        return
    if not isinstance(examples, list) or not 1 <= len(examples) <= 50:
        yield "must be a list of 1 to 50 examples"
        return
    for index, example in enumerate(examples):
        if problem := _find_example_problem(example):
            yield f"[{index}] {problem}"


def _find_example_problem(example: Any) -> str:
    if not isinstance(example, dict) or set(example) != {"observation", "interpretation", "label"}:
        return "must be an object with observation, interpretation and label"
    for name in ("observation", "interpretation"):
        if not isinstance(example[name], str) or not example[name].strip():
            return f"{name} must be a text"
    return "" if example["label"] in LABELS else f"label must be {' or '.join(LABELS)}"
