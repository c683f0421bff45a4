"""Sound ways to a goal that its rubric's author had not written down: other instruments, other designs, other economy.

Each was planned from the goal and the bench alone, before the rubric was read; the attempt was corrected if the verdict rightly missed something (calibrators around the samples, each drug alone), and the rubric if it was too narrow. Each must
suffice, whatever the seed, and must not suffice without the one measurement it hangs on.
"""

import pytest

from simulation.lab.bench import Bench
from simulation.lab.materials import build_inventory
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.rules import RuleBasedTransitionModel
from tests.support.laboratory_factory import SmallLab

SUBMIT = "SubmitMaterialsObservationsForReview"


class Attempt(SmallLab):
    """Steps on an experiment's bench, with materials by key. Every step must be accepted."""

    def __init__(self, lab, slug, seed, complete):
        self.spec, self.complete = lab.specs[slug], complete
        inventory = build_inventory(self.spec.initial_materials(), seed)
        self.bench = Bench(self.spec.goal, lab.catalogue, inventory, seed, self.spec.max_steps)
        self.codes = {key: placed.barcode for (key, _), placed in zip(self.spec.materials, inventory, strict=True)}
        self.model = RuleBasedTransitionModel(seed, self.spec.truth)

    def run_step(self, action, keys, made="", **parameters):
        step = super().run_step(action, keys, made, **parameters)
        assert step.outcome.success, f"{action} ({keys}): {step.outcome.failure_reason}"
        return step

    def decisive(self, action, keys, **parameters):
        """Run the measurement on which the conclusion depends."""
        if self.complete:
            self.run_step(action, keys, **parameters)

    def verdict(self):
        self.run_step(SUBMIT, "")
        assert self.bench.ending == "submitted"
        return ChecklistClassifier(self.spec.rubric, self.spec.goal).judge_evidence(
            self.spec.goal, self.bench.get_transcript()
        )


def three(*names):
    """Return keys of three vessels for each name."""
    return " ".join(f"{name}_{number}" for name in names for number in (1, 2, 3))


def chloride_by_weighing_the_bottle(lab):
    """Portions by difference, sodium chloride as recovery control, silver left over in the mother liquor."""
    weigh = {"balance": "analytical", "tare": True}
    for portion in ("a", "b", "c"):
        lab.run_step("MeasureWeight", "unknown", **weigh)
        lab.run_step(
            "Transfer", "unknown beakers", portion, source="@unknown", mass="0.3 g", label=f"Unknown {portion}"
        )
    lab.decisive("MeasureWeight", "unknown", **weigh)
    lab.run_step("Transfer", "sodium_chloride beakers", "d", source="@sodium_chloride", mass="0.25 g", label="Recovery")
    lab.run_step("MeasureWeight", "d", **weigh)
    crucibles = "crucible_1 crucible_2 crucible_3 crucible_4"
    lab.run_step("MeasureWeight", crucibles, balance="analytical", tare=False)
    lab.run_step("Resuspend", "a b c d water", solvent="@water", volume="150 mL", method="shake")
    lab.run_step("Dilute", "a b c d nitric", solvent="@nitric", volume="1 mL")
    lab.run_step("Dilute", "a b c d silver", solvent="@silver", volume="80 mL", dropwise=True)
    lab.run_step("Incubate", "a b c d", temperature="85 °C", duration="1 h")
    lab.run_step("Storage", "a b c d", condition="room_temp", duration="12 h", protect_from_light=True)
    lab.run_step("Filter", f"a b c d {crucibles} flasks wash", "fa fb fc fd ra rb rc rd", pore_size="4 µm", method="vacuum",
           filter_type="filter crucible", keep_residue=True, residue_wash="@wash", residue_wash_volume="10 mL",
           residue_washes=5, keep_last_rinse=True)  # fmt: skip
    for portion in "abcd":
        lab.run_step("Aliquot", f"f{portion} test_tubes", f"t{portion}", volume="2 mL")
    lab.run_step("Dilute", "ta tb tc td hydrochloric", solvent="@hydrochloric", volume="0.5 mL")
    lab.run_step("VisualInspection", "ta tb tc td", question="Is there a white cloud, which shows silver in excess?")
    lab.run_step("Dilute", "ra rb rc rd hydrochloric", solvent="@hydrochloric", volume="0.5 mL")
    lab.run_step("VisualInspection", "ra rb rc rd", question="Is the last rinse clear, without silver?")
    for hours in (2, 1):
        lab.run_step("DryingOven", crucibles, temperature="110 °C", duration=f"{hours} h")
        lab.run_step("MeasureWeight", crucibles, balance="analytical", tare=False)


