"""L20: calculations that a record writes out with numbers: "12 x 50 µL = 600 µL", "28.99 - 28.41 = 0.58 g", "18 / 24 = 75 %".

Sums and differences are compared in the units that they have. Products and quotients are compared without units, so a
factor that units may explain (a power of ten, minutes in an hour) is accepted.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, compare
from simulation.checker.reading import units
from simulation.checker.reading.transition import Transition

_MAX_TEXT = 2000  # characters of one record; bounds the time on hostile input
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?"
_UNIT = r"(?:\s?(?!x\b)[A-Za-zµ%°][A-Za-zµ%°²³]{0,10}(?:/[A-Za-zµ]{1,3}[23²³]?)?)?"
_TERM = rf"{_NUMBER}{_UNIT}"
_OPERATOR = r"(?:\s?[x×*·÷+]\s?|\s?/\s?(?=[0-9])|\s[-–−]\s)"
# Not behind a bracket, an operator or a letter: the calculation would begin earlier.
_EQUATION = re.compile(
    rf"(?<![\w.,^(/*×·+)-])(?<![-–−+x×*/·(]\s)(?P<left>{_TERM}(?:{_OPERATOR}{_TERM}){{1,6}})\s?[=≈]\s?(?P<result>{_NUMBER})(?P<unit>{_UNIT})(?!\s?[x×*·/÷+^]\s?[0-9(]|\s[-–−]\s[0-9(]|[0-9.]*[0-9])"
)
_PIECES = re.compile(rf"(?P<operator>{_OPERATOR})?(?P<number>{_NUMBER})(?P<unit>{_UNIT})")
_TIME = re.compile(r"[0-9]\s?(?:s|sec|seconds?|min|minutes?|h|hours?|d|days?|rpm)\b")
_RELATIVE = Decimal("0.012")
# Factors between units of time apart from powers of ten.
_SCALES = tuple(Decimal(text) for text in ("1", "6", "3.6", "2.4", "1.44", "8.64"))


def check_equations(transition: Transition) -> Findings:
    """L20: yield an error if a calculation that the step writes out does not give the result that it states."""
    for subject, text in _iter_texts(transition):
        for match in _EQUATION.finditer(text) if "=" in text or "≈" in text else ():
            yield from _check_equation(subject, match)


def _iter_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (subject, text) of the observations and of the properties that this step wrote."""
    for seen in transition.observations:
        yield seen.path, seen.full_text[:_MAX_TEXT]
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if leaf.value_text and leaf.value_text not in transition.input_texts:
                yield view.name, leaf.value_text


def _check_equation(subject: str, match: re.Match[str]) -> Findings:
    pieces = list(_PIECES.finditer(match["left"]))
    signs = [(piece["operator"] or "+").strip() for piece in pieces]
    # " / " also separates the entries of a line; a quotient has two bare numbers or two of one unit.
    spaced = [index for index, piece in enumerate(pieces) if piece["operator"] == " / "]
    if any(pieces[index - 1]["unit"].strip() != pieces[index]["unit"].strip() for index in spaced):
        return
    numbers = [Decimal(piece["number"]) for piece in pieces]
    result = Decimal(match["result"])
    if max(*numbers, result) > 10**15 or result <= 0:
        return
    step = Decimal(10) ** -len(match["result"].partition("e")[0].partition(".")[2])
    if set(signs) <= {"+", "-", "–", "−"}:
        total = _add(pieces, signs, match)
        if total is None:
            return
        expected, stated, smallest = total
        rounding = min(smallest * len(pieces), abs(stated) / 50) + abs(stated) / 200
    elif "-" in signs[1:] or "+" in signs[1:]:
        return  # mixed calculations need the brackets that a record leaves out
    else:
        expected, stated = numbers[0], result
        for sign, number in zip(signs[1:], numbers[1:], strict=True):
            if sign in "/÷" and number == 0:
                return
            expected = expected / number if sign in "/÷" else expected * number
        if expected <= 0:
            return
        expected = _scale(expected, stated, _SCALES if _TIME.search(match[0]) else _SCALES[:1])
        rounding = step + abs(expected) * _RELATIVE * len(pieces)
    shown = f"{expected:.4g}", f"{stated:.4g}"
    text = f"{match['left']} is {shown[0]}, not {shown[1]}"
    yield from compare("L20", subject, expected, stated, "", text, rounding, rounding, shown=shown)


def _add(
    pieces: list[re.Match[str]], signs: list[str], match: re.Match[str]
) -> tuple[Decimal, Decimal, Decimal] | None:
    """Return (sum, stated result, rounding) in one unit, or None if the units differ in dimension."""
    stated_unit = match["unit"].strip()
    last_unit = next((piece["unit"].strip() for piece in reversed(pieces) if piece["unit"].strip()), "")
    amounts = []
    for number, unit in [*((p["number"], p["unit"].strip()) for p in pieces), (match["result"], stated_unit)]:
        amounts.append(units.parse_amount(f"{number} {unit or stated_unit or last_unit}"))
    if all(amount is None for amount in amounts) and len({p["unit"].strip() for p in pieces} | {stated_unit}) == 1:
        amounts = [units.parse_amount(f"{number} %") for number in (*(p["number"] for p in pieces), match["result"])]
    known = [amount for amount in amounts if amount is not None]
    if len(known) != len(amounts) or len({amount.dimension for amount in known}) != 1:
        return None
    total = sum((a.value if s == "+" else -a.value for s, a in zip(signs, known[:-1], strict=True)), Decimal(0))
    return total, known[-1].value, max(amount.step for amount in known) * 2


def _scale(expected: Decimal, stated: Decimal, scales: tuple[Decimal, ...]) -> Decimal:
    """Return a computed number times the factor between units that brings it nearest to the stated one."""
    possible = []
    for scale in (*scales, *(1 / scale for scale in scales)):
        value = expected * scale
        value = value.scaleb(stated.adjusted() - value.adjusted())
        possible += [value, value * 10, value / 10]
    return min(possible, key=lambda value: abs(value - stated))
