"""Every stated quantity of a material or an observation as a claim: a number, its unit, and the words that name it.

Claims are read from properties, nested or not, from tables in text and from sentences: "live 224; dead 16; total 240"
has three. Relations between claims about one subject are checked by `simulation.checker.arithmetic`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import leaves, lexicon, units
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition

_MAX_CLAIMS = 300  # of one material or observation; bounds the time on hostile input
# Not part of a name ("RB-4", "A260"), of a power ("10^-5"), of a ratio or of a range ("30-300").
_NUMBER = re.compile(
    r"(?<![\w./^])(?<![\w^)][-–])(?:(?<![0-9)]\s)[+-])?[0-9]{1,15}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2})?(?![0-9]|\.[0-9]|\s?[–-]\s?[0-9]|\^|(?-i:-[A-Z]))",
    re.IGNORECASE,
)
# Marks that end what a label refers to. A comma only before a space: "1,3-diol" is one word.
# "crucible with precipitate" and "boat and powder" are one thing, which is weighed as a whole.
_VESSELS = "crucible boat beaker vial tube dish flask bottle vessel pan cup Tiegel creuset Schale"
_NO_VESSEL = "".join(f"(?<!{name})" for name in _VESSELS.split())
_CLAUSE = re.compile(
    rf"[;\n•()]|,\s|\.\s(?=[A-Z])|\s/\s(?=[A-Za-z])|\s(?:while|then|but)\s|{_NO_VESSEL}\s(?:and|with)\s|\s[–—]\s"
)
_BRACKET = re.compile(r"\([^()]{0,200}\)")
_LAST_WORDS = re.compile(r"[;,]\s|\.\s|(?<![\w/])[0-9][0-9.,]*")
# "3 x 10 mL" and "2 in the well" have no unit, "9400 x g" has.
_NO_UNIT = re.compile(r"\s*(?:x (?!g\b)|in |at )")
_APPROXIMATE = re.compile(
    r"~|≈|\b(?:about|approx\w*|ca|circa|roughly|nearly|around|some|almost|estimated|expected|nominal\w*)\b",
    re.IGNORECASE,
)
# "m(gross) = 1 g" and "loss on drying (H2O) = 1 g": a bracket without a digit of its own in front of a value is part of its name.
_NAMED_BRACKET = re.compile(r"\(((?:[^()0-9;]|(?<=[A-Za-z)])[0-9]){1,40})\)(?=[^()0-9;,.]{0,12}\s?[=:≈])")
# "m(Cl)" anywhere: a symbol of a quantity in front of the bracket.
_SYMBOL_BRACKET = re.compile(r"(?<![\w])([mcwVnMρβφ])\(([A-Za-z][^()0-9;,]{0,20}[0-9]?)\)")
_MARKUP = re.compile(r"\*\*|__|^\s*[-*]\s+", re.MULTILINE)
_UNCERTAINTY = re.compile(r"\s?(?:±|\+/-)\s?[0-9]{1,9}(?:\.[0-9]{1,9})?")
# "n_total=48 n_wt=11": a word with an equals sign names the number behind it.
_NEXT_NAME = re.compile(r"\s[\w.%/+-]+\s?=\s*$")
_PURITY = re.compile(r"(?<![\w.])260\s?/\s?(280|230)\b")  # a ratio of absorbances, whose name is two numbers
_ARROW = re.compile(r"→|->|=>")
_DASH = re.compile(r"^[+-]+\s*|\s[+-]+$")
_PERCENT_KEY = re.compile(r"(?:^|[_\s])(?:percent(?:age)?|pct|prozent|pourcent)(?:$|[_\s])|%", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[~≈]?\s?[0-9]{1,12}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?")
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z])|\n")
_RULE = re.compile(r"^[\s|:-]+$")


@dataclass(frozen=True)
class Claim:
    """One stated quantity: `value` in the base unit of its dimension, or a bare number with the dimension "".

    `label` has the words around the number in lower case, `step` is half a unit of the last digit.
    """

    label: str
    value: Decimal
    dimension: str
    step: Decimal
    text: str
    is_approximate: bool = False
    context: str = ""  # the description of the observation whose value it is
    group: str = ""  # the row of a table or the sentence in which it stands

    @cached_property
    def relative_step(self) -> Decimal:
        return self.step / abs(self.value) if self.value else Decimal(0)

    @cached_property
    def own_label(self) -> str:
        """Return the label without the description of the observation, which announces all of its numbers."""
        return self.label.removeprefix(self.context)

    def matches(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.label) is not None


def read_text(text: str, label: str = "") -> list[Claim]:
    """Return the claims of a text. `label` names its first number, and numbers that no word of the text names."""
    text = _PURITY.sub(r"A260/A\1", _arrange_rows(text))
    text = _SYMBOL_BRACKET.sub(r"\1 \2", text[:2000])
    text = _NAMED_BRACKET.sub(r" \1 ", _UNCERTAINTY.sub("", _MARKUP.sub("", text[:2000])))
    text = _unify_table(text)
    if (text.count("|") >= 2 and "\n" in text) or " | " in text:
        return [
            replace(claim, group=row) if row else claim
            for row_label, cell, row in _iter_cells(text)
            for claim in _read_prose(cell, row_label or label)
        ]
    return _read_prose(text, label)


def _arrange_rows(text: str) -> str:
    """Return a text in which rows of comma or tab separated values are a table, and " | " in one line separates entries."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    if len(lines) < 2:
        return text.replace(" | ", "; ")
    for separator in ("\t", ";", ","):
        counts = {line.count(separator) for line in lines}
        is_header = not _NUMBER.search(lines[0]) and not re.search(rf"{separator} ", text)
        if len(counts) == 1 and counts != {0} and is_header and "|" not in text:
            return "\n".join(line.replace(separator, " | ") for line in lines)
    return text