def caffeine_by_standard_addition(lab):
    """No external calibration: each drink is its own matrix, with 0, 100, 200 and 400 µg of caffeine added."""
    lab.run_step("Degas", "drink", method="sonication", duration="10 min")
    flasks = [f"{drink}_{added}" for drink in ("coffee", "tea", "drink") for added in (0, 100, 200, 400)]
    for flask in flasks:
        drink, added = flask.split("_")
        lab.run_step(
            "Transfer", f"{drink} flasks", flask, source=f"@{drink}", amount="200 µL", label=f"{drink} and {added}"
        )
        if added != "0":
            lab.run_step("Transfer", f"stock {flask}", source="@stock", amount=f"{added} µL")
    lab.run_step("FillToVolume", " ".join([*flasks, "water"]), solvent="@water", total_volume="10 mL")
    vials = " ".join(f"vial_{flask}" for flask in flasks)
    lab.run_step("Filter", " ".join([*flasks, "vials"]), vials, pore_size="0.22 µm", volume="1.5 mL")
    lab.run_step("Aliquot", "water vials", "blank", volume="1.5 mL")
    lab.decisive("HPLC", f"{vials} blank", detection_wavelength="273 nm", replicate_injections=3)


def weathering_by_centrifuge_and_single_calibrators(lab):
    """Spun and drawn off instead of filtered; calibrators pipetted one by one; no flask is opened before day 14."""
    microbes = ("species_1", "species_2", "species_3", "consortium_x", "consortium_y")
    flasks = three(*(f"flask_{name}" for name in (*microbes, "sterile")))
    for name in (*microbes, "sterile"):
        lab.run_step("Aliquot", "medium flasks", three(f"flask_{name}"), volume="25 mL", count=3, label=f"Flask {name}")
    lab.run_step("Transfer", f"apatite {flasks}", source="@apatite", mass="250 mg")
    bare = " ".join(f"flask_bare_{name}" for name in microbes)
    lab.run_step("Aliquot", "medium flasks", bare, volume="25 mL", count=5, label="Flask without mineral")
    turbidity = {"mode": "absorbance", "wavelength": "600 nm", "path_length": "2 mm"}
    lab.run_step("UsePhotospectrometer", " ".join(microbes), **turbidity)
    for name in microbes:
        lab.run_step(
            "Transfer", f"{name} {three(f'flask_{name}')} flask_bare_{name}", source=f"@{name}", amount="0.5 mL"
        )
    flasks = f"{flasks} {bare}"
    lab.run_step("CellCultureIncubate", flasks, duration="14 day", temperature="28 °C", carbon_dioxide="0 %")
    lab.run_step("UsePhotospectrometer", three("flask_sterile"), **turbidity)
    lab.run_step("Centrifuge", flasks, force="4000 x g", duration="20 min")
    samples = flasks.replace("flask", "sample")
    lab.run_step("Aspirate", f"{flasks} tubes", samples, volume="1 mL")
    lab.run_step("Dilute", f"{samples} acid", solvent="@acid", volume="9 mL")
    volumes = (5, 50, 100, 200, 500, 1000)
    for volume in volumes:
        lab.run_step("Transfer", "standard tubes", f"std_{volume}", source="@standard", amount=f"{volume} µL",
               label=f"Calibrator {volume}")  # fmt: skip
    standards = " ".join(f"std_{volume}" for volume in volumes)
    lab.run_step("FillToVolume", f"{standards} acid", solvent="@acid", total_volume="10 mL")
    lab.run_step("Aliquot", "acid tubes", "blank", volume="10 mL")
    ions = {"ionization": "ICP", "introduction": "nebulizer", "elements": ["Ca", "P"], "sample_volume": "1 mL"}
    lab.run_step("MassSpectrometry", f"{samples} blank", **ions)
    lab.decisive("MassSpectrometry", standards, **ions)


