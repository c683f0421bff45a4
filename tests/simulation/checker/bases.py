"""Correct transitions in the style of several simulators. Each mutant of the suite is one change away from one of them."""

from typing import Any

ROOM, FRIDGE, CULTURE, INCUBATOR = "room_temp", "4C", "cell_culture_conditions", "incubating_conditions"


def build_material(name: str, properties: dict[str, Any], condition: str = ROOM, supply: str = "available_for_further_use",
          kind: str = "static", **more: Any) -> dict[str, Any]:  # fmt: skip
    return {"name": name, "properties": properties, "available_for_use": supply, "material_type": kind,
            "environmental_condition": condition, **more}  # fmt: skip


def put_on_bench(number: int, material: dict[str, Any], created: Any = 0, modified: Any = 600) -> dict[str, Any]:
    """Return a material on the bench, with a barcode and times."""
    return {"barcode": barcode_of(number), **material, "created_at": created, "last_modified": modified}


def barcode_of(number: int) -> str:
    return f"MAT-TEST{number:04}"


def build_observation(description: str, value: str = "", kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    return {"description": description, "measurement_type": kind, "value": value, **more}


def build_transition(action: str, parameters: dict[str, Any], inputs: list[dict[str, Any]], outputs: list[dict[str, Any]],
         seen: list[dict[str, Any]] | None = None) -> dict[str, Any]:  # fmt: skip
    numbered = [
        material if "barcode" in material else put_on_bench(n, material) for n, material in enumerate(inputs, start=1)
    ]
    return {
        "experiment": "made-up",
        "input_materials": numbered,
        "action": {"name": action, "parameters": parameters, "materials": [m["barcode"] for m in numbered]},
        "outcome": {
            "new_materials": outputs,
            "new_observations": seen or [],
            "reasoning": "",
            "success": True,
            "failure_reason": "",
        },
    }


WATER = {"volume": "500 mL", "container": "500 mL bottle", "container_capacity": "550 mL"}
EMPTY = {"state": "empty", "container": "1.5 mL tube", "capacity": "1.5 mL"}


def _pcr_properties(volume: str, temperature: str = "") -> dict[str, Any]:
    more = {"temperature": temperature} if temperature else {}
    return {
        "volume": volume,
        "container": "0.2 mL PCR tube",
        "capacity": "0.2 mL",
        "contents": "mitfa primers, genomic DNA",
        **more,
    }


BASES: dict[str, dict[str, Any]] = {
    # 10 mL less 1 mL: 9 mL; the portion has the concentration of the stock
    "transfer": build_transition(
        "Transfer", {"source": barcode_of(1), "destination": barcode_of(2), "volume": "1000 uL"},
        [build_material("Caffeine stock", {"volume": "10.0 mL", "caffeine_concentration": "1.00 mg/mL", "container": "15 mL tube", "lot": "A17"}),
         build_material("Empty vial A", {"volume": "0 mL", "container": "2 mL vial", "max_volume": "2 mL"})],
        [build_material("Caffeine stock (residual)", {"volume": "9.0 mL", "caffeine_concentration": "1.00 mg/mL", "container": "15 mL tube", "lot": "A17"}),
         build_material("Vial A with caffeine", {"volume": "1.00 mL", "caffeine_concentration": "1.00 mg/mL", "container": "2 mL vial", "max_volume": "2 mL"})]),
    # 10 mg/mL x 5 µL in 505 µL = 0.099 mg/mL = 99 µg/mL
    "dose": build_transition(
        "ExperimentTransfer", {"from": barcode_of(2), "to": barcode_of(1), "amount": "5 µL"},
        [build_material("HEK293T cells", {"media_volume": "500 µL", "cell_type": "HEK293T", "container": "24-well plate well", "well_capacity_volume": "3.4 mL",
                                 "temperature": "37 °C", "CO2": "5 %", "phase": "adherent"}, CULTURE, kind="dynamic"),
         build_material("Puromycin stock", {"volume": "1 mL", "puromycin": {"concentration": "10 mg/mL"}, "container": "1.5 mL tube"}, FRIDGE)],
        [build_material("HEK293T cells with puromycin", {"media_volume": "505 µL", "cell_type": "HEK293T", "container": "24-well plate well", "phase": "adherent",
                                                "well_capacity_volume": "3.4 mL", "puromycin": {"concentration": "99 µg/mL"}}, kind="dynamic"),
         build_material("Residual puromycin stock", {"volume": "995 µL", "puromycin": {"concentration": "10 mg/mL"}, "container": "1.5 mL tube"}, FRIDGE)]),
    # 3 x 200 µL out of 2 mL: 1.4 mL
    "aliquot": build_transition(
        "Aliquot", {"aliquot_volume": "200 µL", "number_of_aliquots": 3},
        [build_material("BSA standard", {"volume_ul": 2000, "bsa_conc_mg_per_ml": 2.0, "container": "5 mL tube"}),
         build_material("Microtubes, empty", {"container": "1.5 mL tube", "capacity": "1.5 mL", "state": "empty"}, supply="unlimited")],
        [build_material("BSA standard", {"volume_ul": 1400, "bsa_conc_mg_per_ml": 2.0, "container": "5 mL tube"}),
         *(build_material(f"BSA aliquot {n}", {"volume_ul": 200, "bsa_conc_mg_per_ml": 2.0, "container": "1.5 mL tube", "capacity": "1.5 mL"}) for n in (1, 2, 3))]),
    # 100, 10, 1 µM from 1 mM by tenfold steps of 100 µL in 900 µL: 2.7 mL of buffer
    "series": build_transition(
        "SerialDilute", {"sample": barcode_of(1), "diluent": barcode_of(2), "transfer_volume": "100 µL", "dilution_factor": "1:10", "num_dilutions": 3},
        [build_material("Forskolin solution", {"volume": "1.0 mL", "concentration": "1 mM"}),
         build_material("HEPES buffer", {"volume": "50 mL", "container": "50 mL tube", "pH": 7.4}),
         build_material("Empty tubes", EMPTY, supply="unlimited")],
        [build_material("Forskolin solution (remaining)", {"volume": "0.9 mL", "concentration": "1 mM"}),
         build_material("HEPES buffer (remaining)", {"volume": "47.3 mL", "container": "50 mL tube", "pH": 7.4}),
         build_material("Forskolin 1:10", {"volume": "900 µL", "concentration": "100 µM", "container": "1.5 mL tube"}),
         build_material("Forskolin 1:100", {"volume": "900 µL", "concentration": "10 µM", "container": "1.5 mL tube"}),
         build_material("Forskolin 1:1000", {"volume": "1000 µL", "concentration": "1.0 µM", "container": "1.5 mL tube"})]),
    # 200 µL of 5 M filled to 1 mL: 1 M
    "dilute": build_transition(
        "Dilute", {"solvent": "Ultrapure water", "final_volume": {"value": 1, "unit": "mL"}},
        [build_material("NaCl solution", {"volume": {"value": 200, "unit": "µL"}, "NaCl concentration": "5 M", "container": {"type": "tube", "capacity": "1.5 mL"}}),
         build_material("Ultrapure water", dict(WATER), supply="unlimited")],
        [build_material("Diluted NaCl solution", {"volume": {"value": 1, "unit": "mL"}, "NaCl concentration": "1.0 M", "container": {"type": "tube", "capacity": "1.5 mL"}})]),
    "fill": build_transition(
        "FillToVolume", {"solvent": barcode_of(2), "target_volume": "10 mL"},
        [build_material("Tea extract", {"volume": "2.5 mL", "container": "10 mL volumetric flask", "container_capacity": "10 mL"}),
         build_material("Ultrapure water", dict(WATER))],
        [build_material("Tea extract", {"volume": "10.0 mL", "container": "10 mL volumetric flask", "container_capacity": "10 mL"}),
         build_material("Ultrapure water", {**WATER, "volume": "492.5 mL"})]),
    # 300 + 200 µL; glucose 20 mM x 300 / 500 = 12 mM
    "combine": build_transition(
        "Combine", {},
        [build_material("Glucose solution", {"volume": "300 µL", "glucose_concentration": "20 mM", "container": "1.5 mL tube", "capacity": "1.5 mL"}),
         build_material("PBS", {"volume": "200 µL", "container": "1.5 mL tube", "capacity": "1.5 mL"})],
        [build_material("Glucose in PBS", {"volume": "500 µL", "glucose_concentration": "12 mM", "container": "1.5 mL tube", "capacity": "1.5 mL"})]),
    "weigh out": build_transition(
        "Transfer", {"source": barcode_of(1), "destination": barcode_of(2), "mass": "50 mg"},
        [build_material("Glucose powder", {"mass": "5.000 g", "physical_form": "powder", "container": "bottle"}),
         build_material("Empty tube", dict(EMPTY))],
        [build_material("Glucose powder", {"mass": "4.950 g", "physical_form": "powder", "container": "bottle"}),
         build_material("Tube with glucose powder", {"mass": "50 mg", "physical_form": "powder", "container": "1.5 mL tube", "capacity": "1.5 mL"})]),
    "mix": build_transition(
        "Mix", {"duration": "30 s", "speed": "1000 rpm"},
        [build_material("Lysate sample", {"volume": "480 µL", "protein concentration": "2.5 mg/mL", "container": "1.5 mL tube", "capacity": "1.5 mL", "cell line": "HEK293T", "pH": 7.4})],
        [build_material("Lysate sample", {"volume": "480 µL", "protein concentration": "2.5 mg/mL", "container": "1.5 mL tube", "capacity": "1.5 mL", "cell line": "HEK293T", "pH": 7.4})],
        [build_observation("The liquid swirled and looked even after mixing at 1000 rpm", "homogeneous", "visual")]),
    "spin": build_transition(
        "Centrifuge", {"force": "300 x g", "time": "5 min", "temperature": "4 °C"},
        [build_material("Yeast culture", {"volume": "5 mL", "strain": "BY4741", "container": "15 mL tube", "capacity": "15 mL"}, kind="dynamic")],
        [build_material("Yeast culture, pelleted", {"volume": "5 mL", "strain": "BY4741", "container": "15 mL tube", "capacity": "15 mL", "phases": "pellet and supernatant"}, FRIDGE, kind="dynamic")],
        [build_observation("A tan pellet is visible at the bottom of the tube after 300 x g", "pellet", "visual")]),
    "incubate": build_transition(
        "Incubate", {"temperature": "37C", "duration": "2 h"},
        [build_material("Digest mixture", {"volume": "50 µL", "trypsin concentration": "10 µg/mL", "container": "1.5 mL tube", "capacity": "1.5 mL"}, kind="dynamic")],
        [build_material("Digest mixture", {"volume": "50 µL", "trypsin concentration": "10 µg/mL", "container": "1.5 mL tube", "capacity": "1.5 mL", "temperature": "37 °C", "incubation_time": "2 h"}, INCUBATOR, kind="dynamic")]),
    # two doublings in 40 h at 20 h each: 2e5 to 8e5
    "culture": build_transition(
        "CellCultureIncubate", {"temperature": "37 °C", "co2": "5 %", "duration": "40 h"},
        [build_material("HEK293T culture", {"volume": "10 mL", "cell_density": "2.0e5 cells/mL", "doubling_time": "20 h", "container": "T75 flask", "capacity": "60 mL"}, kind="dynamic")],
        [build_material("HEK293T culture", {"volume": "10 mL", "cell_density": "7.9e5 cells/mL", "doubling_time": "20 h", "container": "T75 flask", "capacity": "60 mL", "temperature": "37 °C", "CO2": "5 %"}, CULTURE, kind="dynamic")]),
    "cycle": build_transition(
        "Thermocycler", {"cycles": 30, "denaturation_temperature": "95 °C", "annealing_temperature": "58 °C", "extension_temperature": "72 °C"},
        [build_material("PCR reaction fish 1", _pcr_properties("25 µL")), build_material("PCR reaction fish 2", _pcr_properties("25 µL"))],
        [build_material("PCR product fish 1", _pcr_properties("25 µL"), kind="dynamic"), build_material("PCR product fish 2", _pcr_properties("25 µL"), kind="dynamic")],
        [build_observation("Thermocycler run with annealing temperature 58 °C: completed", "run completed", "instrumental")]),
    "store": build_transition(
        "Storage", {"condition": "-80C"},
        [build_material("Plasmid prep", {"volume": "100 µL", "plasmid": "pGFP-N1", "container": "cryovial", "capacity": "1.8 mL", "state": "liquid"}, FRIDGE)],
        [build_material("Plasmid prep", {"volume": "100 µL", "plasmid": "pGFP-N1", "container": "cryovial", "capacity": "1.8 mL", "state": "frozen"}, "-80C")]),
    "freeze": build_transition(
        "FlashFreeze", {},
        [build_material("Minicell suspension", {"volume": "1 mL", "strain": "MC4100", "container": "cryovial", "capacity": "1.8 mL"}, "ice", kind="dynamic")],
        [build_material("Minicell suspension", {"volume": "1 mL", "strain": "MC4100", "container": "cryovial", "capacity": "1.8 mL", "state": "frozen"}, "-196C")]),
    "filter": build_transition(
        "Filter", {"pore_size": "0.22 µm", "membrane": "PES"},
        [build_material("HBSS-K5", {"volume": "50 mL", "KCl": "5 mM", "container": "100 mL bottle", "capacity": "100 mL"}),
         build_material("Sterile bottles", {"state": "empty", "container": "100 mL bottle", "capacity": "100 mL"}, supply="unlimited")],
        [build_material("HBSS-K5, sterile filtrate", {"volume": "49.5 mL", "KCl": "5 mM", "filtered_through": "0.22 µm PES", "container": "100 mL bottle", "capacity": "100 mL"})]),
    "hplc": build_transition(
        "HPLC", {"column": "C18", "detection_wavelength": "273 nm", "injection_volume": "10 µL", "replicate_injections": 3},
        [build_material("Standard 10", {"volume": "1.0 mL", "caffeine concentration": "10 µg/mL", "container": "2 mL HPLC vial"}),
         build_material("Standard 50", {"volume": "1.0 mL", "caffeine concentration": "50 µg/mL", "container": "2 mL HPLC vial"})],
        [build_material("Standard 10", {"volume": "970 µL", "caffeine concentration": "10 µg/mL", "container": "2 mL HPLC vial"}),
         build_material("Standard 50", {"volume": "970 µL", "caffeine concentration": "50 µg/mL", "container": "2 mL HPLC vial"})],
        [build_observation("Standard 10, 273 nm: peak area", "512, 515, 509 mAU·s"), build_observation("Standard 50, 273 nm: peak area", "2551, 2560, 2547 mAU·s")]),
    "image": build_transition(
        "UseMicroscope", {"objective": "20x", "mode": "fluorescence", "excitation_wavelength": "488 nm", "emission_wavelength": "525 nm"},
        [build_material("GFP cells well B2", {"volume": "500 µL", "cell type": "HEK293T", "container": "24-well plate", "phase": "adherent"}, kind="dynamic")],
        [build_material("GFP cells well B2", {"volume": "500 µL", "cell type": "HEK293T", "container": "24-well plate", "phase": "adherent"}, kind="dynamic")],
        [build_observation("Fluorescence image of GFP cells well B2 with the 20x objective, excitation 488 nm", "green cells", "microscopy")]),
    "volume": build_transition(
        "MeasureVolume", {"replicates": 3},
        [build_material("Filtrate", {"volume": "4.50 mL", "container": "15 mL tube", "capacity": "15 mL"})],
        [build_material("Filtrate", {"volume": "4.50 mL", "container": "15 mL tube", "capacity": "15 mL"})],
        [build_observation("Measured volume of Filtrate", "4.48 mL, 4.51 mL, 4.52 mL")]),
    "weight": build_transition(
        "MeasureWeight", {},
        [build_material("Silver chloride precipitate", {"mass": "1.240 g", "phase": "solid", "container": "crucible"})],
        [build_material("Silver chloride precipitate", {"mass": "1.240 g", "phase": "solid", "container": "crucible"})],
        [build_observation("Net mass of Silver chloride precipitate", "1.2403 g")]),
    "acidity": build_transition(
        "MeasurepH", {"temperature": "25 °C"},
        [build_material("Soil isolate broth", {"volume": "10 mL", "species": "Bacillus subtilis", "container": "50 mL tube", "capacity": "50 mL"}, kind="dynamic")],
        [build_material("Soil isolate broth", {"volume": "10 mL", "species": "Bacillus subtilis", "container": "50 mL tube", "capacity": "50 mL"}, kind="dynamic")],
        [build_observation("pH of Soil isolate broth", "5.82")]),
    "count": build_transition(
        "CellCounter", {"method": "trypan blue", "replicates": 2},
        [build_material("HEK293T count sample", {"volume": "50 µL", "cell type": "HEK293T", "state": "suspension", "container": "1.5 mL tube"}, kind="dynamic")],
        [build_material("HEK293T count sample", {"volume": "0 µL", "cell type": "HEK293T", "container": "1.5 mL tube"}, supply="not_available_for_further_use", kind="dynamic")],
        [build_observation("Cell density of HEK293T count sample", "4.1e5 cells/mL, 4.3e5 cells/mL"), build_observation("Viability of HEK293T count sample", "96 %")]),
    "flow": build_transition(
        "FlowCytometry", {"events": 10000, "sample_volume": "200 µL"},
        [build_material("Transduced cells", {"volume": "500 µL", "cell type": "HEK293T", "state": "suspension", "container": "5 mL tube"}, kind="dynamic")],
        [build_material("Transduced cells", {"volume": "300 µL", "cell type": "HEK293T", "state": "suspension", "container": "5 mL tube"}, kind="dynamic")],
        [build_observation("GFP-positive among live single cells", "23.1 % (2310 of 10000 events)", "flow_cytometry")]),
    "gel": build_transition(
        "AgaroseGelElectrophoresis", {"agarose": "1 %", "load_volume": "10 µL", "stain": "SYBR Safe"},
        [build_material("PCR product 1", _pcr_properties("25 µL")), build_material("DNA ladder", {"volume": "100 µL", "container": "1.5 mL tube"}, FRIDGE)],
        [build_material("PCR product 1", _pcr_properties("15 µL")), build_material("DNA ladder", {"volume": "90 µL", "container": "1.5 mL tube"}, FRIDGE),
         build_material("Agarose gel, 1 %", {"phase": "gel", "lanes": "1: PCR product 1; 2: DNA ladder"})],
        [build_observation("Gel under blue light: lane 1", "one band near 400 bp", "visual")]),
    "look": build_transition(
        "VisualInspection", {"question": "Is the liquid clear or cloudy?"},
        [build_material("AAV harvest", {"volume": "20 mL", "container": "50 mL tube", "capacity": "50 mL", "serotype": "AAV9"}, FRIDGE, kind="dynamic")],
        [build_material("AAV harvest", {"volume": "20 mL", "container": "50 mL tube", "capacity": "50 mL", "serotype": "AAV9"}, FRIDGE, kind="dynamic")],
        [build_observation("The liquid is clear and slightly pink; no particles are visible", "clear", "visual")]),
    "plate": build_transition(
        "SeparateWells", {"grouping": "each well"},
        [build_material("Colony plate", {"container": "96-well plate", "wells": 2, "medium": "LB", "antibiotic": "kanamycin", "temperature": "4 °C"}, FRIDGE)],
        [build_material(f"Colony plate well A{n}", {"container": "well of 96-well plate", "medium": "LB", "antibiotic": "kanamycin", "temperature": "4 °C"}, FRIDGE) for n in (1, 2)]),
    "read": build_transition(
        "UsePlateReader", {"mode": "absorbance", "wavelength": "600 nm"},
        [build_material("Biofilm plate", {"volume": "200 µL", "container": "96-well microplate", "strain": "P. fluorescens"})],
        [build_material("Biofilm plate", {"volume": "200 µL", "container": "96-well microplate", "strain": "P. fluorescens"})],
        [build_observation("Absorbance at 600 nm", "0.42", "instrumental")]),
    "discard": build_transition("Discard", {"waste": "biological"}, [build_material("Spent medium", {"volume": "5 mL", "container": "15 mL tube"})], []),
    "thawed": build_transition(
        "Transfer", {"source": barcode_of(1), "destination": barcode_of(2), "volume": "50 µL"},
        [build_material("Competent cells", {"volume": "200 µL", "strain": "DH5alpha", "container": "1.5 mL tube", "state": "suspension"}, "ice", kind="dynamic"),
         build_material("Empty tube", dict(EMPTY), "ice")],
        [build_material("Competent cells", {"volume": "150 µL", "strain": "DH5alpha", "container": "1.5 mL tube", "state": "suspension"}, "ice", kind="dynamic"),
         build_material("Tube with competent cells", {"volume": "50 µL", "strain": "DH5alpha", "container": "1.5 mL tube", "capacity": "1.5 mL", "state": "suspension"}, "ice", kind="dynamic")]),
    "resuspend": build_transition(
        "Resuspend", {"solvent": barcode_of(2), "volume": "1 mL"},
        [build_material("Lyophilized primer", {"mass": "20 µg", "form": "lyophilized", "container": "2 mL tube", "sequence": "ACGTTGCA"}),
         build_material("TE buffer", {"volume": "50 mL", "container": "50 mL tube"})],
        [build_material("Primer solution", {"volume": "1 mL", "concentration": "20 µg/mL", "form": "liquid", "container": "2 mL tube", "sequence": "ACGTTGCA"}),
         build_material("TE buffer", {"volume": "49 mL", "container": "50 mL tube"})]),
    "refused": {
        **build_transition("Transfer", {"source": barcode_of(1), "destination": barcode_of(2), "volume": "5 mL"},
               [build_material("Small stock", {"volume": "1 mL"}), build_material("Empty flask", {"state": "empty", "capacity": "10 mL"})], []),
        "outcome": {"new_materials": [], "new_observations": [], "reasoning": "", "success": False,
                    "failure_reason": "needs 5 mL, only 1 mL is there"},
    },
}  # fmt: skip
