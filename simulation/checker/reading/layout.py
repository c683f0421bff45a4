"""Bring the properties of a foreign material into one layout before they are read.

Simulators write the same facts nested under "state_after", as a list of components, as a table or as "key: value; key: value"
in one text, under the symbols V, c, m, n and M, or with the unit as the key. All of them become nested objects whose keys are
words and whose values carry their units.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simulation.checker.reading import leaves, observed, units, words
from simulation.checker.reading.words import word_set

_MAX_DEPTH = 8
_MAX_TEXT = 1500  # characters; longer texts stay as they are
# Objects under these keys are the material itself: their content belongs one level higher.
_STATE_WORDS = word_set(
    "state after now current final new present result resulting updated propertie property detail info data descr desc "
    "description d record summary statu liquid solution step this physical chemical chemistry general information metadata attribute "
    "characteristic condition quantity quantitie measurement material object entity product table inventory overview of"
)
_CONTENTS = word_set("component content composition ingredient solute salt recipe species specie ion")
_BEFORE_WORDS = word_set("before previous old earlier prior")
# Texts under these keys are sentences, not lists of fields.
_SENTENCES = word_set(
    "note remark comment history reasoning calculation log plan procedure use reaction protocol instruction message made"
)
_FIELD = re.compile(r"^\s*([^\W\d_][^:=;|]{0,40}?)\s?[:=]\s?(?!//)(\S.*)$", re.DOTALL)
_COLON_FIELD = re.compile(r"^\s*([^\W\d_][^:;|]{0,40}?)\s?:\s(?!//)(\S.*)$", re.DOTALL)
_SEPARATOR = re.compile(r"\s*[;\n]\s*")
_COMMA = re.compile(r",\s+(?![^()]*\))")
_RULE = re.compile(r"^[\s|:-]+$")
_ARROW = re.compile(r"\s*(?:->|→|=>|⇒|➔)\s*")
# Keys whose text names the object in a list of components.
_NAME_KEYS = (
    "name", "n", "c", "component", "compound", "salt", "solute", "species", "analyte", "element", "ion", "substance", "ingredient",
    "reagent", "chemical", "material", "plasmid", "what", "label", "item", "id", "s", "sample", "stoff", "sustancia", "substanz",
)  # fmt: skip
# "V(HCl) consumed", "c(Ca2+)", "β(caffeine)", "[KCl]"; the first part is the symbol of a quantity.
_SYMBOL = re.compile(r"^([A-Za-zβργω][A-Za-z]{0,4})[0-9ifo]?\s?\(([^()]{1,60})\)\s?(.*)$")
_BRACKETED = re.compile(r"^\[([A-Za-z][^\[\]]{0,20})\]$")
_QUANTITY_OF_SYMBOL = {
    "v": ("volume",), "vi": ("volume",), "vf": ("volume",), "v1": ("volume",), "v2": ("volume",), "vol": ("volume",),
    "c": units.CONCENTRATIONS, "conc": units.CONCENTRATIONS, "beta": units.CONCENTRATIONS, "β": units.CONCENTRATIONS,
    "rho": ("mass_concentration",), "ρ": ("mass_concentration",), "gamma": units.CONCENTRATIONS, "γ": units.CONCENTRATIONS,
    "w": ("ratio", "mass_concentration"), "ω": ("ratio",), "m": ("mass",), "n": ("amount", "count"), "mr": ("molecular_mass",),
    "mw": ("molecular_mass",), "x": (), "q": ("volume", "mass"),
}  # fmt: skip
# What a value of each dimension is called if its key has only a symbol or a unit.
_NOUNS = {
    "volume": "volume", "mass": "mass", "amount": "substance amount", "mass_concentration": "concentration",
    "molar_concentration": "concentration", "number_density": "concentration", "molecular_mass": "molar mass",
}  # fmt: skip
_PERCENT_KEY = re.compile(r"^(.*?)[ _]?(?:percent|pct|%)[ _]?\(?([vwm])[_/ ]?([vw])\)?$", re.IGNORECASE)
_FACTOR_KEYS = word_set("d df vf dil")
_VALUE_WORDS = word_set("value amount quantity quantitie result reading wert valor valeur data entry content detail")
_EMPTY_UNIT = re.compile(r"[-–1]|n/?a|none|dimensionless", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"\s?[~≈]?[0-9][0-9.]*(?:e[+-]?[0-9]+)?\s?", re.IGNORECASE)
_VESSELS = words.CAPACITY | word_set("plate dish beaker cuvette cryovial jar bag well box cartridge syringe")


def normalise_layout(data: Any) -> Any:
    """Return a transition in which the properties of all materials have one layout."""
    outcome = data.get("outcome")
    result = {**data, "input_materials": _normalise_materials(data.get("input_materials"))}
    if isinstance(outcome, Mapping):
        result["outcome"] = {
            **outcome,
            "new_materials": _normalise_materials(outcome.get("new_materials")),
            "new_observations": observed.arrange_observations(outcome.get("new_observations")),
        }
    return result


def _normalise_materials(materials: Any) -> Any:
    if not isinstance(materials, list):
        return materials
    return [
        {**material, "properties": arrange_properties(material["properties"])}
        if isinstance(material, Mapping) and isinstance(material.get("properties"), Mapping)
        else material
        for material in materials
    ]


def arrange_properties(properties: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return properties with one key for each fact."""
    if depth == 0 and len(properties) == 1 and isinstance(only := next(iter(properties.values())), Mapping):
        # A single object is the material, whatever its key, unless it lists contents.
        key = str(next(iter(properties)))
        if not _is_amount(only) and not _find_unit(key) and not set(words.tokenize(key)) & (_BEFORE_WORDS | _CONTENTS):
            properties = only
    result: dict[str, Any] = {}
    states = leaves.find_states({str(key)[:40].lower(): value for key, value in properties.items()})
    for key, value in properties.items():
        if states and str(key)[:40].lower() == states[0]:
            continue
        for new_key, new_value in _arrange_entry(str(key), value, depth, set(properties)):
            # A fact that is written twice keeps both keys, so that contradictions stay visible.
            result[new_key if new_key not in result else f"{new_key} #"] = new_value
    return result