def biofilm_dissolved_in_ethanol_and_read_in_cuvettes(lab):
    """Ethanol instead of acetic acid, the spectrometer instead of the plate reader, poured instead of pipetted over."""
    isolates = ("isolate_1", "isolate_2", "isolate_3", "isolate_4")
    chips = three(*(f"chip_{name}" for name in (*isolates, "sterile")))
    for name in (*isolates, "sterile"):
        lab.run_step("Aliquot", "medium chips", three(f"chip_{name}"), volume="1 mL", count=3, label=f"Chip {name}")
    lab.run_step("UsePhotospectrometer", " ".join(isolates), mode="absorbance", wavelength="600 nm", path_length="2 mm")
    for name in isolates:
        lab.run_step("Transfer", f"{name} {three(f'chip_{name}')}", source=f"@{name}", amount="10 µL")
    lab.run_step("CellCultureIncubate", chips, duration="48 h", temperature="28 °C", carbon_dioxide="0 %")
    lab.run_step("Aspirate", chips, keep_supernatant=False)
    lab.run_step("Wash", f"{chips} saline stain", wash_medium="@saline", replacement_medium="@stain", washes=3,
           wash_volume="2 mL", replacement_volume="1.5 mL")  # fmt: skip
    lab.run_step("Incubate", chips, temperature="22 °C", duration="15 min")
    lab.run_step("Aspirate", chips, keep_supernatant=False)
    moved = chips.replace("chip_", "moved_")
    lab.run_step("Wash", f"{chips} water wells", moved, wash_medium="@water", replacement_medium="@water", washes=3,
           wash_volume="2 mL", replacement_volume="1 mL", fresh_vessels=True)  # fmt: skip
    lab.run_step("Aspirate", moved, keep_supernatant=False)
    lab.run_step("Transfer", f"ethanol {moved}", source="@ethanol", amount="1.5 mL")
    lab.run_step("Incubate", moved, temperature="22 °C", duration="15 min")
    lab.run_step("Aliquot", "ethanol cuvettes", "blank", volume="1.5 mL")
    lab.decisive("UsePhotospectrometer", f"{moved} blank", mode="absorbance", wavelength="590 nm")


def acidifiers_followed_over_time_with_washed_cells(lab):
    """Cells washed free of their old medium; every culture is its own baseline and is read twice."""
    isolates = ("isolate_a", "isolate_b", "isolate_c", "isolate_d")
    pellets = " ".join(f"cells_{name}" for name in isolates)
    for name in isolates:
        lab.run_step("Aliquot", f"{name} small_tubes", f"cells_{name}", volume="5 mL")
    lab.run_step("Centrifuge", pellets, force="4000 x g", duration="10 min")
    lab.run_step("Wash", f"{pellets} saline", wash_medium="@saline", replacement_medium="@saline", washes=2,
           wash_volume="5 mL", replacement_volume="5 mL")  # fmt: skip
    lab.run_step("Mix", pellets, method="vortex")
    turbidity = {"mode": "absorbance", "wavelength": "600 nm", "path_length": "2 mm"}
    lab.run_step("UsePhotospectrometer", pellets, sample_volume="500 µL", **turbidity)
    cultures = three(*isolates)
    for name in isolates:
        lab.run_step("Aliquot", "glucose_medium tubes", three(name), volume="15 mL", count=3, label=f"Culture {name}")
        lab.run_step("Aliquot", "plain_medium tubes", f"plain_{name}", volume="15 mL", label=f"Plain {name}")
        lab.run_step("Transfer", f"cells_{name} {three(name)} plain_{name}", source=f"@cells_{name}", amount="150 µL")
    lab.decisive("MeasurepH", cultures)
    everything = " ".join([cultures, *(f"plain_{name}" for name in isolates)])
    for hours in (24, 48):
        lab.run_step("CellCultureIncubate", everything, duration=f"{hours} h", temperature="30 °C", shaking="150 rpm")
        lab.run_step("MeasurepH", everything)
    lab.run_step("UsePhotospectrometer", cultures, sample_volume="1 mL", **turbidity)


