"""Validate data of files and requests with pydantic models, and list every problem with its place. Without Django.

A problem has the form "field: is 'value'; allowed: ...". What a field allows is read from its declaration, so that a
message, a form and a table in the docs cannot differ.
"""

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Tag, ValidationError
from pydantic_core import PydanticCustomError

from wetbench_site.text import DuplicateFieldError, parse_json

_UNIONS = (Union, types.UnionType)
_MAX_QUOTED = 80
_GAP = re.compile(r"[ \t\n\r,]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER_OR_WORD = re.compile(r"[^\s,\]}]+")
_BREAK = re.compile(r"[.:\[]")
_MAX_SEARCHED = 1000  # characters of a problem that are searched for its path


class Problem(NamedTuple):
    """A problem of an input, with its line (0: the whole file) and field ("": the whole line)."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else f"file: {self.text}"

    @property
    def text(self) -> str:
        """Field and message, without the line."""
        return f"{self.field}: {self.message}" if self.field else self.message


class StrictModel(BaseModel):
    """Base of all models of input data: no unknown fields, no conversion of types, no changes after parsing.

    A union of types other than None needs tags, because the place of an error in it could not be named otherwise.
    """

    # Validators are built when a model is first used: every process imports the models, and few validate files.
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=(), defer_build=True
    )


class Allowed(NamedTuple):
    """What a field allows, in words. Metadata of `Annotated` for fields whose declaration does not state it."""

    text: str


def _need_visible(text: str) -> str:
    return text if text.strip() else reject()


def _need_iso_date(text: str) -> str:
    try:
        # Compared again, because the parser accepts other spellings of a day.
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    return text if is_day else reject()


Text = Annotated[str, Field(min_length=1)]  # not empty
VisibleText = Annotated[Text, AfterValidator(_need_visible)]  # not only spaces
Day = Annotated[str, AfterValidator(_need_iso_date), Allowed("a day like 2026-11-21")]


def reject(allowed: str = "") -> NoReturn:
    """Raise the error of a validator whose message is "is 'value'; allowed: ..."; by default what the field declares."""
    raise PydanticCustomError("not_allowed", "not allowed", {"allowed": allowed})


def one_of(choices: Sequence[str]) -> tuple[AfterValidator, Allowed]:
    """Return the metadata of `Annotated[str, ...]` for a text that is one of these, for lists that a `Literal` cannot repeat."""
    allowed = Allowed(", ".join(choice or "empty" for choice in choices))
    return AfterValidator(lambda text: text if text in choices else reject()), allowed


def need_unique(key: str) -> AfterValidator:
    """Return a validator of a list of models that rejects a repeated value of the field `key`."""

    def validate(entries: list[Any]) -> list[Any]:
        values = [getattr(entry, key) for entry in entries]
        repeated = sorted({value for value in values if values.count(value) > 1})
        reject_parts([("", f"the {key} {value!r} occurs twice") for value in repeated])
        return entries

    return AfterValidator(validate)


def reject_parts(problems: Sequence[tuple[str, str]]) -> None:
    """Raise one error for several problems, each a path below the validated value and a message. Return if there are none."""
    if problems:
        raise PydanticCustomError("parts", "several problems", {"problems": list(problems)})


def list_problems(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return every problem of data that `model` rejected, in the order of the model's fields."""
    return [Problem(0, path, message) for details in error.errors() for path, message in _describe(details, model)]


def find_problems(model: type[BaseModel], data: Any, context: Any = None) -> list[str]:
    """Return every problem of data as "field: what is wrong and what is allowed"; none if the data is valid."""
    return [problem.text for problem in find_field_problems(model, data, context)]


def find_field_problems(model: type[BaseModel], data: Any, context: Any = None) -> list[Problem]:
    """Return every problem of data, with its field and its message apart."""
    try:
        model.model_validate(data, context=context)
    except ValidationError as error:
        return list_problems(error, model)
    return []