def _arrange_entry(key: str, value: Any, depth: int, siblings: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries that one entry of an object becomes."""
    if depth > _MAX_DEPTH:
        yield key, value
        return
    key_words = set(words.tokenize(key))
    is_text = isinstance(value, str)
    if is_text:
        value = _parse_text(key, key_words, value)
    if isinstance(value, list):
        value = _read_triples(value) or _index_by_name(value)
    if isinstance(value, Mapping) and (now := _find_value_now(value)) is not None:
        value = now
    if isinstance(value, Mapping):
        if _is_amount(value):
            yield from _name_amount(key, value, siblings)
            return
        value = arrange_properties(_spread_unit(key, value), depth + 1)
        key = leaves.drop_unit(key) if _find_unit(key) else key
        if key_words <= _STATE_WORDS or (is_text and len(key) <= 2):
            yield from value.items()
            return
        yield key, value
    elif isinstance(value, list):
        yield key, [arrange_properties(item, depth + 1) if isinstance(item, Mapping) else item for item in value]
    else:
        yield from _name_amount(key, value, siblings)


def _find_value_now(value: Mapping[str, Any]) -> Any:
    """Return the second of {"before": 6.6, "after": 7.4}, or None for other objects."""
    keys = [str(key).lower() for key in value]
    is_pair = len(keys) == 2 and {keys[0], keys[1]} & leaves.BEFORE and {keys[0], keys[1]} & leaves.AFTER
    if not is_pair or any(isinstance(inner, Mapping | list) for inner in value.values()):
        return None
    return next(inner for key, inner in value.items() if str(key).lower() in leaves.AFTER)


def _is_amount(value: Mapping[str, Any]) -> bool:
    names = {str(name).lower() for name in value}
    return bool(names & set(leaves.UNIT_KEYS)) and bool(names & set(leaves.VALUE_KEYS))


def _parse_text(key: str, key_words: set[str], text: str) -> Any:
    """Return the object that a table or a list of "key: value" in a text stands for, else the text."""
    if len(text) > _MAX_TEXT or key_words & _SENTENCES:
        return text
    if "|" in text and "\n" in text and (table := _parse_table(text)):
        return table
    segments = [segment for segment in _SEPARATOR.split(text.strip()) if segment]
    if len(segments) == 1 and len(parts := _COMMA.split(text.strip())) > 1 and all(map(_match_field, parts)):
        segments = parts
    is_wrapper = key_words <= _STATE_WORDS or len(key) <= 2
    fields = [match for segment in segments if (match := _match_field(segment))]
    if not fields or (len(segments) == 1 and not is_wrapper):
        return text
    if len(fields) * 2 < len(segments) or (len(segments) == 1 and "," in fields[0][1]):
        return text
    result: dict[str, Any] = {}
    for segment in segments:
        match = _match_field(segment)
        name, inner = (match[1].strip(), match[2].strip()) if match else ("", segment)
        if not name:
            amount = units.parse_amount(inner)
            name = _NOUNS.get(amount.dimension, "remark") if amount else "remark"
        result[name if name not in result else f"{name} #"] = inner
    return result


def _match_field(segment: str) -> re.Match[str] | None:
    """Return the match of "key: value" or "key = value" with a short key. In "c = n/V: 1 mM" the key has the equals sign."""
    match = _COLON_FIELD.match(segment) or _FIELD.match(segment)
    return match if match and len(match[1].split()) <= 4 else None


def _parse_table(text: str) -> dict[str, Any]:
    """Return {row: {column: cell}} of a table with a heading in a text, or an empty object if it is none."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.strip().splitlines()[:60]
        if not _RULE.fullmatch(line)
    ]
    if len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return {}
    if any(units.split_number(cell) for cell in rows[0][1:]) or len({row[0] for row in rows}) != len(rows):
        return {}
    # A table of properties and values has one fact in each row.
    if len(rows[0]) == 2 and set(words.tokenize(rows[0][1])) <= _VALUE_WORDS:
        return {row[0]: row[1] for row in rows[1:] if row[0] and row[1]}
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:] if row[0]}