def colonies_by_long_reads_of_whole_plasmids(lab):
    """No PCR, no gel, no primers: minipreps of all, read end to end."""
    colonies = " ".join(f"colony_{number}" for number in range(1, 21))
    lab.run_step("SeparateWells", "plate", colonies)
    everything = f"{colonies} verified empty_vector"
    lab.run_step("Centrifuge", everything, force="4000 x g", duration="10 min")
    lab.run_step("AttemptDNAExtraction", f"{everything} kit", method="alkaline lysis", lysis_time="5 min", rnase=True)
    lab.run_step("NucleicAcidQuantification", everything)
    lab.decisive("DNASequencing", everything, method="nanopore", template="plasmid", read_length="6 kb", coverage=100)


def p2a_with_its_linear_range_shown_by_anti_mcherry(lab):
    """One lysate diluted for the range of anti-mCherry; anti-GFP on all lysates; one uncleavable and one untransfected well."""
    lab.run_step("Aliquot", "cells plates", "p1 p2 p3 u n", volume="2 mL", count=5, label="Well")
    lab.run_step("CellCultureIncubate", "p1 p2 p3 u n", duration="24 h")
    for mix, plasmid, wells, share in (("mp", "plasmid", "p1 p2 p3", 3), ("mu", "uncleavable", "u", 1)):
        lab.run_step("Transfer", f"{plasmid} microtubes", mix, source=f"@{plasmid}", amount=f"{4 * share} µL")
        lab.run_step("Dilute", f"{mix} serum_free", solvent="@serum_free", volume=f"{190 * share} µL")
        lab.run_step("Dilute", f"{mix} pei", solvent="@pei", volume=f"{6 * share} µL")
        lab.run_step("Incubate", mix, temperature="22 °C", duration="20 min")
        lab.run_step("Transfer", f"{mix} {wells}", source=f"@{mix}", amount="200 µL")
    lab.run_step("CellCultureIncubate", "p1 p2 p3 u n", duration="48 h")
    lab.run_step("Wash", "p1 p2 p3 u n pbs", wash_medium="@pbs", replacement_medium="@pbs", wash_volume="2 mL",
           replacement_volume="1 mL", washes=2)  # fmt: skip
    lab.run_step("Aspirate", "p1 p2 p3 u n", keep_supernatant=False)
    lab.run_step("Dilute", "p1 p2 p3 u n ripa", solvent="@ripa", volume="250 µL")
    lab.run_step("Incubate", "p1 p2 p3 u n", temperature="4 °C", duration="20 min", shaking="60 rpm")
    for well in ("p1", "p2", "p3", "u", "n"):
        lab.run_step(
            "Transfer", f"{well} microtubes", f"l{well}", source=f"@{well}", amount="240 µL", label=f"Lysate {well}"
        )
    lysates = "lp1 lp2 lp3 lu ln"
    lab.run_step("Centrifuge", lysates, force="14000 x g", duration="15 min", temperature="4 °C")
    lab.run_step("TotalProteinQuantification", f"{lysates} protein_reagent", assay="bicinchoninic acid",
           reagent="@protein_reagent", sample_volume="10 µL")  # fmt: skip
    lab.run_step("Dilute", f"{lysates} sample_buffer", solvent="@sample_buffer", volume="200 µL")
    lab.run_step("SerialDilute", "lp1 sample_buffer microtubes", "half quarter", diluent="@sample_buffer", factor=2,
           dilutions=2, transfer_volume="20 µL")  # fmt: skip
    lab.run_step("CapillaryWestern", f"{lysates} anti_gfp secondary anti_actin", primary_antibody="@anti_gfp",
                 secondary_antibody="@secondary", loading_control_antibody="@anti_actin")  # fmt: skip
    lab.decisive("CapillaryWestern", f"{lysates} half quarter anti_mcherry secondary anti_actin",
                 primary_antibody="@anti_mcherry", secondary_antibody="@secondary",
                 loading_control_antibody="@anti_actin")  # fmt: skip


