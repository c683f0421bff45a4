"""Writes fixtures/checker/derived.jsonl: mutants of correct transitions and their clean twins, by code.

    python tests/simulation/checker/make_derived.py OFFLINE.jsonl TWINS.jsonl > fixtures/checker/derived.jsonl

The two files hold transitions of offline episodes and injector twins of them (tests/simulation/checker/corpus.py writes them).
"""

import copy
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[1])]

from tests.simulation.checker.bases import BASES, barcode_of, build_material, build_observation  # noqa: E402
from tests.simulation.checker.dialects import DIALECTS, write_in_dialect  # noqa: E402
from tests.simulation.checker.sketches import CORRECT, WRONG  # noqa: E402

GONE = object()
OUT, SEEN, IN, DO = "outcome.new_materials", "outcome.new_observations", "input_materials", "action.parameters"
P = "properties"

# (code, correct transition, sort of error, the one thing changed)
MUTANTS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("L01", "combine", 1, {f"{OUT}.+": build_material("DMSO", {"volume": "10 µL", "container": "1.5 mL tube"})}),
    ("L01", "mix", 2, {f"{OUT}.0.{P}.puromycin concentration": "1 µg/mL"}),
    ("L01", "aliquot", 1, {f"{OUT}.+": build_material("Trypsin-EDTA", {"volume_ul": 50, "container": "1.5 mL tube"})}),
    ("L01", "image", 2, {f"{DO}.stain": "MAT-NOTHERE1"}),
    ("L02", "transfer", 2, {f"{OUT}.0.{P}.volume": "10.0 mL"}),
    ("L02", "combine", 2, {f"{OUT}.0.{P}.volume": "600 µL"}),
    ("L02", "fill", 2, {f"{OUT}.1.{P}.volume": "500 mL"}),
    ("L02", "spin", 1, {f"{OUT}.0.{P}.volume": "7 mL"}),
    ("L02", "filter", 2, {f"{OUT}.0.{P}.volume": "55 mL"}),
    ("L03", "dose", 2, {f"{OUT}.0.{P}.puromycin.concentration": "100 mg/mL"}),
    ("L03", "dilute", 2, {f"{OUT}.0.{P}.NaCl concentration": "1.25 M"}),
    ("L03", "combine", 2, {f"{OUT}.0.{P}.glucose_concentration": "30 mM"}),
    ("L03", "series", 2, {f"{OUT}.3.{P}.concentration": "11 µM", f"{OUT}.4.{P}.concentration": "1.2 µM"}),
    ("L03", "resuspend", 2, {f"{OUT}.0.{P}.concentration": "40 µg/mL"}),
    ("L04", "mix", 2, {f"{OUT}.0.{P}.protein concentration": "25 mg/mL"}),
    ("L04", "hplc", 2, {f"{OUT}.1.{P}.caffeine concentration": "5 µg/mL"}),
    ("L04", "weigh out", 2, {f"{OUT}.0.{P}.mass": "5.000 g"}),
    ("L04", "aliquot", 2, {f"{OUT}.0.{P}.bsa_conc_mg_per_ml": 3.0}),
    ("L05", "aliquot", 2, {f"{OUT}.1.{P}.volume_ul": 1800}),
    ("L05", "fill", 2, {f"{OUT}.0.{P}.volume": "12.0 mL", f"{DO}.target_volume": "12 mL", f"{OUT}.1.{P}.volume": "490.5 mL"}),
    ("L05", "image", 2, {f"{IN}.0.{P}.container": "50 mL conical tube", f"{OUT}.0.{P}.container": "50 mL conical tube"}),
    ("L05", "read", 2, {f"{IN}.0.{P}.container": "1.5 mL tube", f"{OUT}.0.{P}.container": "1.5 mL tube"}),
    ("L06", "thawed", 2, {f"{IN}.0.environmental_condition": "-80C", f"{IN}.0.{P}.state": "frozen"}),
    ("L06", "flow", 2, {f"{IN}.0.{P}.state": "adherent monolayer"}),
    ("L06", "acidity", 1, {f"{IN}.0.{P}.phase": "dry powder", f"{OUT}.0.{P}.phase": "dry powder"}),
    ("L06", "hplc", 2, {f"{IN}.0.environmental_condition": "-80C"}),
    ("L06", "mix", 1, {f"{OUT}.0.{P}.phase": "frozen"}),
    ("L07", "transfer", 2, {f"{IN}.0.{P}.volume": "0.8 mL", f"{OUT}.0.{P}.volume": "0 mL"}),
    ("L07", "aliquot", 2, {f"{IN}.0.{P}.volume_ul": 500, f"{OUT}.0.{P}.volume_ul": 0}),
    ("L07", "weigh out", 2, {f"{IN}.0.{P}.mass": "30 mg", f"{OUT}.0": GONE}),
    ("L07", "dose", 2, {f"{IN}.1.{P}.volume": "3 µL", f"{OUT}.1.{P}.volume": "0 µL"}),
    ("L08", "transfer", 1, {f"{IN}.0.available_for_use": "not_available_for_further_use"}),
    ("L08", "count", 2, {f"{OUT}.0.available_for_use": "available_for_further_use", f"{OUT}.0.{P}.volume": "50 µL"}),
    ("L08", "hplc", 1, {f"{IN}.1.available_for_use": "not_available_for_further_use"}),
    ("L08", "discard", 1, {f"{OUT}.+": build_material("Spent medium", {"volume": "5 mL", "container": "15 mL tube"})}),
    ("L09", "dilute", 2, {f"{OUT}.+": build_material("Ultrapure water", {"volume": "499.2 mL", "container": "500 mL bottle", "container_capacity": "550 mL"})}),
    ("L09", "aliquot", 2, {f"{OUT}.+": build_material("Microtubes, empty", {"container": "1.5 mL tube", "capacity": "1.5 mL", "state": "empty"}, supply="unlimited")}),
    ("L09", "filter", 2, {f"{OUT}.+": build_material("Sterile bottles", {"state": "empty", "container": "100 mL bottle", "capacity": "100 mL"}, supply="not_available_for_further_use")}),
    ("L09", "transfer", 2, {f"{OUT}.1.available_for_use": "unlimited"}),
    ("L10", "transfer", 2, {f"{OUT}.1.name": f"Vial A with {barcode_of(1)}"}),
    ("L10", "hplc", 2, {f"{SEEN}.0.description": f"{barcode_of(1)}, 273 nm: peak area"}),
    ("L10", "mix", 2, {f"{OUT}.0.{P}.history": f"mixed from {barcode_of(1)}"}),
    ("L11", "transfer", 1, {f"{OUT}.0.available_for_use": "maybe"}),
    ("L11", "spin", 1, {f"{OUT}.0.environmental_condition": "on the windowsill"}),
    ("L11", "culture", 1, {f"{OUT}.0.material_type": "plasma"}),
    ("L11", "weight", 1, {f"{SEEN}.0.measurement_type": GONE}),
    ("L12", "transfer", 2, {f"{OUT}.1.{P}.volume": "1.00 L"}),
    ("L12", "mix", 2, {f"{OUT}.0.{P}.volume": "480"}),
    ("L12", "weight", 2, {f"{OUT}.0.{P}.mass": "1.240 mL"}),
    ("L12", "spin", 2, {f"{OUT}.0.{P}.volume": "5 µL"}),
    ("L13", "culture", 1, {f"{OUT}.0.{P}.cell_density": "4.0e6 cells/mL"}),
    ("L13", "incubate", 2, {f"{OUT}.0.{P}.incubation_time": "16 h"}),
    ("L13", "mix", 2, {f"{IN}.0.created_at": 7200}),
    ("L14", "incubate", 2, {f"{OUT}.0.{P}.temperature": GONE}),
    ("L14", "culture", 2, {f"{OUT}.0.{P}.CO2": GONE}),
    ("L14", "incubate", 1, {f"{OUT}.0.environmental_condition": "-80C", f"{OUT}.0.{P}.temperature": GONE}),
    ("L14", "store", 2, {f"{OUT}.0.environmental_condition": "-20C"}),
    ("L14", "mix", 1, {f"{OUT}.0.environmental_condition": "-196C"}),
    ("L15", "incubate", 2, {f"{SEEN}.+": build_observation("Viral titer after incubation", "3.2e8 TU/mL")}),
    ("L15", "spin", 2, {f"{SEEN}.+": build_observation("Cell viability after the spin", "93 %")}),
    ("L15", "image", 2, {f"{SEEN}.+": build_observation("pH of the medium", "7.31")}),
    ("L15", "transfer", 2, {f"{SEEN}.+": build_observation("Optical density OD600 of the vial", "0.84")}),
    ("L16", "image", 2, {f"{SEEN}.0.description": "Fluorescence image of GFP cells well B2 with the 40x objective, excitation 488 nm"}),
    ("L16", "hplc", 2, {f"{SEEN}.0.description": "Standard 10, 254 nm: peak area"}),
    ("L16", "incubate", 2, {f"{OUT}.0.{P}.temperature": "42 °C"}),
    ("L16", "filter", 2, {f"{OUT}.0.{P}.filtered_through": "0.45 µm PES"}),
    ("L16", "spin", 2, {f"{SEEN}.0.description": "A tan pellet is visible at the bottom of the tube after 3000 x g"}),
    ("L17", "look", 2, {f"{SEEN}.0.description": "AAV particles are clearly visible as white specks in the liquid"}),
    ("L17", "thawed", 2, {f"{DO}.volume": "0.01 µL", f"{OUT}.0.{P}.volume": "200 µL", f"{OUT}.1.{P}.volume": "0.01 µL"}),
    ("L17", "spin", 2, {f"{SEEN}.0.description": "Individual yeast cells can be seen settling in the tube"}),
    ("L18", "aliquot", 2, {f"{OUT}.3": GONE}),
    ("L18", "cycle", 2, {f"{OUT}.1": GONE}),
    ("L18", "transfer", 2, {f"{OUT}.0": GONE}),
    ("L18", "gel", 2, {f"{OUT}.+": build_material("Agarose gel, 1 %, second", {"phase": "gel"})}),
    ("L18", "series", 2, {f"{OUT}.4": GONE}),
    ("L19", "mix", 2, {f"{OUT}.0.{P}.cell line": "HeLa"}),
    ("L19", "spin", 2, {f"{OUT}.0.{P}.strain": "W303"}),
    ("L19", "look", 2, {f"{OUT}.0.{P}.serotype": GONE}),
    ("L19", "acidity", 2, {f"{OUT}.0.{P}.species": "Escherichia coli"}),
    ("L20", "volume", 2, {f"{SEEN}.0.value": "3.61 mL, 3.58 mL, 3.60 mL"}),
    ("L20", "weight", 2, {f"{SEEN}.0.value": "1.731 g"}),
    ("L20", "flow", 2, {f"{SEEN}.0.value": "23.1 % (4310 of 10000 events)"}),
    ("L20", "hplc", 2, {f"{SEEN}.0.value": "2551, 2560, 2547 mAU·s", f"{SEEN}.1.value": "512, 515, 509 mAU·s"}),
    ("L20", "transfer", 2, {f"{SEEN}.+": build_observation("Volume remaining in Caffeine stock (residual)", "8.1 mL")}),
    ("L21", "plate", 2, {f"{OUT}.0.{P}.antibiotic": "ampicillin"}),
    ("L21", "plate", 2, {f"{OUT}.1.environmental_condition": "room_temp"}),
    ("L21", "plate", 2, {f"{OUT}.0.{P}.temperature": "22 °C"}),
    ("L22", "refused", 1, {"outcome.failure_reason": ""}),
    ("L22", "mix", 1, {"outcome.failure_reason": "The vortex mixer is missing"}),
    ("L22", "refused", 1, {f"{OUT}.+": build_material("Flask with stock", {"volume": "1 mL", "capacity": "10 mL"})}),
    ("L22", "spin", 1, {"outcome.success": False, "outcome.failure_reason": "no rotor", f"{OUT}.0.{P}.phases": "pellet"}),
    ("L23", "acidity", 1, {f"{SEEN}.0.value": "15.8"}),
    ("L23", "incubate", 1, {f"{OUT}.0.{P}.temperature": "-300 °C"}),
    ("L23", "count", 1, {f"{SEEN}.1.value": "112 %"}),
    ("L23", "flow", 1, {f"{SEEN}.0.value": "93.1 % (12310 of 10000 events)"}),
    ("L24", "transfer", 2, {f"{OUT}.1.{P}.note": "SECRET: the volume is subtly wrong"}),
    ("L24", "mix", 2, {f"{SEEN}.0.description": "As an AI language model I saw the liquid swirl at 1000 rpm"}),
    ("L24", "look", 2, {f"{SEEN}.0.value": "clear (error_type 2)"}),
)  # fmt: skip