def _unify_table(text: str) -> str:
    """Return a table with semicolons, tabs or commas between its cells as one with strokes, other texts unchanged."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for separator in ("\t", ";", ","):
        counts = {line.count(separator) for line in lines}
        if len(lines) < 2 or len(counts) != 1 or counts == {0} or "|" in text:
            continue
        header = lines[0].split(separator)
        has_numbers = all(units.split_number(cell) for line in lines[1:] for cell in line.split(separator)[-1:])
        if not any(units.split_number(cell) for cell in header[1:]) and has_numbers and all(map(str.strip, header)):
            return "\n".join(" | ".join(cell.strip() for cell in line.split(separator)) for line in lines)
    return text


def _iter_cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (label, text, row) of every cell of the tables in a text, and of the lines that are in no table."""
    header: list[str] = []
    for line in text.splitlines()[:60]:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 2:
            header = []
            yield "", line, ""
        elif _RULE.fullmatch(line):
            continue
        elif not header:
            header = cells
            # A table may have no header: its first row has a number.
            if (
                any(units.split_number(cell) for cell in cells[1:])
                or sum(map(bool, map(_NUMBER.search, cells[1:]))) == len(cells) - 1
            ):
                header = [""] * len(cells)
                yield from ((cells[0], cell, line) for cell in cells[1:])
        else:
            names = [*header[1:], *[""] * len(cells)]
            for name, cell in zip(names, cells[1:], strict=False):
                # The unit of a column may stand in its heading only.
                unit = leaves.find_unit_in_key(name) or (name if units.find_dimension(name) and len(name) > 1 else "")
                unit = unit if _PLAIN_NUMBER.fullmatch(cell) else ""
                unit = "%" if not unit and _PLAIN_NUMBER.fullmatch(cell) and _PERCENT_KEY.search(name) else unit
                yield f"{cells[0]} {name}".strip(), f"{cell} {unit}".strip(), line