def puromycin_counted_under_the_microscope(lab):
    """Green among all nuclei in place, three wells a dose, instead of a cytometer; only the killed cells are harvested, from two wells a dose."""
    tenths = (0, 2, 5, 10, 15, 20, 30, 50)  # µg/mL times ten
    wells = three(*(f"dose_{dose}" for dose in tenths))
    lab.run_step("Transfer", "puromycin microtubes", "working", source="@puromycin", amount="12 µL")
    lab.run_step("Dilute", "working medium", solvent="@medium", volume="1188 µL")
    lab.run_step("Aliquot", "transduced plates", wells, volume="0.4 mL", count=24, label="Transduced")
    killed = "kill_0 kill_0b kill_5 kill_5b kill_10 kill_10b kill_20 kill_20b"
    lab.run_step("Aliquot", "untransduced plates", killed, volume="0.4 mL", count=8, label="Untransduced")
    everything = f"{wells} {killed}"
    lab.run_step("Dilute", f"{everything} medium", solvent="@medium", volume="0.5 mL")
    lab.run_step("CellCultureIncubate", everything, duration="24 h")
    for dose in tenths[1:]:
        also = f" kill_{dose} kill_{dose}b" if f"kill_{dose}" in killed.split() else ""
        lab.run_step("Transfer", f"working {three(f'dose_{dose}')}{also}", source="@working", amount=f"{dose} µL")
    lab.run_step("FillToVolume", f"{everything} medium", solvent="@medium", total_volume="1 mL")
    lab.run_step("CellCultureIncubate", everything, duration="72 h")
    lab.run_step("Wash", f"{everything} pbs medium", wash_medium="@pbs", replacement_medium="@medium", washes=2,
           wash_volume="1 mL", replacement_volume="1 mL")  # fmt: skip
    lab.run_step("Transfer", f"hoechst {everything}", source="@hoechst", amount="1 µL")
    lab.run_step("CellCultureIncubate", everything, duration="15 min")
    lab.decisive("UseMicroscope", everything, mode="fluorescence", objective="20x", fields=20,
                 channels=["DAPI 385/450", "GFP 475/525"])  # fmt: skip
    lab.run_step("Wash", f"{killed} pbs trypsin", wash_medium="@pbs", replacement_medium="@trypsin",
           wash_volume="1 mL", replacement_volume="200 µL")  # fmt: skip
    lab.run_step("CellCultureIncubate", killed, duration="5 min")
    lab.run_step("Dilute", f"{killed} facs_buffer", solvent="@facs_buffer", volume="300 µL")
    lab.run_step("CellCounter", killed)


