"""Draw the hidden truth of an experiment by seed: the distributions in its `draws`, and the references that use them.

A draw has one value, or one for each name in `each`. A text of `materials` or `truth` that contains "$" is a reference:
"$name" or "$name.key", with ".field" for a field of the drawn value, or terms joined by * + -, such as "1 - $efficiency" or
"$yield.isolate_a * $vigour". They are computed from left to right; in a sum, a number takes the unit of the other term.

The same experiment and seed give the same values, whatever the order of the fields, the process or the machine.
Without a seed, every draw has its `reference` value. docs/laboratory.md describes the fields.
"""

import random
import re
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal, localcontext
from typing import Annotated, Any, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from simulation.lab.errors import CatalogueError
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    Text,
    find_problems,
    format_lack,
    format_problem,
    reject_parts,
)

KINDS = ("uniform", "log_uniform", "choice", "permutation")
_MARK = "$"
_NUMBER = re.compile(r"(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)(?: (?P<unit>[^\s$].*))?")
_REFERENCE = re.compile(r"\$([a-z][a-z0-9_]*)((?:\.[a-z][a-z0-9_]*){0,2})")
_OPERATION = re.compile(r" ([*+-]) ")
# Enough digits that sums and products of declared numbers are exact.
_EXACT = Context(prec=60)
_Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,59}$"), Allowed("small letters, digits and underscores")]
_Value = str | dict[str, str]
Values = Mapping[str, _Value]  # the value of each draw; with `each`, its values by key


class _Amount(NamedTuple):
    number: Decimal
    unit: str


def _parse_amount(text: str) -> _Amount | None:
    match = _NUMBER.fullmatch(text)
    return _Amount(Decimal(match["number"]), match["unit"] or "") if match else None


class DrawEntry(StrictModel):
    """The distribution of one unknown, and its value if no seed is given."""

    about: Text
    uniform: list[str] | None = None
    log_uniform: list[str] | None = None
    choice: Annotated[list[Text], Field(min_length=2), Allowed("a list of at least two texts")] | None = None
    permutation: Annotated[list[Text], Field(min_length=2), Allowed("a list of at least two texts")] | None = None
    each: Annotated[list[_Name], Field(min_length=1)] | None = None
    digits: Annotated[int, Field(ge=1, le=8)] = 3
    fields: dict[str, dict[_Name, Text]] = {}
    reference: Any = None

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def options(self) -> list[str]:
        """Return the range, or the values that can be drawn."""
        options: list[str] = getattr(self, self.kind)
        return options

    @property
    def is_range(self) -> bool:
        return self.kind in KINDS[:2]

    @model_validator(mode="after")
    def _need_one_distribution(self) -> Self:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            reject_parts([("", f"needs exactly one of {', '.join(KINDS)}")])
        problems = self._find_range_problems() if self.is_range else self._find_option_problems()
        reject_parts(problems)
        reject_parts(self._find_reference_problems())
        return self

    def _find_range_problems(self) -> list[tuple[str, str]]:
        amounts = [_parse_amount(text) for text in self.options]
        lowest_allowed = Decimal("-Infinity") if self.kind == "uniform" else Decimal(0)
        match amounts:
            case [_Amount() as low, _Amount() as high] if low.unit == high.unit and low.number < high.number:
                problems = (
                    [] if low.number > lowest_allowed else [(self.kind, format_problem(self.options, "above zero"))]
                )
            case _:
                problems = [(self.kind, format_problem(self.options, 'two numbers in one unit, like ["1 mM", "5 mM"]'))]
        return problems + [("fields", "not allowed for a range")] * bool(self.fields)

    def _find_option_problems(self) -> list[tuple[str, str]]:
        problems = []
        if self.kind == "permutation" and len(self.each or ()) not in range(1, len(self.options) + 1):
            allowed = f"a list of at most {len(self.options)} names, which the values are assigned to"
            problems.append(("each", format_lack(self, "each", allowed)))
        if self.fields and set(self.fields) != set(self.options):
            problems.append(
                ("fields", format_problem(list(self.fields), f"one entry for each of {', '.join(self.options)}"))
            )
        if len({tuple(sorted(fields)) for fields in self.fields.values()}) > 1:
            problems.append(("fields", "all values need the same fields"))
        return problems

    def _find_reference_problems(self) -> list[tuple[str, str]]:
        if self.reference is None and self.kind == "permutation":
            return []
        given = self.reference if self.each else {"": self.reference}
        if not isinstance(given, Mapping) or set(given) != set(self.each or ("",)):
            return [("reference", format_lack(self, "reference", f"an object with {', '.join(self.each or ())}"))]
        allowed = f"from {' to '.join(self.options)}" if self.is_range else ", ".join(self.options)
        return [
            (f"reference.{key}".rstrip("."), format_problem(value, allowed))
            for key, value in given.items()
            if not isinstance(value, str) or not self._can_be(value)
        ]

    def _can_be(self, value: str) -> bool:
        if not self.is_range:
            return value in self.options
        amount, low, high = (_parse_amount(text) for text in (value, *self.options))
        return bool(amount and low and high and amount.unit == low.unit and low.number <= amount.number <= high.number)


class _DrawsOnly(StrictModel):
    """The draws of an experiment file; all other fields are checked elsewhere."""

    model_config = ConfigDict(extra="ignore")
    draws: dict[_Name, DrawEntry] = {}


def find_draw_problems(data: Mapping[str, Any]) -> list[str]:
    """Return every problem of the draws of an experiment file and of the references to them, as "field: message"."""
    if problems := find_problems(_DrawsOnly, data):
        return problems
    draws = _parse_draws(data)
    values, used = draw_values(data, None), set()
    for path, text in _iter_texts(data):
        used |= {name for name, _ in _REFERENCE.findall(text)}
        try:
            if _MARK in text:
                _evaluate(text, draws, values)
        except CatalogueError as error:
            problems.append(f"{path}: is {text!r}; {error}")
    problems += [f"draws.{name}: is never used; allowed: references like ${name}" for name in draws if name not in used]
    return problems


