"""Rewrite the numbers of a foreign transition in one spelling before anything is read.

Decimal commas, grouped thousands, powers of ten, negative exponents of units, numbers in words, LaTeX and HTML become what
`simulation.checker.reading.units` parses. Whether a comma separates decimals is decided for the whole transition,
because "12,004 g" alone could be twelve grams or twelve kilograms.
"""

import re
from typing import Any

# LaTeX and HTML of models' replies: command -> plain text.
_LATEX = (
    (re.compile(r"\\(?:d|t)?frac\{([^{}]{1,40})\}\{([^{}]{1,40})\}"), r"(\1)/(\2)"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm|left|right)(?![A-Za-z])\s?"), ""),
    (re.compile(r"\\times(?![A-Za-z])|\\cdot(?![A-Za-z])"), " x "), (re.compile(r"\\Delta(?![A-Za-z])\s?"), "Δ"), (re.compile(r"\\m(?:u|icro)(?![A-Za-z])\s?"), "µ"),
    (re.compile(r"\\(?:long)?(?:right|Right)arrow(?![A-Za-z])|\\to(?![A-Za-z])"), " -> "), (re.compile(r"\\approx(?![A-Za-z])|\\sim(?![A-Za-z])"), "≈"),
    (re.compile(r"\\pm(?![A-Za-z])"), "±"), (re.compile(r"\^?\{?\\circ(?![A-Za-z])\s?\}?|\\degree(?![A-Za-z])\s?"), "°"), (re.compile(r"\\(?:[ ,;:!]|quad(?![A-Za-z])|~)"), " "),
    (re.compile(r"\\([%#&_$])"), r"\1"), (re.compile(r"[\^_]\{([^{}]{1,20})\}"), lambda match: match[0][0] + match[1]),
    (re.compile(r"[{}$]"), ""), (re.compile(r" {2,}"), " "),
)  # fmt: skip
_HTML = (
    (re.compile(r"<sup>([^<>]{1,8})</sup>", re.IGNORECASE), r"^\1"), (re.compile(r"<sub>([^<>]{1,8})</sub>", re.IGNORECASE), r"_\1"),
    (re.compile(r"&times;"), "x"), (re.compile(r"&micro;|&mu;"), "µ"), (re.compile(r"&deg;"), "°"), (re.compile(r"&nbsp;"), " "),
    (re.compile(r"</?(?:b|i|br|p|strong|em)\s?/?>", re.IGNORECASE), " "),
)  # fmt: skip
_IS_LATEX = re.compile(r"\\[A-Za-z%,]|\$[^$]{1,80}\$|[_^]\{")
_IS_HTML = re.compile(r"<[/a-zA-Z]{1,7}\s?/?>|&[a-z]{2,6};")
_MAX_DEPTH = 12  # deeper JSON is left as it is; properties are read to a depth of 8
_MAX_TEXT = 4000  # characters; longer texts are left as they are, which limits the time of the regular expressions
_PLAIN = str.maketrans(
    {
        **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),
        "μ": "µ", "−": "-", "‑": "-", "×": "x", "∙": "·", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "∆": "Δ", "：": ":",
    }
)  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile(r"(?<=10)[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2}")
# "ng µl-1" and "mg mL⁻¹" as ng/µl and mg/mL. Not "10 mL-1": a unit must precede.
_PER = re.compile(r"(?<=[A-Za-zµ%])[ ·]?\s?(ml|mL|µl|µL|ul|uL|l|L|mol|min|s|h|cm|kg|g)(?:\^?-1|⁻¹)(?![0-9A-Za-z])")
_POWER = re.compile(r"(?<![\w.])([0-9]{1,4}(?:\.[0-9]{1,4})?)\s?[x*·]\s?10(?:\^|\*\*)?([+-]?[0-9]{1,2})(?![0-9.])")
_DECIMAL_COMMA = re.compile(
    r"(?<![\w.,])[0-9]{1,9},(?:[0-9]{1,2}|[0-9]{4,9})(?![0-9]|,[0-9])|(?<![\w.,])0,[0-9]{1,9}(?![0-9]|,[0-9])"
)
_MIXED_COMMA = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]{1,9}(?![0-9]|,[0-9])")
_DECIMAL_POINT = re.compile(r"(?<![\w.,])[0-9]{1,9}\.[0-9]{1,9}(?![0-9.,])")
_ANY_COMMA = re.compile(r"(?<![\w.,])([0-9]{1,9}),([0-9]{1,9})(?![0-9]|,[0-9])")
_GROUPED = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
_ZERO_COMMA = re.compile(r"(?<![\w.,])0,([0-9]{1,9})(?![0-9]|,[0-9])")
# "1.500 µL" and "12.000 x g" beside decimal commas: points group thousands.
_POINT_GROUPED = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?![0-9]|[.,][0-9])")
_SPACED = re.compile(r"(?<![\w.,])(?<![0-9]\s)[1-9][0-9]{0,2}(?: [0-9]{3})+(?![\w,]|\.[0-9]| ?[0-9])")
# "6e5 mL⁻¹" and "mol dm-3".
_PER_ALONE = re.compile(r"(?<=[0-9])\s?(ml|mL|µl|µL|l|L)(?:\^-1|⁻¹)(?![0-9A-Za-z])")
# "3.8e7 1/mL" and "5e8 por ml".
_ONE_PER = re.compile(r"(?<=[0-9])\s1/(?=[mµun]?[lL]\b)")
_PER_WORD = re.compile(r"(?<=[0-9A-Za-z])\s(?:por|pro|par|je)\s(?=[mµun]?[lL]\b)")
_PER_CUBE = re.compile(r"(?<=[A-Za-zµ0-9])\s?[·/]?\s?(dm|cm)(?:\^?-3|⁻³)(?![0-9A-Za-z])")
_MILLIONS = re.compile(
    r"(?<![\w.])([0-9]{1,4}(?:\.[0-9]{1,3})?)\s?(?:Mio\b\.?|Millionen\b|[Mm]illions?\b|millones\b|M(?=\s?(?:cells|/mL)))\s?(?:de |of )?"
)
# "[612,614]": commas between the numbers of a list.
_LISTED = re.compile(r"\[[0-9.eE+, -]{3,600}\]")
_FRACTIONS = {"½": ".5", "¼": ".25", "¾": ".75"}
_MIXED_FRACTION = re.compile(r"([0-9]{1,3})?([½¼¾])(?=\s?[A-Za-zµ])")
_PERCENT = re.compile(r"\bper ?cent\b|\bpct\b", re.IGNORECASE)
# Units of time in other languages, and durations of two parts: "1 h 25 min", "1h30", "2 min 30 s".
_FOREIGN_TIMES = (
    (re.compile(r"(?<=[0-9])\s?(?:Std\.?|Stunden?|heures?|horas?|ore)(?![\w])", re.IGNORECASE), " h"),
    (re.compile(r"(?<=[0-9])\s?(?:mn|Minuten|minutos|minuti)(?![\w])", re.IGNORECASE), " min"),
    (re.compile(r"(?<=[0-9])\s?(?:Sekunden|secondes?|segundos|secondi)(?![\w])", re.IGNORECASE), " s"),
    (re.compile(r"(?<=[0-9])\s?(?:Tage?n?|jours?|d[ií]as?|giorni)(?![\w])", re.IGNORECASE), " days"),
)
_HOURS_MINUTES = re.compile(
    r"(?<![\w.:])([0-9]{1,3})\s?(?:h|hr|hrs|hours?)\s?(?:and )?([0-5]?[0-9])(?:\s?(?:min|m|minutes?))(?![\w/])|(?<![\w.:])([0-9]{1,2})h([0-5][0-9])(?![\w:])"
)
_MINUTES_SECONDS = re.compile(
    r"(?<![\w.:])([0-9]{1,3})\s?(?:min|minutes?)\s?(?:and )?([0-5]?[0-9])\s?(?:s|sec|seconds?)(?![\w/])"
)
_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(_UNITS.split())}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS.split(), 2)}
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
# "sixty-three (63)": the number in brackets is the same.
_WORD_AND_NUMBER = re.compile(
    rf"\b(?:{_WORD})(?:[- ](?:{_WORD}|point|hundred|and|thousand))*\s?\((-?[0-9][0-9.]*)\)", re.IGNORECASE
)
_UNIT_WORDS = r"(?:milli|micro|nano|kilo|pico)?(?:lit(?:re|er)s?|gram(?:me)?s?|molar|moles?|met(?:re|er)s?)"
_UNIT_AFTER = (
    r"(?=\s(?:%|mL|ml|µL|µl|uL|ul|L|mg|µg|ug|ng|g|kg|mM|µM|uM|nM|M|h|min|s|days?|hours?|minutes?|seconds?|"
    rf"{_UNIT_WORDS})(?![\w/]))"
)
# "half a millilitre", "a tenth of a gram".
_PARTS = {"half": "0.5", "third": "0.3333", "quarter": "0.25", "fifth": "0.2", "tenth": "0.1", "hundredth": "0.01"}
_PART_OF_UNIT = re.compile(
    rf"\b(?:an? |one )?({'|'.join(_PARTS)})(?: of)? an? (?=(?:mL|µL|L|mg|g|{_UNIT_WORDS})\b)", re.IGNORECASE
)
_ONE_UNIT = re.compile(rf"\ban? (?=(?:{_UNIT_WORDS})\b)", re.IGNORECASE)
_NUMBER_WORDS = re.compile(
    rf"\b(minus )?((?:{_WORD})(?:[- ](?:and )?(?:{_WORD}|hundred|thousand)){{0,6}})((?: point)(?: (?:{_WORD}))+)?(?:{_UNIT_AFTER}|$)",
    re.IGNORECASE,
)