def titer_from_volumes_and_pictures(lab):
    """Volumes of the stock straight onto the wells, no dilution series; green cells counted in place, no cytometer."""
    volumes = ("0.5", "1", "2", "5", "10", "20")
    wells = three(*(f"dose_{volume}" for volume in volumes), "none")
    lab.run_step("Storage", "virus", condition="ice", duration="1 h")
    lab.run_step("Aliquot", "cells plates", f"{wells} {three('count')}", volume="0.2 mL", count=24, label="Well")
    lab.run_step("Dilute", f"{wells} {three('count')} medium", solvent="@medium", volume="0.3 mL")
    lab.run_step("CellCultureIncubate", f"{wells} {three('count')}", duration="18 h")
    lab.run_step("Aspirate", three("count"), keep_supernatant=False)
    lab.run_step("Dilute", f"{three('count')} trypsin", solvent="@trypsin", volume="200 µL")
    lab.run_step("CellCultureIncubate", three("count"), duration="5 min")
    lab.decisive("CellCounter", three("count"))
    lab.run_step("Dilute", f"{wells} polybrene", solvent="@polybrene", volume="0.5 µL")
    for volume in volumes:
        lab.run_step("Transfer", f"virus {three(f'dose_{volume}')}", source="@virus", amount=f"{volume} µL")
    lab.run_step("CellCultureIncubate", wells, duration="72 h")
    lab.run_step("UseMicroscope", wells, mode="fluorescence", objective="20x", channels=["GFP 475/525"], fields=20)


def both_drugs_in_one_premixed_addition(lab):
    """A tenfold cocktail added once, in dishes; each drug alone and the solvent alone as tenfold mixes of their own."""
    groups = {"both": "b1 b2 b3", "solvent": "s1 s2 s3", "ionomycin_alone": "i1 i2", "forskolin_alone": "f1 f2"}
    dishes, plain = " ".join(groups.values()), "p1 p2"
    lab.run_step("Aliquot", "cells dishes", f"{dishes} {plain}", volume="0.8 mL", count=12, label="Dish")
    lab.run_step("CellCultureIncubate", f"{dishes} {plain}", duration="24 h")
    lab.run_step("Transfer", "plasmid tubes", "mix", source="@plasmid", amount="20 µL")
    lab.run_step("Dilute", "mix optimem", solvent="@optimem", volume="950 µL")
    lab.run_step("Dilute", "mix pei", solvent="@pei", volume="30 µL")
    lab.run_step("Incubate", "mix", temperature="22 °C", duration="20 min")
    lab.run_step("Transfer", f"mix {dishes}", source="@mix", amount="90 µL")
    lab.run_step("CellCultureIncubate", f"{dishes} {plain}", duration="48 h")
    lab.run_step("Wash", f"{dishes} {plain} buffer", wash_medium="@buffer", replacement_medium="@buffer", washes=2,
           wash_volume="1 mL", replacement_volume="900 µL")  # fmt: skip
    lab.run_step("Storage", "ionomycin forskolin", condition="room_temp", duration="30 min")
    # Two parts of 10 µL in 1 mL, a tenth of the dish: 10 µM ionomycin, 50 µM forskolin, 0.2 % solvent everywhere.
    parts = {"both": "ionomycin forskolin", "solvent": "dmso dmso", "ionomycin_alone": "ionomycin dmso",
             "forskolin_alone": "forskolin dmso"}  # fmt: skip
    for mix, (first, second) in ((mix, pair.split()) for mix, pair in parts.items()):
        lab.run_step("Transfer", f"{first} tubes", mix, source=f"@{first}", amount="10 µL")
        lab.run_step("Transfer", f"{second} {mix}", source=f"@{second}", amount="10 µL")
        lab.run_step("FillToVolume", f"{mix} buffer", solvent="@buffer", total_volume="1 mL")
    lab.run_step("UseMicroscope", plain, mode="fluorescence", objective="20x",
           channels=["CFP 436/480", "FRET 436/535", "RFP 555/605"])  # fmt: skip
    for mix, group in groups.items():
        record = lab.decisive if mix == "both" else lab.run_step
        record("UseMicroscope", f"{group} {mix}", mode="fluorescence", objective="20x", compound=f"@{mix}",
               channels=["CFP 436/480", "FRET 436/535", "RFP 555/605"], compound_volume="100 µL", compound_at="60 s",
               record_for="10 min", frame_interval="5 s")  # fmt: skip


