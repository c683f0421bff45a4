"""Rewrites of a transition that change its spelling and no fact: other units, words, number formats, keys and orders."""

import copy
import json
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_VOLUME = re.compile(
    r"(?<![\w.,/:-])(?<!± )(?<!\+/- )([0-9]{1,6}(?:\.[0-9]{1,4})?)\s?(mL|ml)(?![\w/⁻^−-]|\s?(?:tube|vial|flask|bottle|per|beaker|cuvette|conical|cryo|glass|digestion|micro|reaction|volumetric|PCR|centri|round|boro))"
)
_MASS = re.compile(r"(?<![\w.,/:-])(?<!± )(?<!\+/- )([0-9]{1,6}(?:\.[0-9]{1,5})?)\s?(mg)(?![\w/⁻^−-])")
_POWER = re.compile(r"(?<![\w.,/-])([1-9](?:\.[0-9]{1,3})?)[eE]\+?([1-9][0-9]?)(?![\w.])")
_DECIMAL = re.compile(r"(?<![\w.,])([0-9]{1,9})\.([0-9]{1,9})(?![\w.,]*\.[0-9])")
_GROUP = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+(?![\w,]|\.[0-9])")
_HAS_COMMAS = re.compile(r"(?<![\w.,])(?:0,[0-9]|[0-9]{1,3},[0-9]{1,2}(?![0-9]))")
_THREE_DECIMALS = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}\.[0-9]{3}(?![0-9])")
_PLAIN = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s?(mL|ml|µL|uL|ul|g|mg|mM|mg/mL|ng/µL|°C)$")
_WORDS = {
    "mL": "millilitres",
    "ml": "millilitres",
    "µL": "microlitres",
    "uL": "microlitres",
    "mg": "milligrams",
    "mM": "millimolar",
}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Json = Any


def map_texts(data: Json, change: Callable[[str], str]) -> Json:
    """Return the data with every text value changed; keys stay."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {key: map_texts(value, change) for key, value in data.items()}
    return [map_texts(value, change) for value in data] if isinstance(data, list) else data


def map_values(line: Json, change: Callable[[str], str]) -> Json:
    """Return a line with the texts of properties and observations changed. Names and parameters stay."""
    line = copy.deepcopy(line)
    for material in (*line["input_materials"], *line["outcome"]["new_materials"]):
        material["properties"] = map_texts(material.get("properties", {}), change)
    for seen in line["outcome"]["new_observations"]:
        for key in ("description", "value"):
            if key in seen:
                seen[key] = map_texts(seen[key], change)
    return line


def _multiply(match: re.Match[str], unit: str) -> str:
    return f"{(Decimal(match[1]) * 1000).normalize():f} {unit}"


def use_small_units(line: Json) -> Json:
    """Write millilitres as microlitres and milligrams as micrograms."""
    return map_values(
        line, lambda text: _MASS.sub(lambda m: _multiply(m, "µg"), _VOLUME.sub(lambda m: _multiply(m, "µL"), text))
    )


def use_unit_words(line: Json) -> Json:
    """Write units of plain amounts in words."""

    def change(text: str) -> str:
        match = _PLAIN.match(text)
        return f"{match[1]} {_WORDS[match[2]]}" if match and match[2] in _WORDS else text

    return map_values(line, change)


def use_objects(line: Json) -> Json:
    """Write "1.5 mL" as {"value": 1.5, "unit": "mL"} in properties."""

    def change(data: Json) -> Json:
        if isinstance(data, dict):
            return {key: change(value) for key, value in data.items()}
        match = _PLAIN.match(data) if isinstance(data, str) else None
        return {"value": float(match[1]), "unit": match[2]} if match else data

    line = copy.deepcopy(line)
    for material in (*line["input_materials"], *line["outcome"]["new_materials"]):
        material["properties"] = change(material.get("properties", {}))
    return line


def use_powers_of_ten(line: Json) -> Json:
    """Write 2.0e6 as 2.0 × 10⁶."""
    return map_values(line, lambda text: _POWER.sub(lambda m: f"{m[1]} × 10{m[2].translate(_SUPERSCRIPTS)}", text))


def use_decimal_commas(line: Json) -> Json:
    """Write decimals with a comma and groups of thousands with a space, in properties, names and observations."""

    def change(text: str) -> str:
        return _DECIMAL.sub(r"\1,\2", _GROUP.sub(lambda match: match[0].replace(",", " "), text))

    # "7,002" alone could be read as thousands, and so could a line that has decimal commas already.
    text = json.dumps(line, ensure_ascii=False)
    if _HAS_COMMAS.search(text) or _THREE_DECIMALS.search(text):
        return line
    line = map_values(line, change)
    for material in (*line["input_materials"], *line["outcome"]["new_materials"]):
        material["name"] = change(material["name"])
    return line


def use_signs(line: Json) -> Json:
    """Write the other micro sign, the multiplication sign and a narrow space before units."""
    return map_values(line, lambda text: text.replace("µ", "μ").replace(" mL", "\u202fmL").replace(" x g", " × g"))


def change_key_case(line: Json) -> Json:
    """Write the keys of properties with a capital letter if they are single words in lower case."""
    line = copy.deepcopy(line)
    for material in (*line["input_materials"], *line["outcome"]["new_materials"]):
        properties = material.get("properties", {})
        material["properties"] = {
            key.capitalize() if key.isalpha() and key.islower() else key: value for key, value in properties.items()
        }
    return line


def shuffle_orders(line: Json, seed: int = 7) -> Json:
    """Shuffle the keys of all objects, the materials and the observations."""
    rng, line = random.Random(seed), copy.deepcopy(line)

    def shuffle(data: Json) -> Json:
        if isinstance(data, dict):
            return {key: shuffle(data[key]) for key in rng.sample(sorted(data), len(data))}
        return data

    for part in (line["input_materials"], line["outcome"]["new_materials"]):
        rng.shuffle(part)
        for material in part:
            material["properties"] = shuffle(material.get("properties", {}))
    return {key: line[key] for key in rng.sample(sorted(line), len(line))}


def split_vessel(line: Json) -> Json:
    """Split the first input of a Combine that has only a volume and concentrations into two vessels of half the volume."""
    line = copy.deepcopy(line)
    if line["action"]["name"] != "Combine":
        return line
    inputs = line["input_materials"]
    for index, material in enumerate(inputs):
        text = material.get("properties", {}).get("volume")
        match = _PLAIN.match(text) if isinstance(text, str) else None
        # A material of which a rest is handed back is not combined as a whole.
        is_rest = any(output["name"].startswith(material["name"]) for output in line["outcome"]["new_materials"])
        if (
            match
            and not is_rest
            and material.get("barcode")
            and not {"mass", "cells", "total"} & {key.lower() for key in material["properties"]}
        ):
            half = f"{Decimal(match[1]) / 2} {match[2]}"
            twin = copy.deepcopy(material)
            twin["barcode"], twin["name"] = f"{material['barcode'][:-1]}Q", f"{material['name']}, second half"
            material["properties"]["volume"] = twin["properties"]["volume"] = half
            inputs.insert(index + 1, twin)
            line["action"]["materials"] = [*line["action"]["materials"], twin["barcode"]]
            return line
    return line


REWRITES: tuple[Callable[[Json], Json], ...] = (
    use_small_units, use_unit_words, use_objects, use_powers_of_ten, use_decimal_commas, use_signs, change_key_case, shuffle_orders, split_vessel,
)  # fmt: skip