def normalise_transition(data: Any) -> Any:
    """Return a transition with all its numbers in one spelling."""
    if not isinstance(data, dict):
        return data
    # Parameters have decimal points in every language, so they are no evidence.
    described = [data.get("input_materials"), data.get("outcome")]
    texts = [text for part in described for text in _list_texts(part)]
    has_commas = _has_decimal_commas(texts)
    # One point that does not group thousands is evidence that none does.
    points = [number for text in texts if has_commas for number in _DECIMAL_POINT.findall(text)]
    if points and all(_POINT_GROUPED.fullmatch(number) for number in points):
        data = {
            key: _join_groups(value) if key in ("input_materials", "outcome") else value for key, value in data.items()
        }
    parts = ("input_materials", "action", "outcome")
    return {key: _rewrite(value, has_commas, 0) if key in parts else value for key, value in data.items()}


def _join_groups(value: Any, depth: int = 0) -> Any:
    """Return a value with texts in which points no longer group thousands."""
    if isinstance(value, str):
        return _POINT_GROUPED.sub(lambda match: match[0].replace(".", ""), value) if len(value) <= _MAX_TEXT else value
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {key: _join_groups(inner, depth + 1) for key, inner in value.items()}
    return [_join_groups(inner, depth + 1) for inner in value] if isinstance(value, list) else value