def _index_by_name(items: list[Any]) -> Any:
    """Return {name: rest of the item} for a list of objects that each have their own name, else the list."""
    result: dict[str, Any] = {}
    for item in items if len(items) <= 200 else ():
        if not isinstance(item, Mapping):
            return items
        by_key = {str(key).lower(): key for key in item}
        key = next((by_key[name] for name in _NAME_KEYS if _is_name(item.get(by_key.get(name, "")))), None)
        rest = {other: value for other, value in item.items() if other != key}
        if key is None or (name := str(item[key])[:100]) in result:
            return items
        result[name] = rest or True
    return result or items


def _read_triples(items: list[Any]) -> dict[str, Any]:
    """Return {name: "value unit"} for a list of objects or lists with a name, a value and a unit, or an empty object.

    What is the name, the value and the unit is found from the values: no list of keys has all that laboratories use.
    """
    if not 1 <= len(items) <= 200:
        return {}
    if all(isinstance(item, Mapping) for item in items):
        rows = [{str(key): value for key, value in item.items()} for item in items]
    elif all(isinstance(item, list) and len(item) in (2, 3) for item in items):
        rows = [{str(position): value for position, value in enumerate(item)} for item in items]
    else:
        return {}
    columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
    if not 2 <= len(columns) <= 3 or any(
        isinstance(cell, Mapping | list) for cells in columns.values() for cell in cells
    ):
        return {}
    unit = next((key for key, cells in columns.items() if _is_unit_column(cells)), None)
    others = [key for key in columns if key != unit]
    # In a single row, only a unit tells a name and a value from two texts.
    if len(items) == 1 and unit is None:
        return {}
    name = next((key for key in others if _is_name_column(columns[key])), None)
    value = next((key for key in others if key != name), None)
    if (
        len(others) != 2
        or name is None
        or value is None
        or not any(units.split_number(cell) for cell in columns[value])
    ):
        return {}
    # In {"name": "KCl", "mM": 20} the key of the value has the unit.
    if unit is None and len(value) > 1 and units.find_dimension(re.split(r"[_\s(]+", value)[-1].rstrip(")")):
        return {}
    result: dict[str, Any] = {}
    for row in rows:
        cell, of = row.get(value), row.get(unit) if unit else None
        is_amount = bool(of) and units.split_number(cell) is not None
        result[str(row[name])[:100]] = f"{cell} {of}" if is_amount else cell
    return result