def draw_values(data: Mapping[str, Any], seed: int | None) -> dict[str, _Value]:
    """Return the value of every draw of a valid experiment file for this seed, or the reference values for None."""
    return {
        name: _draw_value(f"{seed}:{data.get('slug')}:{name}", entry, seed)
        for name, entry in _parse_draws(data).items()
    }


def fill_references(data: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return a valid experiment file with these values in place of the references in materials and truth."""
    draws = _parse_draws(data)
    if not draws:
        return dict(data)

    def fill(value: Any) -> Any:
        match value:
            case str():
                return _evaluate(value, draws, values) if _MARK in value else value
            case list():
                return [fill(part) for part in value]
            case dict():
                return {name: fill(part) for name, part in value.items()}
        return value

    return {**data, **{field: fill(data[field]) for field in ("materials", "truth") if field in data}}


def _parse_draws(data: Mapping[str, Any]) -> dict[str, DrawEntry]:
    return {name: DrawEntry.model_validate(entry) for name, entry in data.get("draws", {}).items()}


def _draw_value(stream: str, entry: DrawEntry, seed: int | None) -> _Value:
    if seed is None:
        assigned = dict(zip(entry.each or (), entry.options, strict=False))
        value: _Value = assigned if entry.reference is None else entry.reference
        return value
    if entry.kind == "permutation":
        # Only random() is guaranteed to give the same numbers in later versions of Python, so nothing else is used.
        rng = random.Random(stream)
        order = sorted(entry.options, key=lambda _: rng.random())
        return dict(zip(entry.each or (), order, strict=False))
    # One stream for each value, so that a further draw or key changes no other value.
    return {key: _draw_one(f"{stream}:{key}", entry) for key in entry.each} if entry.each else _draw_one(stream, entry)


def _draw_one(stream: str, entry: DrawEntry) -> str:
    share = random.Random(stream).random()
    if not entry.is_range:
        return entry.options[int(share * len(entry.options))]
    low, high = (amount for text in entry.options if (amount := _parse_amount(text)))
    with localcontext(_EXACT):
        part = Decimal(repr(share))
        if entry.kind == "uniform":
            number = low.number + (high.number - low.number) * part
        else:
            number = low.number * (high.number / low.number) ** part
    rounded = Context(prec=entry.digits).plus(number)
    return _format_amount(_Amount(min(max(rounded, low.number), high.number), low.unit))


def _format_amount(amount: _Amount) -> str:
    number = format(amount.number.normalize(), "f") if amount.number else "0"
    return f"{number} {amount.unit}".strip()


def _iter_texts(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of every text in which a reference may occur."""

    def walk(path: str, value: Any) -> Iterator[tuple[str, str]]:
        match value:
            case str():
                yield path, value
            case list():
                for index, part in enumerate(value):
                    yield from walk(f"{path}[{index}]", part)
            case dict():
                for name, part in value.items():
                    yield from walk(f"{path}.{name}", part)

    for field in ("materials", "truth"):
        yield from walk(field, data.get(field))


def _evaluate(text: str, draws: Mapping[str, DrawEntry], values: Values) -> str:
    """Return the text that a reference stands for. Raises CatalogueError with what is allowed."""
    first, *rest = _OPERATION.split(text)
    if not rest:
        return _look_up(text, draws, values)
    result = _evaluate_term(first, draws, values)
    for sign, term in zip(rest[::2], rest[1::2], strict=True):
        result = _combine(result, sign, _evaluate_term(term, draws, values))
    return _format_amount(result)


def _combine(left: _Amount, sign: str, right: _Amount) -> _Amount:
    if left.unit and right.unit and (sign == "*" or left.unit != right.unit):
        raise CatalogueError(f"allowed: units that fit, not {left.unit!r} {sign} {right.unit!r}")
    with localcontext(_EXACT):
        change = right.number if sign != "-" else -right.number
        number = left.number * right.number if sign == "*" else left.number + change
    return _Amount(number, left.unit or right.unit)


def _evaluate_term(term: str, draws: Mapping[str, DrawEntry], values: Values) -> _Amount:
    text = _look_up(term, draws, values) if _MARK in term else term
    if amount := _parse_amount(text):
        return amount
    raise CatalogueError(f"allowed: numbers on both sides of an operation, not {text!r}")


def _look_up(reference: str, draws: Mapping[str, DrawEntry], values: Values) -> str:
    match = _REFERENCE.fullmatch(reference)
    if not match or match[1] not in draws:
        names = ", ".join(_MARK + name for name in draws) or "no $, because nothing is drawn"
        raise CatalogueError(f"allowed: {names}, alone or in sums and products like 1 - $name")
    entry, value, path = draws[match[1]], values[match[1]], _MARK + match[1]
    parts = match[2].split(".")[1:]
    if isinstance(value, dict):
        value, path = _pick_option(value, path, parts[:1])
        parts = parts[1:]
    if entry.fields:
        value, path = _pick_option(entry.fields[value], path, parts[:1])
        parts = parts[1:]
    if parts:
        raise CatalogueError(f"allowed: {path}")
    return value


def _pick_option(options: Mapping[str, str], path: str, part: list[str]) -> tuple[str, str]:
    """Return the option that the next part of a reference names, and the path to it."""
    if not part or part[0] not in options:
        raise CatalogueError(f"allowed: {', '.join(f'{path}.{option}' for option in options)}")
    return options[part[0]], f"{path}.{part[0]}"