def _list_texts(data: Any, depth: int = 0) -> list[str]:
    if isinstance(data, str):
        return [_space_lists(data[:_MAX_TEXT])]
    if depth > _MAX_DEPTH or not isinstance(data, dict | list):
        return []
    values = [*data, *data.values()] if isinstance(data, dict) else data
    return [text for value in values[:2000] for text in _list_texts(value, depth + 1)]


def _has_decimal_commas(texts: list[str]) -> bool:
    """Return whether commas separate decimals. A number like "12,004" is no evidence for either."""
    commas = sum(len(pattern.findall(text)) for text in texts for pattern in (_DECIMAL_COMMA, _MIXED_COMMA))
    return commas > 0 and commas >= sum(len(_DECIMAL_POINT.findall(text)) for text in texts)


def _space_lists(text: str) -> str:
    return _LISTED.sub(lambda match: re.sub(r"\s*,\s*", "; ", match[0]), text) if "[" in text else text


def _rewrite(value: Any, has_commas: bool, depth: int) -> Any:
    if isinstance(value, str):
        return normalise_numbers(value, has_commas)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            normalise_numbers(key, has_commas) if isinstance(key, str) else key: _rewrite(inner, has_commas, depth + 1)
            for key, inner in value.items()
        }
    return [_rewrite(inner, has_commas, depth + 1) for inner in value] if isinstance(value, list) else value