def glutamate_doses_in_a_plate_reader(lab):
    """Tenfold solutions injected by the reader, a well of its own for each dose, instead of a perfused dish."""
    doses = (0, 1, 3, 10, 30, 100, 300, 1000)  # µM in the well
    wells = three(*(f"well_{dose}" for dose in doses), "untransduced")
    lab.run_step("Aliquot", "neurons plates", wells, volume="100 µL", count=27, label="Well")
    lab.run_step("CellCultureIncubate", wells, duration="5 day")
    lab.run_step("Storage", "aav", condition="ice", duration="30 min")
    lab.run_step("Transfer", "aav tubes", "virus", source="@aav", amount="20 µL")
    lab.run_step("Dilute", "virus medium", solvent="@medium", volume="380 µL")
    lab.run_step("Transfer", f"virus {three(*(f'well_{dose}' for dose in doses))}", source="@virus", amount="10 µL")
    lab.run_step("CellCultureIncubate", wells, duration="10 day")
    lab.run_step("Wash", f"{wells} buffer", wash_medium="@buffer", replacement_medium="@buffer", washes=2,
           wash_volume="100 µL", replacement_volume="90 µL")  # fmt: skip
    lab.run_step("Aliquot", "buffer tubes", "x0", volume="1 mL")
    # 100 mM stock in 1 mL: 1 µL gives 100 µM, ten times the 10 µM dose; 10 µL of the 1 mM solution give 10 µM.
    for dose, source, volume in (
        (1000, "glutamate", 100), (300, "glutamate", 30), (100, "glutamate", 10), (30, "glutamate", 3),
        (10, "glutamate", 1), (3, "x300", 10), (1, "x100", 10),
    ):  # fmt: skip
        lab.run_step("Transfer", f"{source} tubes", f"x{dose}", source=f"@{source}", amount=f"{volume} µL")
        lab.run_step("FillToVolume", f"x{dose} buffer", solvent="@buffer", total_volume="1 mL")
    for dose in doses:
        record = lab.decisive if dose == 1 else lab.run_step
        also = f" {three('untransduced')}" if dose == 1000 else ""
        record("UsePlateReader", f"{three(f'well_{dose}')}{also} x{dose}", mode="fluorescence",
               excitation_wavelength="485 nm", emission_wavelength="525 nm", compound=f"@x{dose}",
               compound_volume="10 µL", compound_at="20 s", record_for="120 s", frame_interval="1 s")  # fmt: skip


def minicells_held_constant_on_more_or_fewer_cells(lab):
    """The ratio is set by the cells: 50 to 800 µL of them, 10 µL of minicells each; cells counted at feeding."""
    volumes = (50, 100, 200, 400, 800)
    fed = three(*(f"cells_{volume}" for volume in volumes))
    for volume in volumes:
        lab.run_step(
            "Aliquot", "cells plates", three(f"cells_{volume}"), volume=f"{volume} µL", count=3, label=f"{volume}"
        )
    beside = three("unfed", "plain", "count", "cold")
    lab.run_step("Aliquot", "cells plates", beside, volume="200 µL", count=12, label="Beside")
    lab.run_step("FillToVolume", f"{fed} {beside} medium", solvent="@medium", total_volume="1 mL")
    lab.run_step("CellCultureIncubate", f"{fed} {beside}", duration="18 h")
    lab.run_step("Aspirate", three("count"), keep_supernatant=False)
    lab.run_step("Dilute", f"{three('count')} trypsin", solvent="@trypsin", volume="200 µL")
    lab.run_step("CellCultureIncubate", three("count"), duration="5 min")
    lab.run_step("CellCounter", three("count"))
    lab.run_step("CountLiquidParticles", "minicells pbs", method="flow imaging", size_minimum="200 nm",
           size_maximum="2 µm", sample_volume="100 µL")  # fmt: skip
    lab.run_step("Transfer", f"minicells {fed} {three('cold')}", source="@minicells", amount="10 µL")
    lab.run_step("Transfer", f"plain_minicells {three('plain')}", source="@plain_minicells", amount="10 µL")
    wells = f"{fed} {three('unfed', 'plain')}"
    lab.run_step("CellCultureIncubate", wells, duration="4 h")
    lab.run_step("Incubate", three("cold"), temperature="4 °C", duration="4 h")
    wells = f"{wells} {three('cold')}"
    lab.run_step("Wash", f"{wells} pbs", wash_medium="@pbs", replacement_medium="@pbs", washes=3, wash_volume="1 mL",
           replacement_volume="1 mL")  # fmt: skip
    lab.run_step("Aspirate", wells, keep_supernatant=False)
    lab.run_step("Dilute", f"{wells} trypsin", solvent="@trypsin", volume="200 µL")
    lab.run_step("CellCultureIncubate", wells, duration="5 min")
    lab.run_step("Dilute", f"{wells} facs_buffer", solvent="@facs_buffer", volume="800 µL")
    lab.decisive("FlowCytometry", fed)
    lab.run_step("FlowCytometry", three("unfed", "plain", "cold"))