def _is_unit_column(cells: list[Any]) -> bool:
    """Return whether all texts of a column are units or empty, and at least one is a unit."""
    texts = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
    if not all(text is None or isinstance(text, str) for text in texts):
        return False
    dimensions = [units.find_dimension(text) for text in texts if text and not _EMPTY_UNIT.fullmatch(text)]
    return any(dimensions) and sum(map(bool, dimensions)) * 2 >= len(dimensions)


def _is_name_column(cells: list[Any]) -> bool:
    """Return whether a column has different texts that start with a letter and are no amounts."""
    return (
        all(isinstance(cell, str) and cell and units.split_number(cell) is None for cell in cells)
        and all(re.search(r"[^\W\d_]", cell) for cell in cells)
        and len(set(cells)) == len(cells)
    )


def _is_name(value: Any) -> bool:
    """Return whether a text can be the name of a component: a word, also with an amount, but no amount alone."""
    if not isinstance(value, str) or not re.search(r"[^\W\d_]", value):
        return False
    return units.parse_amount(value) is None or re.search(r"[0-9] ?[^\W\d_]+ [^\W\d_]{4,}", value) is not None


def _find_unit(key: str) -> str:
    """Return the unit in which a key gives its values, also if the key is nothing else, or ""."""
    if match := _PERCENT_KEY.match(key):
        return f"% {match[2].lower()}/{match[3].lower()}"
    # "u", "C", "K" and "min" are keys with other meanings.
    plain = re.sub(r"[ _]per[ _]", "/", key.strip())
    if units.find_dimension(plain) in _NOUNS and (len(plain) > 1 or plain in ("M", "L", "g")):
        return plain
    return leaves.find_unit_in_key(key)