def _describe(details: Any, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of one error of pydantic."""
    kind, place, context = details["type"], details["loc"], details.get("ctx", {})
    if kind == "extra_forbidden":
        path, annotation, _ = _follow_path(model, place[:-1])
        names = ", ".join(sorted(_unwrap(annotation).model_fields))
        yield _join_path(path, place[-1]), f"unknown field; allowed: {names}"
        return
    path, annotation, metadata = _follow_path(model, place)
    if kind == "parts":
        yield from ((_join_path(path, below), message) for below, message in context["problems"])
    elif kind == "value_error":
        yield path, str(context["error"])
    else:
        allowed = context.get("allowed") or describe_allowed(annotation, metadata)
        missing = f"is missing; allowed: {allowed}"
        yield path, missing if kind == "missing" else format_problem(details["input"], allowed)


def format_problem(value: Any, allowed: str) -> str:
    """Return "is 'value'; allowed: ...", with a long value shortened."""
    quoted = repr(value)
    return f"is {quoted if len(quoted) <= _MAX_QUOTED else quoted[: _MAX_QUOTED - 3] + '...'}; allowed: {allowed}"


def format_lack(entry: BaseModel, field: str, allowed: str) -> str:
    """Return what is wrong with a field that this entry needs, although others may omit it."""
    is_missing = field not in entry.model_fields_set
    return f"is missing; allowed: {allowed}" if is_missing else format_problem(getattr(entry, field), allowed)


def describe_allowed(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return in words what a field of this type and these constraints (ge, le, min_length, max_length) allows."""
    limits: dict[str, Any] = {}
    for entry in metadata:
        if isinstance(entry, Allowed):
            return entry.text
        for name in ("ge", "le", "min_length", "max_length"):
            if getattr(entry, name, None) is not None:
                limits[name] = getattr(entry, name)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [part for entry in arguments[1:] for part in getattr(entry, "metadata", [entry])]
        return describe_allowed(arguments[0], inner)
    if origin in _UNIONS:
        return f"{describe_allowed(arguments[0], metadata)}, or null"
    if origin is Literal:
        return ", ".join(str(choice) or "empty" for choice in arguments)
    if annotation is bool:
        return "true or false"
    not_empty = ", not empty" * bool(limits.get("min_length"))
    if annotation in (int, float):
        bounds = [f" {word} {limits[name]}" for name, word in (("ge", "from"), ("le", "to")) if name in limits]
        return "".join(["a whole number" if annotation is int else "a number", *bounds])
    if annotation is str:
        longest = f" of at most {limits['max_length']:,} characters" if "max_length" in limits else ""
        return f"text{longest}{not_empty}"
    if origin in (list, tuple):
        entries = describe_allowed(arguments[0])
        plurals = {"text": "texts", "an object": "objects", "a number": "numbers", "a whole number": "whole numbers"}
        many = next((plural for word, plural in plurals.items() if entries.startswith(word)), entries)
        return f"a list of {many}{not_empty}"
    return "an object"


def _follow_path(model: Any, place: Sequence[str | int]) -> tuple[str, Any, Sequence[Any]]:
    """Return the path of a value without the tags of unions, and the type and the constraints declared for it."""
    path, annotation, metadata = "", model, ()
    for part in place:
        annotation = _unwrap(annotation)
        if get_origin(annotation) in _UNIONS:  # a union with tags: this part is the tag
            annotation = next(one for one in get_args(annotation) if Tag(str(part)) in getattr(one, "__metadata__", ()))
            continue
        path = _join_path(path, f"[{part}]" if isinstance(part, int) else part)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields[str(part)]
            annotation, metadata = field.annotation, tuple(field.metadata)
        elif arguments := get_args(annotation):
            annotation = arguments[-1] if get_origin(annotation) is dict else arguments[0]
            metadata = getattr(annotation, "__metadata__", ())
    return path, annotation, metadata


def _unwrap(annotation: Any) -> Any:
    """Return the type inside `Annotated` and `... | None`. A union with tags stays."""
    members = get_args(annotation)
    if get_origin(annotation) is Annotated or (get_origin(annotation) in _UNIONS and not any(map(_has_tag, members))):
        return _unwrap(members[0])
    return annotation


def _has_tag(member: Any) -> bool:
    return any(isinstance(entry, Tag) for entry in getattr(member, "__metadata__", ()))


def _join_path(path: str, below: str) -> str:
    return f"{path}.{below}" if path and below and not below.startswith("[") else path + below


def read_json_file(path: Path) -> tuple[Any, list[str]]:
    """Return the value in a JSON file and no problem, or None and "path:line: what is wrong"."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return parse_json(text), []
    except OSError as error:
        return None, [f"{path}: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return None, [_describe_invalid_json(path, text, error)]


def locate_problems(path: Path, problems: Sequence[str]) -> list[str]:
    """Return the problems of a valid JSON file as "path:line: problem", with the path relative to the working directory."""
    if not problems:
        return []
    line_of_path = map_lines(path.read_text(encoding="utf-8"))
    return [f"{format_file(path)}:{find_line(problem, line_of_path)}: {problem}" for problem in problems]


def format_file(path: Path) -> str:
    """Return a path relative to the working directory, so that an editor or a terminal can open it."""
    return str(path.resolve().relative_to(Path.cwd()) if path.resolve().is_relative_to(Path.cwd()) else path)


def map_lines(text: str) -> dict[str, int]:
    """Return {path: line} of every value in a JSON text. Lines count from 1; a path is like `parameters[3].minimum`."""
    json.loads(text)
    line_of_path: dict[str, int] = {}
    line, counted_to = 1, 0
    for path, offset in _iter_paths(text):
        # Counted from the previous value: counting from the beginning each time would take quadratic time.
        line, counted_to = line + text.count("\n", counted_to, offset), offset
        # The first occurrence counts; a duplicate is reported separately.
        line_of_path.setdefault(path, line)
    return line_of_path


def find_line(problem: str, line_of_path: Mapping[str, int]) -> int:
    """Return the line of the path at the start of a problem text, or of the nearest enclosing path; 1 if there is none.

    Names may contain dots and colons (`contents.Na2CO3: anhydrous.known`), so the longest known path is used.
    """
    ends = [match.start() for match in _BREAK.finditer(problem[:_MAX_SEARCHED])]
    return next((line_of_path[problem[:end]] for end in reversed(ends) if problem[:end] in line_of_path), 1)


def _describe_invalid_json(path: Path, text: str, error: Exception) -> str:
    """Return "path:line: not JSON: reason" for an invalid JSON file, without the line if it is unknown."""
    if isinstance(error, json.JSONDecodeError):
        return f"{format_file(path)}:{error.lineno}: not JSON: {error.msg}, column {error.colno}"
    line = 0
    if isinstance(error, DuplicateFieldError):
        line = _find_duplicate_line(text)
    elif isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
    return f"{format_file(path)}:{f'{line}:' if line else ''} not JSON: {error}"


def _find_duplicate_line(text: str) -> int:
    """Return the line of the first repeated field in a text that is otherwise valid JSON, or 0 if there is none."""
    paths: set[str] = set()
    for path, offset in _iter_paths(text):
        if path in paths:
            return text.count("\n", 0, offset) + 1
        paths.add(path)
    return 0


def _iter_paths(text: str) -> Iterator[tuple[str, int]]:
    """Yield (path, offset) of every value in order. The offset of a field's value is that of the field's name."""
    # No recursion: a hostile file may nest deeper than Python's stack.
    open_containers: list[tuple[str, int]] = []  # path of each; index of its next entry, -1 in an object
    path, offset, field_start = "", _skip_gap(text, 0), -1
    while offset < len(text):
        letter = text[offset]
        if letter in "]}":
            open_containers.pop()
            offset, field_start = offset + 1, -1
        elif field_start < 0 and open_containers and open_containers[-1][1] < 0:  # a field's name
            end = _find_end(text, offset)
            path = f"{open_containers[-1][0]}.{json.loads(text[offset:end])}".removeprefix(".")
            field_start, offset = offset, text.index(":", end) + 1
        else:
            if open_containers and open_containers[-1][1] >= 0:
                inside, index = open_containers[-1]
                open_containers[-1] = (inside, index + 1)
                path, field_start = f"{inside}[{index}]", offset
            yield path, max(field_start, 0)
            if letter in "[{":
                open_containers.append((path, 0 if letter == "[" else -1))
            offset = _find_end(text, offset)
            field_start = -1
        offset = _skip_gap(text, offset)


def _find_end(text: str, offset: int) -> int:
    """Return the offset just after the value at `offset`; for an object or list, just after its opening bracket."""
    if text[offset] in "[{":
        return offset + 1
    match = (_STRING if text[offset] == '"' else _NUMBER_OR_WORD).match(text, offset)
    return match.end() if match else offset + 1


def _skip_gap(text: str, offset: int) -> int:
    match = _GAP.match(text, offset)
    return match.end() if match else offset