def progeny_by_sequence_alone(lab):
    """No digest and no gel: one read of each fragment, the reaction without template read beside them."""
    fish = " ".join(f"fish_{number}" for number in range(1, 9))
    lab.run_step("SeparateWells", "plate", fish)
    lab.run_step("AttemptDNAExtraction", f"{fish} kit", method="silica column")
    templates = [*fish.split(), "wild_type_dna", "nacre_dna", "parent_dna", "water"]
    for template in templates:
        lab.run_step("Transfer", f"{template} pcr_tubes", f"pcr_{template}", source=f"@{template}", amount="2 µL",
               label=f"PCR {template}")  # fmt: skip
    reactions = " ".join(f"pcr_{template}" for template in templates)
    for part, volume in (("forward_primer", 1), ("reverse_primer", 1), ("water", 6), ("pcr_mix", 10)):
        lab.run_step("Dilute", f"{reactions} {part}", solvent=f"@{part}", volume=f"{volume} µL")
    lab.run_step("Thermocycler", reactions, cycles=35)
    lab.decisive("DNASequencing", f"{reactions} forward_primer", direction="forward", template="PCR product",
           primer_tube="@forward_primer", sample_volume="5 µL")  # fmt: skip


ROUTES = {
    chloride_by_weighing_the_bottle: "chloride-gravimetric-analysis",
    caffeine_by_standard_addition: "caffeine-hplc-analysis",
    weathering_by_centrifuge_and_single_calibrators: "weathering-enhancement-quantification",
    biofilm_dissolved_in_ethanol_and_read_in_cuvettes: "biofilm-forming-microbes",
    acidifiers_followed_over_time_with_washed_cells: "acidifying-microbes",
    colonies_by_long_reads_of_whole_plasmids: "gfp-colony-screening",
    p2a_with_its_linear_range_shown_by_anti_mcherry: "p2a-cleavage-efficiency",
    puromycin_counted_under_the_microscope: "puromycin-concentration-optimization",
    titer_from_volumes_and_pictures: "lentivirus-moi-optimization",
    minicells_held_constant_on_more_or_fewer_cells: "minicell-uptake",
    progeny_by_sequence_alone: "zebrafish-progeny-genotyping",
    both_drugs_in_one_premixed_addition: "dual-fret-biosensor",
    glutamate_doses_in_a_plate_reader: "iglusnfr3-glutamate-biosensor",
}


def verdict_of(lab, route, seed, complete=True):
    attempt = Attempt(lab, ROUTES[route], seed, complete)
    route(attempt)
    return attempt.verdict()


@pytest.mark.parametrize("seed", [3, 8])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_alternative_route_is_sufficient(lab, route, seed):
    verdict = verdict_of(lab, route, seed)
    assert verdict.sufficient, verdict.reasoning


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_alternative_route_without_its_decisive_measurement_is_insufficient(lab, route):
    assert not verdict_of(lab, route, 3, complete=False).sufficient