def normalise_numbers(text: str, has_commas: bool = False) -> str:
    """Return a text with its numbers spelled as the parser of units expects."""
    if len(text) > _MAX_TEXT or not text:
        return text
    for is_markup, rules in ((_IS_LATEX, _LATEX), (_IS_HTML, _HTML)):
        if is_markup.search(text):
            for pattern, plain in rules:
                text = pattern.sub(plain, text)
    # Most texts are plain words, and the regular expressions cost more than this look.
    if text.isascii() and not any(c.isdigit() for c in text):
        return _replace_words(_PERCENT.sub("%", text))
    text = _space_lists(text.translate(_PLAIN))
    text = _PER_ALONE.sub(r" 1/\1", _PER.sub(r"/\1", text))
    text = _PER_WORD.sub("/", _ONE_PER.sub(" /", text))
    text = _PER_CUBE.sub(lambda match: "/L" if match[1] == "dm" else "/mL", text)
    text = _MIXED_FRACTION.sub(lambda match: (match[1] or "0") + _FRACTIONS[match[2]], text)
    text = _SUPERSCRIPT.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), text).translate(_SUPERSCRIPTS)
    text = _PERCENT.sub("%", text)
    if has_commas:
        text = _MIXED_COMMA.sub(lambda match: match[0].replace(".", "").replace(",", "."), text)
        text = _ANY_COMMA.sub(r"\1.\2", text)
    else:
        text = _GROUPED.sub(lambda match: match[0].replace(",", ""), text)
    # No group of thousands begins with zero, so "0,081" has one meaning.
    text = _ZERO_COMMA.sub(r"0.\1", text)
    text = _SPACED.sub(lambda match: match[0].replace(" ", ""), text)
    text = _MILLIONS.sub(r"\1e6 ", _POWER.sub(r"\1e\2", text)).replace("**", "")
    for pattern, unit in _FOREIGN_TIMES:
        text = pattern.sub(unit, text)
    text = _HOURS_MINUTES.sub(lambda m: f"{60 * int(m[1] or m[3]) + int(m[2] or m[4])} min", text)
    text = _MINUTES_SECONDS.sub(lambda m: f"{60 * int(m[1]) + int(m[2])} s", text)
    return _replace_words(text)


def _replace_words(text: str) -> str:
    """Return a text in which numbers in words are digits if a unit follows, a bracket repeats them, or nothing follows."""
    text = _PART_OF_UNIT.sub(lambda match: f"{_PARTS[match[1].lower()]} ", text)
    text = _ONE_UNIT.sub("1 ", text)
    return _NUMBER_WORDS.sub(_format_words, _WORD_AND_NUMBER.sub(r"\1", text))


def _format_words(match: re.Match[str]) -> str:
    # "portion two" and "lane one" are names; a number in words is a value only alone or before a unit.
    if match.end() == len(match.string) and match.start() > 0:
        return match[0]
    total, current = 0, 0
    for word in re.split(r"[- ]", match[2].lower()):
        if word in ("hundred", "thousand"):
            current *= 100 if word == "hundred" else 1000
            total, current = (total + current, 0) if word == "thousand" else (total, current)
        elif word != "and":
            # "one two mL" are two numbers, "twenty-one" is one.
            if current % 10 or (current % 100 and _WORDS[word] > 9):
                return match[0]
            current += _WORDS[word]
    number = total + current
    decimals = "".join(str(_WORDS[word]) for word in (match[3] or "").lower().replace(" point", "").split())
    return f"{'-' if match[1] else ''}{number}{'.' + decimals if decimals else ''}"
