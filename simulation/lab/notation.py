"""Write numbers in one notation for every source: "2e12", "2 x 10^12" and "2000000000000" become "2 × 10¹²".

Numbers from a million on and below 0.001 have a power of ten. Others have none, and a comma between thousands from five
digits on. The digits that were given stay: "7.40" remains "7.40", and "2.0e12" becomes "2.0 × 10¹²". Writing a result again
does not change it.

A *value* (of a property, a setting or an instrument) is usually a number with a unit. In a *text*, a number is rewritten only
if it certainly is one: it has an exponent, or a unit or what is counted follows it.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from simulation.lab.materials import CONDITION_NAMES
from simulation.lab.quantities import LEAST_WITH_EXPONENT, spell_unit

_MIN_POWER, _MIN_PLAIN = LEAST_WITH_EXPONENT, Decimal("0.001")
_MIN_GROUPED_DIGITS = 5  # years and pages have four
_FROM_SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_TO_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "\N{MINUS SIGN}"

# All repetitions are bounded, so that a hostile text cannot make a search slow.
_NUMBER = r"(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?:\.[0-9]{1,12})?)"
_EXPONENT = (
    r"(?:\s?[x×*·]\s?10(?:\s?(?:\^|\*\*)\s?\(?(?P<power>[-+−]?[0-9]{1,2})\)?|(?P<raised>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))"
    r"|[eE](?P<e>[-+−]?[0-9]{1,2}))"
)
_VALUE = re.compile(
    rf"(?P<sign>[-+−]?){_NUMBER}{_EXPONENT}?(?P<unit>\s?1?/[^\W\d]{{1,4}}|\s?[^0-9\s.,;:()=+−-](?:[^0-9,;:()=]|(?<=[^\W\d])[0-9]){{0,19}})?"
)
_COUNTED = (
    r"(?:cells?|events?|particles?|colonies|reads?|counts?|copies|molecules?|droplets?|beads?|spores?|nuclei|minicells"
    r"|TU|CFU|PFU|IU|RFU|RLU|vg|gc|bp|rpm|[x×] ?g|of(?= [0-9]))(?:/[^\W\d]{1,5})?"
)
_IN_TEXT = re.compile(
    rf"(?<![\w.,^#/:⁻⁰¹²³⁴⁵⁶⁷⁸⁹+−×*·-])(?P<sign>[-−]?){_NUMBER}{_EXPONENT}?"
    rf"(?P<unit>\s?(?:1?/|per )(?:[mµμu]?[lL]|well|cell|dish|cm²?)|\s?{_COUNTED})?(?![\w^⁻⁰¹²³⁴⁵⁶⁷⁸⁹]|[.,/-][\w^])"
)
_READINGS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,12})?(?:, [0-9]{1,18}(?:\.[0-9]{1,12})?){0,63}), ([^,]{1,60})")
_POWER_ALONE = re.compile(r"(?<![\w.^×*·-])(?<![x×*·] )10\s?\^\s?\(?([-+−]?[0-9]{1,2})\)?(?![\w^]|\.[0-9])")
_PER = re.compile(r"^\s?1?/")
# Before something like "3E10" that is no number: an antibody clone, a lot, a well.
_NAMED = re.compile(
    r"(?:clone|lot|batch|id|cat|catalog|catalogue|no|number|accession|well|plate|strain|line|mutant|code|serial)[.:#]?\s{0,2}\Z",
    re.IGNORECASE,
)
# Labels of numbers that identify something: their digits are no amount.
_IDENTIFIER = re.compile(
    r"\b(?:id|identifier|lot|batch|cat|catalog|catalogue|serial|code|accession|barcode|year|date|version|cas|rrid|ref|reference"
    r"|number(?! of\b)|seed)\b",
    re.IGNORECASE,
)
# Codes of conditions that cannot be anything else in a text. "4C" could name a well.
_CODE = re.compile(
    r"(?<![\w.])(?:room_temp|incubating_conditions|cell_culture_conditions|dry_ice|(?<!-)-(?:20|80|196)C)(?!\w)"
)
_ANY_CODE = re.compile(rf"{_CODE.pattern}|(?<![\w.-])4C(?!\w)")
_IN_SENTENCE = {**CONDITION_NAMES, "-196C": f"{_MINUS}196 °C", "dry_ice": "dry ice"}


class WrittenNumber(NamedTuple):
    """A number with its unit, as parsed from a value."""

    number: Decimal
    unit: str


@lru_cache(maxsize=16384)  # the materials of an item share most of their values, and pages show the same items
def write_value(value: str, label: str = "") -> str:
    """Return a value in the notation of all items. `label` is that of its row: the digits of a lot number stay."""
    match = _VALUE.fullmatch(value.strip())
    if match is not None and _is_quantity(match, label):
        unit = _write_unit(match["unit"] or "")
        sign = _MINUS if match["sign"] in ("-", _MINUS) else match["sign"]
        return f"{sign}{_write_digits(match)}{unit}"
    # The readings of replicates: "11370000, 11440000, 11310000 counts/s".
    if (readings := _READINGS.fullmatch(value.strip())) is not None and not _is_identifier(label):
        first = [write_value(part, label) for part in readings[1].split(", ")]
        return ", ".join([*first, write_value(readings[2], label)])
    return write_text(value)


@lru_cache(maxsize=16384)
def write_text(text: str) -> str:
    """Return a text with its certain numbers and the codes of conditions in the notation of all items."""
    # Most texts contain neither; a search for them is faster than three substitutions.
    if not any(sign.isdigit() for sign in text) and "_" not in text:
        return text
    written = _IN_TEXT.sub(_write_match, text)
    written = _POWER_ALONE.sub(lambda match: f"10{_raise(int(_read_sign(match[1])))}", written)
    return _CODE.sub(lambda match: _IN_SENTENCE[match[0]], written)


def write_explanation(text: str) -> str:
    """Return the explanation of an error, in which every code of a condition is one."""
    return _ANY_CODE.sub(lambda match: _IN_SENTENCE[match[0]], write_text(text))


def parse_number(value: str) -> WrittenNumber | None:
    """Return the number and the unit of a value; None if it is not exactly that."""
    match = _VALUE.fullmatch(value.strip())
    if match is None:
        return None
    number = _read_number(match)
    return WrittenNumber(
        -number if match["sign"] in ("-", _MINUS) else number, _write_unit(match["unit"] or "").strip()
    )


def write_number(number: Decimal) -> str:
    """Return a computed number, without zeros at its end."""
    text = f"{abs(number):f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{_MINUS if number < 0 else ''}{_format_number(Decimal(text), '.' in text)}"


def write_pairs(pairs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return labels with their values in the notation of all items. Labels stay: keys of marks contain them."""
    return [[label, write_value(value, label)] for label, value in pairs]