def _spread_unit(key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object in which the numbers have the unit of the object's key: {"ions_mM": {"Na+": 103}}."""
    unit = _find_unit(key) if len(words.tokenize(key)) > 1 else ""
    if not unit or units.find_dimension(unit) not in _NOUNS:
        return value
    return {
        name: f"{number} {unit}" if _is_plain_number(number) and not _find_unit(str(name)) else number
        for name, number in value.items()
    }


def _is_plain_number(value: Any) -> bool:
    if isinstance(value, str):
        return _PLAIN_NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name_amount(key: str, value: Any, siblings: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a value under a key of words instead of a symbol or a unit."""
    if isinstance(value, str) and len(parts := _ARROW.split(value)) == 2:
        yield from _split_change(key, parts, siblings)
        return
    unit = _find_unit(key) if _is_plain_number(value) else ""
    if unit and (dimension := units.find_dimension(unit)) in (*_NOUNS, "ratio"):
        rest = _PERCENT_KEY.match(key)[1] if _PERCENT_KEY.match(key) else leaves.drop_unit(key) if key != unit else ""  # type: ignore[index]
        rest = "" if rest == key and re.sub(r"[ _]per[ _]", "/", key) == unit else rest
        other_words = set(words.tokenize(rest)) - _STATE_WORDS
        if not other_words or other_words <= (words.NEUTRAL | _BEFORE_WORDS) - _VESSELS:
            kept = " ".join(word for word in words.tokenize(rest) if word not in _STATE_WORDS)
            yield f"{kept} {_NOUNS.get(dimension, 'concentration')}".strip(), f"{value} {unit}"
            return
        if dimension == "ratio":
            yield f"{rest} concentration", f"{value} {unit}"
            return
    yield _spell_key(key, value, siblings), value


def _split_change(key: str, parts: list[str], siblings: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of "10 mL -> 7 mL" (before and now) or "3.65 g -> 125 mM" (two quantities of one thing)."""
    left, right = (units.parse_amount(part) for part in parts)
    if right is None or (left is None and not _PLAIN_NUMBER.fullmatch(parts[0])):
        yield _spell_key(key, " -> ".join(parts), siblings), " -> ".join(parts)
    elif left is None or left.dimension == right.dimension:
        yield _spell_key(key, parts[1], siblings), parts[1]
        if left is not None:
            yield f"before {key}", parts[0]
    else:
        nouns = [_NOUNS.get(amount.dimension, amount.dimension) for amount in (left, right)]
        yield key, dict(zip(nouns, parts, strict=True))


def _spell_key(key: str, value: Any, siblings: set[Any]) -> str:
    """Return a key in words: "KCl concentration" for "c(KCl)", "volume" for "V". A symbol counts if the value fits it."""
    if match := _BRACKETED.match(key):
        return f"{match[1]} concentration"
    head, equals, _ = key.partition("=")
    plain = head.strip() if equals else key.strip()
    if plain.lower() in _FACTOR_KEYS and units.parse_number(value) is not None and units.parse_amount(value) is None:
        return "dilution factor"
    match = _SYMBOL.match(plain)
    symbol, inside, rest = (match[1], match[2], match[3]) if match else (plain, "", "")
    name, _, more = plain.partition(" ")
    # "m FAp" and "m Fc": the symbol before the name of what it belongs to.
    if match is None and more and name.lower() in _QUANTITY_OF_SYMBOL and len(name) == 1 and "/" not in more:
        symbol, inside = name, more
    symbol = symbol.rstrip("_")
    dimensions = ("molecular_mass",) if symbol == "M" else _QUANTITY_OF_SYMBOL.get(symbol.lower())
    amount = _parse_any(value, dimensions)
    # "V: 1 mg" is a volume with a wrong unit, "V: 100 V" a voltage.
    is_wrong_unit = amount is not None and amount.dimension in ("mass", "temperature", "mass_concentration")
    if plain in ("V", "Vf", "Vi") and is_wrong_unit:
        return "volume"
    if dimensions is None or amount is None or amount.dimension not in dimensions:
        return key
    # The volume before the step stands beside the one after it.
    if symbol.lower() in ("vi", "v1") and any(str(other).lower() in ("v", "vf", "v2") for other in siblings):
        return "before volume"
    # "rho(20 degC)" is a density at a temperature; "1.2 g/mL" is too much for a concentration.
    if symbol.lower() in ("rho", "ρ") and (not inside or units.parse_amount(inside) is not None):
        return "density"
    component = re.split(r"[,;]", inside)[0]
    return " ".join(part for part in (component, _NOUNS.get(amount.dimension, "concentration"), rest) if part)


def _parse_any(value: Any, dimensions: tuple[str, ...] | None) -> units.Amount | None:
    if isinstance(value, Mapping):
        found = leaves.flatten_properties({"value": value})
        return found[0].parse_amount() if len(found) == 1 else None
    return units.parse_amount(value, "", dimensions or ()) if isinstance(value, str) else None