# Injector kinds of the offline cast and the code that should find them.
PLANTED = {
    "volume_gained": "L02", "residual_not_reduced": "L02", "matter_from_nothing": "L02", "matter_vanishes": "L02",
    "portion_slip": "L02", "addition_ignored": "L02", "dilution_slip": "L03", "swapped_samples": "L03",
    "swapped_solutes": "L03", "off_by_ten": "L04", "substance_from_nothing": "L04", "unasked_change": "L04",
    "another_phase": "L06", "consumed_comes_back": "L08", "wrong_volume_delivered": "L16", "noted_volume_off": "L20",
    "concentration_slip": "L03", "cells_in_no_time": "L13", "vessel_too_small": "L14", "wrong_place": "L14",
    "wrong_setting": "L16", "wrong_temperature": "L16", "wrong_time": "L16", "wrong_objective": "L16",
    "wrong_wavelength": "L16", "impossible_setting": "L16", "another_vessel": "L19", "stale_property": "L19",
    "swapped_identities": "L19", "reading_off": "L20", "replicate_off": "L20", "swapped_readings": "L20",
    "odd_one_out": "L20", "contradicting_observation": "L20", "impossible_temperature": "L23",
    "more_than_all": "L23", "beyond_solubility": "L23", "share_and_count": "L20",
}  # fmt: skip
# Neither arithmetic nor a stated rule decides these: they need an expert's eye for appearances and vessels.
BEYOND = ("stale_property", "odd_one_out")
_EACH, _CLEAN, _LONGEST = 1, 3, 9000