def _is_identifier(label: str) -> bool:
    return bool(label and _IDENTIFIER.search(label))


def _is_quantity(match: re.Match[str], label: str) -> bool:
    """Return whether a value that looks like a number with a unit is one."""
    if _has_leading_zeros(match) or _is_identifier(label):
        return False
    unit = match["unit"] or ""
    # With a space any word is what is counted; without one "12345A" is a catalog number, and "50mL" is not.
    return not unit or unit[0].isspace() or unit[0] in "/1%°" or (len(unit) > 1 and spell_unit(unit) != "")


def _has_leading_zeros(match: re.Match[str]) -> bool:
    return len(match["number"]) > 1 and match["number"][0] == "0" and match["number"][1] != "."


def _write_match(match: re.Match[str]) -> str:
    """Return one number of a text in our notation if it certainly is a number, else as it is."""
    unit = match["unit"] or ""
    if _has_leading_zeros(match):
        return match[0]
    if match["e"]:
        is_certain = "." in match["number"] or match["e"][0] in "+-−" or unit or "e" in match[0]
        if not is_certain or (not unit and _NAMED.search(match.string, max(0, match.start() - 14), match.start())):
            return match[0]
    elif not match["power"] and not match["raised"] and (not unit or "," in match["number"]):
        # A number with commas is written with them already, and could be the end of a list.
        return match[0]
    sign = _MINUS if match["sign"] else ""
    per = _PER.sub(" per ", unit)
    return f"{sign}{_write_digits(match)}{re.sub('[x×] ?g$', '× g', per)}"


def _write_digits(match: re.Match[str]) -> str:
    return _format_number(_read_number(match), "." in match["number"])


def _read_number(match: re.Match[str]) -> Decimal:
    exponent = match["power"] or match["raised"] or match["e"] or "0"
    return Decimal(match["number"].replace(",", "")).scaleb(int(_read_sign(exponent)))


def _read_sign(exponent: str) -> str:
    return exponent.translate(_FROM_SUPERSCRIPT)


def _format_number(number: Decimal, has_decimals: bool) -> str:
    """Return a number of at least 0. With decimals all its digits are significant, without them no zeros at its end."""
    # Without a power of ten "2.0e4" would be "20,000", from which nobody could tell that the 0 was measured.
    last_place = number.as_tuple().exponent
    loses_digits = has_decimals and isinstance(last_place, int) and last_place > 0 and number.as_tuple().digits[-1] == 0
    if number == 0 or (_MIN_PLAIN <= number < _MIN_POWER and not loses_digits):
        whole, point, decimals = f"{number:f}".partition(".")
        return f"{int(whole):,}{point}{decimals}" if len(whole) >= _MIN_GROUPED_DIGITS else f"{whole}{point}{decimals}"
    digits = number if has_decimals else number.normalize()
    power = digits.adjusted()
    return f"{digits.scaleb(-power):f} × 10{_raise(power)}"


def _raise(power: int) -> str:
    return str(power).translate(_TO_SUPERSCRIPT)


def _write_unit(unit: str) -> str:
    """Return a unit in its standard spelling with the space before it; "" for none."""
    text = unit.strip()
    if text in ("", "°"):
        return text
    if text.startswith(("/", "1/")):
        return f" per {spell_unit(text.rpartition('/')[2]) or text.rpartition('/')[2]}"
    # "2 days" stays: the standard spelling of this unit is a word, which has a plural.
    standard = text if text in ("days", "weeks") else spell_unit(text) or text
    return f" {'× g' if standard == 'x g' else standard}"
