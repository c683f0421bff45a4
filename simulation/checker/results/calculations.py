"""L20: calculations that a record writes out: "1e5 x 0.146 / 0.005 mL = 2.9e6 TU/mL", "(Epa + Epc)/2 = 0.094 V".

A calculation is a chain of terms between signs of equality. Terms have numbers, units and symbols to which the record gives a value.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import units
from simulation.checker.reading.transition import Transition

ZERO, ONE = Decimal(0), Decimal(1)
_SHARE, _ABOUT = Decimal("0.03"), Decimal("0.15")  # of the result; the second for "≈" and "about"
# Dimension -> size of its base unit in litres, grams, moles and seconds, and the powers of these four.
_SI: dict[str, tuple[str, tuple[int, int, int, int]]] = {
    "volume": ("1e-6", (1, 0, 0, 0)), "mass": ("1e-6", (0, 1, 0, 0)), "amount": ("1e-9", (0, 0, 1, 0)), "duration": ("1", (0, 0, 0, 1)),
    "mass_concentration": ("1e-3", (-1, 1, 0, 0)), "molar_concentration": ("1e-6", (-1, 0, 1, 0)), "number_density": ("1e3", (-1, 0, 0, 0)),
    "molecular_mass": ("1e3", (0, 1, -1, 0)), "count": ("1", (0, 0, 0, 0)), "ratio": ("0.01", (0, 0, 0, 0)),
}  # fmt: skip
_NONE = (0, 0, 0, 0)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,15}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2}(?![0-9]))?)"
    r"|(?P<operator>[-+*/÷·^()|]|[x×](?![A-Za-z]))|(?P<symbol>[A-Za-zΔµ][\w']{0,14}))",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\s?(?P<unit>%|/(?:mL|µL|uL|L|cell)|[A-Za-zµ°]{1,12}(?:/[A-Za-zµ]{1,10}[0-9]?)?)(?![\w])")
_SIGN = re.compile(r"=>|(?<![<>=!])=(?!=)|≈|->|→|\b(?:gives?|yields?|equals?|makes?)\b", re.IGNORECASE)
_BREAK = re.compile(r"[;\n]|\s\|\s|,\s|\.\s|\bor\b|\bvs\b|\. *$")
_VALUE = re.compile(
    r"(?<![\w/|(])(?<![-+*/x·×]\s)([A-Za-zΔ][A-Za-zα-ω]{0,5}(?:[_,]?[A-Za-z0-9/]{1,5})?)\s?(?:=|:)\s?(-?[0-9]{1,12}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?)(\s?[A-Za-zµ%°]{1,6})?(?![\w./^])(?!\s?[-+*/x(])(?!\s?[A-Za-zµ%°]{1,6}\s?[-+*/x(]\s?[0-9])"
)
# Words before a term that make it part of a larger one: "mean of 5 and 7 / 2".
_JOINED = re.compile(
    r"(?:\b(?:and|plus|minus|times|over|by|of|ln|log|log10|log2|exp|sqrt|mean|per|from|to|x)|[-+*/÷·^(|=])\s*$|[0-9]:$",
    re.IGNORECASE,
)
_LONGEST = 160  # characters of a term


class Term(NamedTuple):
    """A computed number as written and, if all units are known, in litres, grams, moles and seconds with their powers.

    `step` is the rounding of the number as written. `units` are the units that occur in it. `readings`
    are the numbers of a term that has no sign but strokes.
    """

    plain: Decimal
    step: Decimal
    si: Decimal | None
    powers: tuple[int, ...]
    units: frozenset[str] = frozenset()
    operators: str = ""
    readings: tuple[Decimal, ...] = ()


class _NoTermError(Exception):
    """The text is no term."""


def check_calculations(transition: Transition) -> Findings:
    """L20: yield an error if a calculation written out in an observation or a property has another result."""
    symbols = _read_symbols(" ; ".join(seen.full_text[:1500] for seen in transition.observations))
    known = transition.input_texts
    for seen in transition.observations:
        yield from find_wrong_results(seen.path, seen.full_text[:1500], symbols)
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if leaf.value_text not in known:
                yield from find_wrong_results(view.name, leaf.value_text, {})


def find_wrong_results(subject: str, text: str, symbols: Mapping[str, Term]) -> Findings:
    """Yield an error for each sign of equality in a text between two terms that differ."""
    signs = list(_SIGN.finditer(text))[:30]
    bounds = [0, *(position for sign in signs for position in sign.span()), len(text)]
    parts = [text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    for index, sign in enumerate(signs):
        before = _BREAK.split(parts[index])[-1][-_LONGEST:]
        after = _BREAK.split(parts[index + 1])[0][:_LONGEST]
        left, right = _read_last(before, symbols), _read_first(after, symbols)
        if left is None or right is None or not left.operators + right.operators:
            continue
        # An arrow may also lead to a next step.
        is_arrow = sign[0] in ("->", "→", "=>") and not set("/(") & set(left.operators)
        if not is_arrow or left.units == right.units != frozenset():
            shown = f"{before.strip()[-60:]} {sign[0]} {after.strip()[:30]}"
            is_about = sign[0] == "≈" or "~" in after[:3]
            # "a x b = c / d = e": the result of the first calculation begins the second one.
            first = (
                _read_first(re.split(r"[-+*/x×(]\s", after.strip(), maxsplit=1)[0], symbols)
                if right.operators
                else None
            )
            if first is None or not left.operators or list(_compare(subject, left, first, shown, is_about))[1:]:
                yield from _compare(subject, left, right, shown, is_about)
    # "E1/2 = (Epa + Epc)/2 vs Ag: 0.108 V": the definition is in the description.
    description, separator, value = text.partition(": ")
    definition = _BREAK.split(_SIGN.split(description)[-1])[0]
    if separator and symbols and re.search(r"[-+/]", definition):
        left, right = _read_first(definition, symbols), _read_first(value[:_LONGEST], {})
        if left and right and "(" in left.operators and not right.operators and re.search(r"[A-Za-z]", definition):
            yield from _compare(subject, left, right, f"{definition.strip()[:60]}: {value[:30]}", is_about=False)


def _compare(subject: str, left: Term, right: Term, shown: str, is_about: bool) -> Findings:
    yield Decided("L20", quantity=True)
    if left.operators and right.operators:
        computed, stated = left, right
    else:
        computed, stated = (left, right) if left.operators else (right, left)
    possible = [(computed.plain, stated.plain)]
    if computed.readings and min(computed.readings) <= stated.plain <= max(computed.readings):
        # "24.11 / 24.25 -> 24.18" lists readings and their mean.
        return
    # Shares are written as numbers or in percent.
    possible += [(computed.plain * 100, stated.plain)] if "%" in stated.units and "%" not in computed.units else []
    is_known = computed.si is not None and stated.si is not None
    if is_known and computed.powers != stated.powers and stated.units:
        # A number of things has no unit of its own: "cells x volume" may be written in any way.
        is_known = False
    if is_known and computed.si is not None and stated.si is not None:
        possible.append((computed.si, stated.si))
    share = (_ABOUT if is_about else _SHARE) + (stated.step / abs(stated.plain) if stated.plain else ZERO)
    share += computed.step / abs(computed.plain) if computed.plain else ZERO
    # Prefixes of unknown units shift the number by thousands.
    own, other = computed.units - {"%"}, stated.units - {"%"}
    has_shift = not is_known and (len(own | other) > 1 or own != other)
    shifts = [Decimal(1000) ** power for power in range(-4, 5)] if has_shift else [ONE]
    if any("h" in term.units or "min" in term.units for term in (computed, stated)) and has_shift:
        shifts += [
            shift * factor
            for shift in shifts
            for factor in (Decimal(60), ONE / 60, Decimal(3600), ONE / 3600, Decimal(24))
        ]
    nearest = min(
        (
            abs(first * shift - second) / max(abs(first * shift), abs(second), Decimal("1e-30"))
            for first, second in possible
            for shift in shifts
        )
    )
    if nearest > share and computed.step < abs(computed.plain) * 2 + stated.step * 4:
        close = abs(computed.plain - stated.plain) <= computed.step * 2 + stated.step * 2
        if not close:
            expected, got = f"{computed.plain:.4g}", f"{stated.plain:.4g}"
            yield error_finding("L20", subject, expected, got, f"{shown}: the result is {expected}, not {got}")


def _read_symbols(text: str) -> dict[str, Term]:
    """Return the symbols to which a text gives one value: "Epa = 0.128 V". A symbol with two values has none."""
    found: dict[str, set[Term]] = {}
    for name, number, unit in _VALUE.findall(text):
        parsed = units.split_number(number)
        # Absorbances may be those of different path lengths.
        if parsed is not None and not re.fullmatch(r"(?:a|od)_?[0-9]{3}", name, re.IGNORECASE):
            term = _make_term(parsed[0], parsed[1], unit.strip())
            found.setdefault(_plain_symbol(name), set()).add(term)
    return {name: terms.pop() for name, terms in found.items() if len(terms) == 1}


def _plain_symbol(name: str) -> str:
    return re.sub(r"[_,']", "", name).lower()


def _make_term(number: Decimal, step: Decimal, unit: str) -> Term:
    # A number of one digit is more often exact than rounded.
    step = ZERO if len(number.normalize().as_tuple().digits) == 1 else step
    if not unit:
        # A bare whole number is a count or a factor.
        return Term(number, ZERO if number == number.to_integral_value() else step, number, _NONE)
    amount = units.parse_amount(f"1 {unit}")
    if amount is None or amount.dimension not in _SI:
        return Term(number, step, None, _NONE, frozenset({unit}))
    size, powers = _SI[amount.dimension]
    return Term(number, step, number * amount.value * Decimal(size), powers, frozenset({unit}))


def _iter_tokens(text: str, symbols: Mapping[str, Term]) -> Iterator[tuple[str, Term | None, int, int]]:
    """Yield (operator or "", term or None, start, end) of the tokens at the start of a text, up to the first other word."""
    position = 0
    while position < len(text) and (match := _TOKEN.match(text, position)):
        start = match.start(match.lastgroup or 0)
        if match["operator"]:
            yield (
                (
                    "x"
                    if match["operator"].lower() in "x×*·"
                    else "/"
                    if match["operator"] == "÷"
                    else match["operator"]
                ),
                None,
                start,
                match.end(),
            )
            position = match.end()
            continue
        if match["symbol"]:
            name = _plain_symbol(match["symbol"])
            if name not in symbols:
                return
            yield "", symbols[name], start, match.end()
            position = match.end()
            continue
        number = units.split_number(match["number"])
        if number is None:
            return
        position = match.end()
        unit = ""
        if (found := _UNIT.match(text, position)) and found["unit"].lower() not in (
            "x",
            "e",
            "and",
            "in",
            "to",
            "of",
            "with",
        ):
            unit, position = found["unit"], found.end()
        yield "", _make_term(number[0], number[1], unit), start, position


def _read_first(text: str, symbols: Mapping[str, Term]) -> Term | None:
    """Return the term at the start of a text, or None."""
    text = re.sub(r"^\s*(?:~|about|approx\.?|ca\.?)\s*", "", text)
    tokens = [(sign, term) for sign, term, _, _ in _iter_tokens(text, symbols)]
    return next((term for end in range(len(tokens), 0, -1) if (term := _evaluate(tokens[:end])) is not None), None)


def _read_last(text: str, symbols: Mapping[str, Term]) -> Term | None:
    """Return the longest term at the end of a text, or None if a word joins it to something else."""
    starts = [match.start() for match in re.finditer(r"(?<![\w.])[0-9(|-]|(?<![\w.])[A-Za-zΔ]", text)]
    for start in starts[:60]:
        tokens = list(_iter_tokens(text[start:], symbols))
        # Words may stand between the term and the sign, but only behind a symbol or unit: "0.5 (GFP+) =".
        if not tokens or text[start + tokens[-1][3] :].strip(" )%|~"):
            continue
        term = _evaluate([(sign, value) for sign, value, _, _ in tokens])
        if term is not None:
            # "A280 (10 mm) =": an amount in brackets explains the name.
            return (
                None
                if term.operators == "("
                or _JOINED.search(text[:start])
                or (text[start] == "(" and text[:start][-1:].isalpha())
                else term
            )
    return None


def _evaluate(tokens: list[tuple[str, Term | None]]) -> Term | None:
    """Return the value of a complete expression, or None if the tokens are none or look like a range, a date or a ratio of names."""
    try:
        term, end = _read_sum(tokens, 0)
    except (_NoTermError, ArithmeticError, RecursionError):
        return None
    if end != len(tokens):
        return None
    numbers = [value for _, value in tokens if value is not None]
    signs = "".join(sign for sign, _ in tokens)
    # 260/280 and 535/480 name wavelengths; 30-300 is a range.
    is_plain = all(value.plain == value.plain.to_integral_value() and not value.units for value in numbers)
    if (
        is_plain
        and len(numbers) == 2
        and (signs == "-" or (signs == "/" and all(200 <= value.plain <= 900 for value in numbers)))
    ):
        return None
    if is_plain and len(numbers) > 2 and set(signs) <= {"/", "-"}:
        return None
    return (
        term._replace(readings=tuple(value.plain for value in numbers))
        if set(signs) == {"/"} and _are_alike(numbers)
        else term
    )


def _are_alike(numbers: list[Term]) -> bool:
    """Return whether numbers may be readings of one quantity: at most one unit, and of similar size."""
    values = [abs(term.plain) for term in numbers]
    return len({unit for term in numbers for unit in term.units}) <= 1 and max(values) < 3 * min(values)


def _read_sum(tokens: list[tuple[str, Term | None]], start: int) -> tuple[Term, int]:
    term, position = _read_product(tokens, start)
    while position < len(tokens) and tokens[position][0] in ("+", "-"):
        sign = tokens[position][0]
        other, position = _read_product(tokens, position + 1)
        factor = 1 if sign == "+" else -1
        # "28.9 - 28.4 g" has its unit once.
        first, second = (
            (_take_unit(term, other), other)
            if other.units and not term.units
            else (term, _take_unit(other, term) if term.units and not other.units else other)
        )
        is_same = first.si is not None and second.si is not None and first.powers == second.powers
        term = Term(
            first.plain + factor * second.plain,
            first.step + second.step,
            first.si + factor * second.si if is_same and first.si is not None and second.si is not None else None,
            first.powers,
            first.units | second.units,
            first.operators + second.operators + sign,
        )
    return term, position


def _take_unit(term: Term, other: Term) -> Term:
    """Return a bare number with the unit of another term."""
    if term.operators or other.si is None or not other.plain:
        return term._replace(
            units=other.units,
            si=None if other.si is None or not other.plain else term.plain * other.si / other.plain,
            powers=other.powers,
        )
    return term._replace(units=other.units, si=term.plain * other.si / other.plain, powers=other.powers)


def _read_product(tokens: list[tuple[str, Term | None]], start: int) -> tuple[Term, int]:
    term, position = _read_factor(tokens, start)
    while position < len(tokens) and tokens[position][0] in ("x", "/"):
        sign = tokens[position][0]
        other, position = _read_factor(tokens, position + 1)
        if sign == "/" and not other.plain:
            raise _NoTermError
        relative = sum((value.step / abs(value.plain) for value in (term, other) if value.plain), ZERO)
        plain = term.plain * other.plain if sign == "x" else term.plain / other.plain
        si = None
        if term.si is not None and other.si is not None and (sign == "x" or other.si):
            si = term.si * other.si if sign == "x" else term.si / other.si
        powers = tuple(a + b if sign == "x" else a - b for a, b in zip(term.powers, other.powers, strict=True))
        term = Term(
            plain, abs(plain) * relative, si, powers, term.units | other.units, term.operators + other.operators + sign
        )
    return term, position


def _read_factor(tokens: list[tuple[str, Term | None]], start: int) -> tuple[Term, int]:
    if start >= len(tokens):
        raise _NoTermError
    sign, term = tokens[start]
    position = start + 1
    if sign == "-":
        term, position = _read_factor(tokens, position)
        term = term._replace(plain=-term.plain, si=None if term.si is None else -term.si)
    elif sign in ("(", "|"):
        closed = ")" if sign == "(" else "|"
        term, position = _read_sum(tokens, position)
        if position >= len(tokens) or tokens[position][0] != closed:
            raise _NoTermError
        term = term._replace(operators=term.operators + "(")
        if sign == "|":
            term = term._replace(plain=abs(term.plain), si=None if term.si is None else abs(term.si))
        position += 1
    if term is None:
        raise _NoTermError
    if position < len(tokens) and tokens[position][0] == "^":
        power, position = _read_factor(tokens, position + 1)
        if power.plain != power.plain.to_integral_value() or abs(power.plain) > 60 or term.units:
            raise _NoTermError
        value = term.plain ** int(power.plain)
        term = Term(value, ZERO, value, _NONE, frozenset(), term.operators + "^")
    return term, position