def change_line(line: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the line with these paths set, removed (GONE) or, for a last part "+", appended."""
    line = copy.deepcopy(line)
    for path, value in sorted(changes.items(), key=lambda item: item[1] is GONE):
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place: Any = line
        for part in way:
            place = place[part]
        if last == "+":
            place.append(copy.deepcopy(value))
        elif value is GONE:
            del place[last]
        else:
            place[last] = copy.deepcopy(value)
    return line


def build_mutants() -> list[dict[str, Any]]:
    """Return all mutants, and each base once for every code that it serves."""
    lines, number = [], Counter[str]()
    clean = list(dict.fromkeys((kind, base) for kind, base, _, _ in MUTANTS))
    for kind, base, sort, changes in MUTANTS:
        number[kind] += 1
        lines.append(
            {
                "id": f"{kind}-mutant-{number[kind]}",
                **change_line(BASES[base], changes),
                "truth": f"type{sort}",
                "code": kind,
            }
        )
    clean += [("L21", "read"), ("L21", "image")]
    for kind, base in clean:
        if number["c" + kind] == _CLEAN:
            continue
        number["c" + kind] += 1
        lines.append({"id": f"{kind}-clean-{number['c' + kind]}", **BASES[base], "truth": "correct", "code": kind})
    return lines


def build_sketches() -> list[dict[str, Any]]:
    lines = [{"id": f"sketch-clean-{n}", **entry, "truth": "correct"} for n, entry in enumerate(CORRECT, start=1)]
    for number, (kind, _, entry) in enumerate(WRONG, start=1):
        lines.append({"id": f"sketch-mutant-{number}", **entry, "truth": "type2", "code": kind})
    return lines


def build_episode_lines(offline: Path, twins: Path) -> list[dict[str, Any]]:
    """Return some twins of every kind of planted error with their originals, rotating through the dialects."""
    correct = {line["id"]: line for line in map(json.loads, offline.open(encoding="utf-8"))}
    taken, lines, used = Counter[str](), [], set()
    for twin in map(json.loads, twins.open(encoding="utf-8")):
        kind, origin = twin["code"], twin["id"].rpartition("/")[0]
        if (
            kind not in PLANTED
            or taken[kind] >= _EACH
            or (kind, origin) in used
            or len(json.dumps(twin)) > _LONGEST
            or origin in used
        ):
            continue
        taken[kind] += 1
        used |= {(kind, origin), origin}
        dialect = DIALECTS[len(lines) % len(DIALECTS)]
        seen_only = kind == "swapped_readings" and twin["action"]["name"] == "VisualInspection"
        beyond = {"decidable": False} if kind in BEYOND or seen_only else {}
        labels = {"code": PLANTED[kind], "planted": kind}
        lines.append({**write_in_dialect({k: v for k, v in twin.items() if k != "why"}, dialect), **labels, **beyond})
        lines.append({**write_in_dialect(correct[origin], dialect), **labels})
    return lines


if __name__ == "__main__":
    for entry in (*build_mutants(), *build_sketches(), *build_episode_lines(Path(sys.argv[1]), Path(sys.argv[2]))):
        print(json.dumps(entry, ensure_ascii=False))
