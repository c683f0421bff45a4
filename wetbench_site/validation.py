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
    """Base of all models of input data: no unknown fields, no conversion of types, no changes after parsing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


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
    return AfterValidator(lambda text: text if text in choices else reject()), Allowed(
        ", ".join(choice or "empty" for choice in choices)
    )


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
    try:
        model.model_validate(data, context=context)
    except ValidationError as error:
        return [problem.text for problem in list_problems(error, model)]
    return []


def _describe(details: Any, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield (path, message) of one error of pydantic."""
    kind, context = details["type"], details.get("ctx", {})
    parts, annotation, metadata = _follow_path(
        model, details["loc"][:-1] if kind == "extra_forbidden" else details["loc"]
    )
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    if kind == "parts":
        for below, message in context["problems"]:
            yield f"{path}{'' if below.startswith('[') else '.'}{below}".strip("."), message
    elif kind == "extra_forbidden":
        names = ", ".join(sorted(annotation.model_fields))
        yield f"{path}.{details['loc'][-1]}".removeprefix("."), f"unknown field; allowed: {names}"
    elif kind == "value_error":
        yield path, str(context["error"])
    else:
        allowed = context.get("allowed") or describe_allowed(annotation, metadata)
        yield (
            path,
            f"is missing; allowed: {allowed}" if kind == "missing" else format_problem(details["input"], allowed),
        )


def format_problem(value: Any, allowed: str) -> str:
    """Return "is 'value'; allowed: ...", with a long value shortened."""
    quoted = repr(value)
    return f"is {quoted if len(quoted) <= _MAX_QUOTED else quoted[: _MAX_QUOTED - 3] + '...'}; allowed: {allowed}"


def describe_allowed(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return in words what a field of this type and these constraints allows."""
    limits: dict[str, Any] = {}
    for entry in metadata:
        if isinstance(entry, Allowed):
            return entry.text
        for name in ("ge", "le", "min_length", "max_length"):
            if getattr(entry, name, None) is not None:
                limits[name] = getattr(entry, name)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe_allowed(
            arguments[0], [part for entry in arguments[1:] for part in getattr(entry, "metadata", [entry])]
        )
    if origin in (Union, types.UnionType):
        return f"{describe_allowed(arguments[0], metadata)}, or null"
    if origin is Literal:
        return ", ".join(str(choice) or "empty" for choice in arguments)
    if annotation is bool:
        return "true or false"
    if annotation in (int, float):
        number = "a whole number" if annotation is int else "a number"
        return (
            number
            + (f" from {limits['ge']}" if "ge" in limits else "")
            + (f" to {limits['le']}" if "le" in limits else "")
        )
    if annotation is str:
        longest = f" of at most {limits['max_length']:,} characters" if "max_length" in limits else ""
        return f"text{longest}{', not empty' if limits.get('min_length') else ''}"
    if origin in (list, tuple):
        return f"a list of {_name_entries(arguments[0])}{', not empty' if limits.get('min_length') else ''}"
    return "an object"


def _name_entries(annotation: Any) -> str:
    described = describe_allowed(annotation)
    plurals = {"text": "texts", "an object": "objects", "a number": "numbers", "a whole number": "whole numbers"}
    return next((plural for word, plural in reversed(plurals.items()) if described.startswith(word)), described)


def _follow_path(model: Any, place: Sequence[str | int]) -> tuple[list[str | int], Any, Sequence[Any]]:
    """Return the path of a value without the tags of unions, and the type and the constraints declared for it."""
    parts: list[str | int] = []
    annotation, metadata = model, ()
    for part in place:
        annotation = _choose_member(annotation, None)
        if get_origin(annotation) in (Union, types.UnionType):  # a union with tags: this part is the tag
            annotation = _choose_member(annotation, part)
            continue
        parts.append(part)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields[str(part)]
            annotation, metadata = field.annotation, tuple(field.metadata)
        elif arguments := get_args(annotation):
            annotation = arguments[-1] if get_origin(annotation) is dict else arguments[0]
            metadata = getattr(annotation, "__metadata__", ())
    return parts, annotation, metadata


def _choose_member(annotation: Any, tag: Any) -> Any:
    """Return the type inside `Annotated` and `... | None`; with a tag, the member of the union that has it."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        members = get_args(annotation)
        if get_origin(annotation) is Annotated:
            annotation = members[0]
        elif tag is not None:
            annotation = next(one for one in members if Tag(tag) in getattr(one, "__metadata__", ()))
            tag = None
        elif any(isinstance(entry, Tag) for one in members for entry in getattr(one, "__metadata__", ())):
            return annotation
        else:
            annotation = members[0]
    return annotation


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
    open_containers: list[
        tuple[str, int]
    ] = []  # path of each open object or list; index of the next entry, -1 in an object
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