def _read_prose(text: str, label: str) -> list[Claim]:
    claims: list[Claim] = []
    ends = [match.start() for match in _SENTENCE_END.finditer(text)]
    for start, clause, outer in _iter_clauses(text):
        first, last = (
            max((e for e in ends if e < start), default=0),
            min((e for e in ends if e >= start), default=len(text)),
        )
        sentence = text[first:last].strip(". \n")
        matches = list(_NUMBER.finditer(clause))
        for index, match in enumerate(matches[:40]):
            end = matches[index + 1].start() if index + 1 < len(matches) else len(clause)
            previous = matches[index - 1].end() if index else 0
            before, after = clause[previous : match.start()], clause[match.end() : end]
            # "m = gross - tare = 0.46 g": the result of a calculation has the name at its start.
            if before.strip() in ("=", "≈") and "=" in clause[:previous]:
                before = f"{clause[: clause.index('=')].rpartition(': ')[2]} = "
            is_first = start == 0 and index == 0
            # "Live (7-AAD neg.) 36053": the name is in front of the bracket.
            before = f"{outer} " if index == 0 and outer and not before.strip(" :=") else before
            claims.append(replace(_make_claim(match[0], before, after, label, is_first), group=sentence))
    return claims[:_MAX_CLAIMS]


def _iter_clauses(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (start, clause, name in front of the bracket that ends before it) of every clause."""
    start, outer, opened = 0, "", ""
    for match in _CLAUSE.finditer(text):
        clause = text[start : match.start()]
        yield start, clause, outer
        outer = opened if match[0] == ")" else ""
        opened = clause if match[0] == "(" and not _NUMBER.search(clause) else ""
        start = match.end()
    yield start, text[start:], outer


def _make_claim(number: str, before: str, after: str, label: str, is_first: bool) -> Claim:
    amount = units.parse_amount(f"{number}{after[:40]}" if after[:1] in " %°/" else f"{number} {after[:40]}")
    value, step, _ = units.split_number(number) or (Decimal(0), Decimal(0), "")
    dimension = ""
    if amount is not None and not _NO_UNIT.match(after):
        value, step, dimension = amount.value, amount.step, amount.dimension
    # A word before the number names it; "10000 gated cells" has its name behind it.
    # "vs Ag/AgCl: Epa 0.428 V": what stands behind the colon is the name, if anything does.
    behind_colon = before.rpartition(": ")[2]
    named = (behind_colon if re.search("[A-Za-zΔ]", behind_colon) else before).strip(" ~≈=:<>→*")
    # "GFP-: 1715" keeps its sign, "live - 1715" has a dash.
    named = _DASH.sub("", named)
    # "% of all signal: 71.0" has its unit in front.
    dimension = dimension or ("ratio" if "%" in named else "")
    named = named if re.search(r"[A-Za-zΔ%]", named) else after
    is_approximate = bool(_APPROXIMATE.search(before) or (is_first and _APPROXIMATE.search(label[-30:])))
    # "30000 -> R0 = 1.5": what stands behind an arrow names the next number.
    behind = _NEXT_NAME.sub("", _ARROW.split(after)[0]) if named is not after else ""
    full_label = f"{label if is_first else ''} {named} {behind}"
    if not re.search(r"[A-Za-zΔ]", full_label):
        full_label = label
    # A column of a table may have its unit in the heading: "area %".
    dimension = dimension or ("ratio" if is_first and label.rstrip().endswith("%") else "")
    return Claim(
        _clean_label(full_label), value, dimension, step, f"{before[-20:]}{number}{after[:20]}".strip(), is_approximate
    )


def _clean_label(label: str) -> str:
    return " ".join(lexicon.translate_label(label.replace("_", " ")).split())


def read_value(value: Any, label: str = "") -> list[Claim]:
    """Return the claims of a property or of the value of an observation, which may be nested."""
    if isinstance(value, str):
        return read_text(value, label)
    claims: list[Claim] = []
    if (rows := _index_rows(value)) is not None:
        for name, row in rows.items():
            claims += [
                replace(claim, label=f"{_clean_label(name)} {claim.label}".strip(), group=f"| {name}")
                for claim in read_value(row, label)
            ]
        return claims[:_MAX_CLAIMS]
    for leaf in leaves.flatten_properties({label: value} if not isinstance(value, Mapping) else value):
        name = f"{leaf.path_text} {leaf.key}" if leaf.path_text != leaf.key else leaf.key
        if isinstance(leaf.value, str) and not leaf.unit:
            claims += read_text(leaf.value, name)
        elif (amount := leaf.parse_amount()) is not None:
            claims.append(
                Claim(_clean_label(name), amount.value, amount.dimension, amount.step, f"{name} {amount.text}")
            )
        elif (number := units.split_number(leaf.value)) is not None:
            # "viability_percent": 86.3
            dimension = "ratio" if _PERCENT_KEY.search(name) else ""
            claims.append(Claim(_clean_label(name), number[0], dimension, number[1], f"{name} {leaf.value_text}"))
    return claims[:_MAX_CLAIMS]


def _index_rows(value: Any) -> dict[str, Any] | None:
    """Return {name: other entries} of a list of objects that each have their own name, or of an object of objects, else None."""
    if isinstance(value, Mapping):
        is_table = len(value) > 1 and all(isinstance(row, Mapping) and "unit" not in row for row in value.values())
        return {str(name)[:80]: row for name, row in list(value.items())[:60]} if is_table else None
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(row, Mapping) for row in value):
        return None
    for key in value[0]:
        names = [row.get(key) for row in value]
        is_name = all(isinstance(name, str) and (len(name) < 4 or not units.split_number(name)) for name in names)
        is_name = is_name and any(re.search(r"[A-Za-z]", name) for name in names)
        if is_name and len(set(names)) == len(names):
            return {
                str(row[key])[:80]: {other: inner for other, inner in row.items() if other != key} for row in value[:60]
            }
    return None


def read_observation(seen: ObservationView) -> list[Claim]:
    """Return the claims of an observation: those of its description, then those of its value."""
    described = read_text(seen.description)
    # A description with several numbers is a record of its own, of which only the last words announce the value.
    named = _BRACKET.sub(" ", seen.description)
    label = named.rpartition("; ")[2] if len(described) < 2 else _LAST_WORDS.split(named.strip())[-1]
    context = _clean_label(seen.description)
    if listed := _read_parallel(seen, label):
        return described + [replace(claim, context=context) for claim in listed]
    return described + [replace(claim, context=context) for claim in read_value(seen.raw.get("value"), label)]


# "GFP+ / GFP-: 7544 / 1156" has its names and its numbers in the same order.
_SEPARATOR = re.compile(r"\s?[;|]\s?|,\s|\s/\s|\s(?:and|vs\.?|und|et)\s")
_ONLY_NUMBER = re.compile(
    r"\s*-?[0-9]{1,12}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?\s?[A-Za-zµ%°/]{0,10}\s*", re.IGNORECASE
)


def _read_parallel(seen: ObservationView, label: str) -> list[Claim]:
    """Return the claims of a value that lists one number for each name that the description lists, else nothing."""
    numbers = _SEPARATOR.split(seen.value[:300])
    names = _SEPARATOR.split(label.rpartition(": ")[2][:300])
    if len(numbers) != len(names) or len(names) < 2 or not all(map(_ONLY_NUMBER.fullmatch, numbers)):
        return []
    return [claim for name, number in zip(names, numbers, strict=True) for claim in read_text(number, name)]


def read_material(view: MaterialView) -> list[Claim]:
    """Return the claims of a material's properties."""
    raw = view.raw.get("properties")
    return read_value(raw) if isinstance(raw, Mapping) else []


def list_claims(transition: Transition, views: Iterable[MaterialView]) -> list[Claim]:
    """Return the claims of these materials. The claims of a material are read once."""
    claims: list[Claim] = []
    for view in views:
        key = f"claims {view.path}"
        if key not in transition.memo:
            transition.memo[key] = read_material(view)
        claims += transition.memo[key]
    return claims


def list_observed(transition: Transition) -> list[tuple[ObservationView, list[Claim]]]:
    """Return the observations with their claims."""
    if "observed claims" not in transition.memo:
        transition.memo["observed claims"] = [(seen, read_observation(seen)) for seen in transition.observations]
    observed: list[tuple[ObservationView, list[Claim]]] = transition.memo["observed claims"]
    return observed
