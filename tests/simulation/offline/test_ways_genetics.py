"""Alternative routes to the genetics and minicell goals, including short cuts, and near misses."""

import pytest

from tests.support.protocol_attempts import SUBMIT, plan_step, run_attempt

TAILS = "Which tails are grey or black and which don't have any pigmented lines?"
GFP_IMAGES = {"mode": "fluorescence", "objective": "20x", "channels": ["GFP 475/525"], "fields": 10}


def readings(bench, action, about):
    """Return (description, value) of every observation about this."""
    return [
        (seen.description, seen.value)
        for step in bench.history
        if step.action.name == action
        for seen in step.outcome.new_observations
        if about in seen.description
    ]


def first_number(value):
    return float(value.split()[0].rstrip(","))


def missed(verdict):
    return {line["line"] for line in verdict.lines if not line["met"]}


# Zebrafish Genotyping: nacre/nacre fish have no melanophores, so inspection is enough (paper, case 3).
def test_inspecting_the_tails_of_five_fish_is_sufficient_to_find_nacre_mutants(lab):
    bench, verdict = run_attempt(
        lab,
        "zebrafish-genotyping",
        [plan_step("VisualInspection", [f"fish_{n}" for n in range(1, 6)], question=TAILS), SUBMIT],
    )
    assert verdict.sufficient, verdict.reasoning
    answers = [seen.value for seen in bench.history[0].outcome.new_observations]
    # declared: fish 2 and 4 are nacre/nacre, 1 and 5 WT/nacre, 3 WT/WT
    assert [answer.startswith("no pigmented lines") for answer in answers] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("fish", "question"),
    [(range(1, 5), TAILS), (range(1, 6), "Which tubes are full?")],
    ids=["four of five", "another question"],
)
def test_inspecting_too_few_tails_or_asking_another_question_is_insufficient(lab, fish, question):
    _, verdict = run_attempt(
        lab,
        "zebrafish-genotyping",
        [plan_step("VisualInspection", [f"fish_{n}" for n in fish], question=question), SUBMIT],
    )
    assert not verdict.sufficient


# Zebrafish Progeny Genotyping: WT/WT and WT/nacre look alike, so inspection is not enough, but an enzyme distinguishes all three.
def test_inspecting_progeny_cannot_distinguish_wild_type_from_heterozygous(lab):
    steps = lab.specs["zebrafish-progeny-genotyping"].protocol[:1]
    fish = [f"progeny_{n}" for n in range(1, 9)]
    bench, verdict = run_attempt(
        lab, "zebrafish-progeny-genotyping", [*steps, plan_step("VisualInspection", fish, question=TAILS), SUBMIT]
    )
    assert not verdict.sufficient
    answers = [seen.value for seen in bench.history[1].outcome.new_observations]
    # declared: fish 2 and 6 are WT/WT, 1, 4, 5, 8 WT/nacre, 3 and 7 nacre/nacre
    assert len({answers[n - 1] for n in (1, 2, 4, 5, 6, 8)}) == 1


def test_digestion_and_gel_are_sufficient_to_genotype_progeny_without_sequencing(lab):
    spec = lab.specs["zebrafish-progeny-genotyping"]
    cycled = next(n for n, step in enumerate(spec.protocol) if step["action"] == "Thermocycler")
    tubes = spec.protocol[cycled]["materials"]
    steps = [
        *spec.protocol[: cycled + 1],
        plan_step("Transfer", ["enzyme", *tubes], source="@enzyme", amount="2.5 µL"),
        plan_step("Incubate", tubes, temperature="37 °C", duration="2 h"),
        plan_step(
            "AgaroseGelElectrophoresis", [*tubes, "ladder"], agarose="3 %", load_volume="10 µL", ladder="@ladder"
        ),
        SUBMIT,
    ]
    bench, verdict = run_attempt(lab, "zebrafish-progeny-genotyping", steps)
    assert verdict.sufficient, verdict.reasoning
    lanes = [value for _, value in readings(bench, "AgaroseGelElectrophoresis", "PCR mitfa")]
    kinds = [("350 bp" in lane, "330 bp" in lane) for lane in lanes]
    uncut, both, cut, nothing = (True, False), (True, True), (False, True), (False, False)
    assert kinds == [both, uncut, cut, both, both, uncut, cut, both, uncut, cut, both, nothing]


# Minicell Uptake and Puromycin: a microscope over the wells instead of harvesting them for a cytometer.
def test_minicell_uptake_may_be_measured_under_a_microscope_instead_of_by_cytometry(lab):
    spec = lab.specs["minicell-uptake"]
    # The second wash is that of the warm wells, the third that of the wells that were kept cold, from their storage on.
    _, warm, cold = [n for n, step in enumerate(spec.protocol) if step["action"] == "Wash"]
    chilled = next(n for n, step in enumerate(spec.protocol) if step["action"] == "Storage")
    steps = []
    for first, wash in ((0, warm), (chilled, cold)):
        wells = spec.protocol[wash]["materials"][:-2]
        steps += spec.protocol[first:wash]
        steps.append(plan_step("Wash", [*wells, "pbs", "medium"], wash_medium="@pbs", replacement_medium="@medium",
                     wash_volume="500 µL", replacement_volume="500 µL", washes=3))  # fmt: skip
        steps.append(plan_step("UseMicroscope", wells, **GFP_IMAGES))
    bench, verdict = run_attempt(lab, "minicell-uptake", [*steps, SUBMIT])
    assert verdict.sufficient, verdict.reasoning
    counts = [first_number(value) for _, value in readings(bench, "UseMicroscope", "minicells counted per cell")]
    means = [sum(counts[n : n + 3]) / 3 for n in range(0, 15, 3)]
    # three wells each of 1:3, 1:9, 1:27, 1:81 and none: a third of the minicells, a third of the uptake
    assert [means[n] / means[n + 1] for n in range(3)] == pytest.approx([3, 3, 3], rel=0.15)
    assert means[4] == pytest.approx(0, abs=0.02)
    without_rinses = [step for step in steps if step["parameters"].get("washes") != 3]
    _, unwashed = run_attempt(lab, "minicell-uptake", [*without_rinses, SUBMIT])
    assert not unwashed.sufficient


def images_instead_of_cytometry(spec, wells):
    """The reference protocol up to the harvest (its last wash), which the microscope does not need."""
    washes = [n for n, step in enumerate(spec.protocol) if step["action"] == "Wash"]
    return [*spec.protocol[: washes[-1]], plan_step("UseMicroscope", wells, **GFP_IMAGES), SUBMIT]


def test_share_of_green_cells_under_puromycin_may_be_measured_under_a_microscope_in_the_wells(lab):
    spec = lab.specs["puromycin-concentration-optimization"]
    wells = next(step for step in reversed(spec.protocol) if step["action"] == "CellCultureIncubate")["materials"]
    *before, image, submit = images_instead_of_cytometry(spec, wells)
    # The curve of killing still needs the untransduced cells in suspension.
    harvest = [
        {**step, "materials": [key for key in step["materials"] if not key.startswith("well_")]}
        for step in spec.protocol[len(before) :]
        if step["action"] != "FlowCytometry" and step["materials"]
    ]
    bench, verdict = run_attempt(lab, spec.slug, [*before, image, *harvest, submit])
    assert verdict.sufficient, verdict.reasoning
    shares = [first_number(value) for _, value in readings(bench, "UseMicroscope", "GFP-positive cells")]
    means = [sum(shares[n : n + 3]) / 3 for n in range(0, 18, 3)]
    # wells with 4, 2, 1, 0.5, 0.25 and 0 µg/mL: 2 µg/mL is the lowest with 90 %
    assert [mean >= 90 for mean in means] == [True, True, False, False, False, False]


def test_puromycin_selection_for_only_one_day_is_insufficient(lab):
    spec = lab.specs["puromycin-concentration-optimization"]
    steps = [
        {**step, "parameters": {**step["parameters"], "duration": "24 h"}}
        if step["action"] == "CellCultureIncubate"
        else step
        for step in spec.protocol
    ]
    _, verdict = run_attempt(lab, spec.slug, steps)
    assert not verdict.sufficient


# Lentivirus: the dose follows from lineage, however it was prepared.
def lentivirus(lab, change):
    """The reference protocol with each step passed through `change`; steps it answers with None are left out."""
    spec = lab.specs["lentivirus-moi-optimization"]
    changed = [change(step) for step in spec.protocol]
    return run_attempt(lab, spec.slug, [step for step in changed if step is not None])[1]


def find_lines_missed_by(lab, change):
    """Return the lines that are missed after the change but not without it (those of other routes)."""
    return missed(lentivirus(lab, change)) - missed(lentivirus(lab, lambda step: step))


def from_the_stock(amounts):
    """Dose the wells with these volumes of the virus preparation itself, and add polybrene instead of diluting."""
    wells = [f"well_{dose}_{n}" for dose in (5, 25, 125, 625) for n in (1, 2, 3)]

    def change(step):
        source = step["parameters"].get("source")
        if step["action"] == "SerialDilute":
            # 0.5 µL of 10 mg/mL in half a millilitre: 10 µg/mL.
            return plan_step("Dilute", [*wells, "polybrene"], solvent="@polybrene", volume="0.5 µL")
        if source not in amounts:
            return step
        materials = ["virus", *step["materials"][1:]]
        return {**step, "materials": materials, "parameters": {"source": "@virus", "amount": amounts[source]}}

    return change


DILUTIONS = ("@dilution_5", "@dilution_25", "@dilution_125", "@dilution_625")


def test_wells_dosed_with_different_volumes_of_the_stock_are_as_good_as_dilutions(lab):
    volumes = dict(zip(DILUTIONS, ("50 µL", "20 µL", "5 µL", "1 µL"), strict=True))
    verdict = lentivirus(lab, from_the_stock(volumes))
    assert verdict.sufficient, verdict.reasoning


def test_twelve_wells_with_the_same_dose_are_one_dose(lab):
    same_dose = from_the_stock(dict.fromkeys(DILUTIONS, "5 µL"))
    assert not lentivirus(lab, same_dose).sufficient
    assert {"Cells and virus kept together at 37 °C in at least nine wells, with three or more different doses of virus",
            "Share of GFP-positive cells read in at least nine of these wells, at three or more doses"} == find_lines_missed_by(lab, same_dose)  # fmt: skip


def test_cell_suspension_taken_directly_from_its_tube_does_not_count_as_the_control(lab):
    def change(step):
        if step["role"] != "control" or step["action"] != "FlowCytometry":
            return step
        return {**step, "materials": ["cells"]}

    assert find_lines_missed_by(lab, change) == {"The same reading of these cells that got no virus"}


# Reference records compared with the declared truth.
def test_the_reference_record_gives_the_declared_share_of_cleavage(lab):
    record = lab.play_reference("p2a-cleavage-efficiency")
    areas = {size: [first_number(value) for name, value in readings(record, "CapillaryWestern", size)
                    if any(f"HEK293T well {n}," in name for n in (1, 2, 3))] for size in ("near 30 kDa", "near 56 kDa")}  # fmt: skip
    # The first three are those of anti-GFP; anti-mCherry shows the fusion again, with a response of its own.
    cleaved, whole = sum(areas["near 30 kDa"][:3]), sum(areas["near 56 kDa"][:3])
    assert 100 * cleaved / (cleaved + whole) == pytest.approx(92.5, abs=1)


def test_blot_without_the_labelled_antibody_or_in_another_range_shows_no_band(lab):
    spec = lab.specs["p2a-cleavage-efficiency"]
    blots = [n for n, step in enumerate(spec.protocol) if step["action"] == "CapillaryWestern"]
    *before, last = spec.protocol[: blots[-1] + 1]
    unlabelled = {**last["parameters"]}
    del unlabelled["secondary_antibody"]
    steps = [
        {**last, "materials": [key for key in last["materials"] if key != "secondary"], "parameters": unlabelled},
        {**last, "parameters": {**last["parameters"], "separation_range": "2-40 kDa"}},
    ]
    bench, _ = run_attempt(lab, spec.slug, [*before, *steps, SUBMIT])
    shown = [[seen.description for seen in step.outcome.new_observations] for step in bench.history[-3:-1]]
    assert not any("near" in text for text in shown[0])
    # mCherry of 27 kDa is within 2 to 40 kDa; the fusion of 56 kDa and actin of 42 kDa are not.
    assert {text.rsplit("near ")[-1] for text in shown[1] if "near" in text} == {"27 kDa"}


def test_read_from_the_mismatched_primer_shows_no_base_at_the_nacre_position(lab):
    spec = lab.specs["zebrafish-progeny-genotyping"]
    cycled = next(n for n, step in enumerate(spec.protocol) if step["action"] == "Thermocycler")
    tube = spec.protocol[cycled]["materials"][0]
    steps = [
        plan_step("DNASequencing", [tube, primer], direction=direction, primer_tube=f"@{primer}")
        for direction, primer in (("reverse", "reverse_primer"), ("forward", "forward_primer"))
    ]
    bench, _ = run_attempt(lab, spec.slug, [*spec.protocol[: cycled + 1], *steps, SUBMIT])
    read, reference = ([seen.value for seen in step.outcome.new_observations] for step in bench.history[-3:-1])
    assert not any("CAG" in value for value in read)
    assert any("CAG and TAG" in value for value in reference)


def test_the_reference_record_gives_the_lowest_sufficient_puromycin_concentration(lab):
    record = lab.play_reference("puromycin-concentration-optimization")
    shares = [
        first_number(value)
        for name, value in readings(record, "FlowCytometry", "GFP-positive cells")
        if "Transduced" in name
    ]
    means = [sum(shares[n : n + 3]) / 3 for n in range(0, 18, 3)]
    # of 0.304 positive cells, all but (2/12)^2 of them survive 2 µg/mL; of the others 1/(1 + (2/0.45)^2.5) = 2.35 %
    assert means[1] == pytest.approx(100 * 0.296 / (0.296 + 0.696 * 0.0235), abs=1)
    assert [mean >= 90 for mean in means] == [True, True, False, False, False, False]


def test_reference_record_of_colony_screening_identifies_the_seven_correct_colonies(lab):
    record = lab.play_reference("gfp-colony-screening")
    faults = (
        "read backwards",
        "read forwards from this side",
        "no insert",
        "missing",
        "but for",
        " to T at",
        " to G at",
        " to A at",
    )
    good = [
        number for number in range(1, 21)
        if not any(fault in value for name, value in readings(record, "DNASequencing", f"Colony {number} overnight")
                   for fault in faults)
    ]  # fmt: skip
    assert good == [1, 3, 6, 9, 12, 14, 17]


@pytest.mark.parametrize(
    ("rnase", "instrument", "concentration"),
    [
        (True, "microvolume spectrophotometer", 118),
        (False, "microvolume spectrophotometer", 550),
        (False, "fluorometer", 118),
    ],
)
def test_rna_in_minipreps_counts_as_dna_by_absorbance_but_not_with_a_dye(lab, rnase, instrument, concentration):
    # DNA: 7 µg/mL x 1.2 mL x 0.7 in 50 µL = 118 ng/µL, 15 % apart. RNA: 6 µg per 1e9 cells x 2.9e9 = 17 µg, 346 ng/µL,
    # which absorb as 432 ng/µL of DNA.
    set_to = {"AttemptDNAExtraction": {"rnase": rnase}, "NucleicAcidQuantification": {"instrument": instrument}}
    steps = [
        {**step, "parameters": {**step["parameters"], **set_to.get(step["action"], {})}}
        for step in lab.specs["gfp-colony-screening"].protocol
    ]
    bench, _ = run_attempt(lab, "gfp-colony-screening", steps)
    values = [first_number(value) for _, value in readings(bench, "NucleicAcidQuantification", "DNA concentration")]
    assert sum(values) / len(values) == pytest.approx(concentration, rel=0.1)


def test_a_colony_pcr_shows_which_colonies_hold_an_insert_but_not_whether_it_is_right(lab):
    tubes = {"pcr_1": 1, "pcr_4": 2}
    steps = [
        plan_step("SeparateWells", ["plate"], {f"colony_{n}": n for n in range(1, 21)}),
        plan_step("Aliquot", ["pcr_mix", "pcr_tubes"], tubes, volume="12.5 µL", count=2, label="Colony PCR"),
        plan_step("Transfer", ["primer_f", *tubes], source="@primer_f", amount="2.5 µL"),
        plan_step("Transfer", ["primer_r", *tubes], source="@primer_r", amount="2.5 µL"),
        plan_step("Transfer", ["water", *tubes], source="@water", amount="6.5 µL"),
        plan_step("Transfer", ["colony_1", "pcr_1"], source="@colony_1", amount="1 µL"),
        plan_step("Transfer", ["colony_4", "pcr_4"], source="@colony_4", amount="1 µL"),
        plan_step("Thermocycler", tubes, annealing_temperature="56 °C", cycles=30),
        plan_step("AgaroseGelElectrophoresis", [*tubes, "ladder"], agarose="1 %", ladder="@ladder"),
        plan_step("DNASequencing", [*tubes, "primer_f"], direction="forward", primer_tube="@primer_f"),
        SUBMIT,
    ]
    bench, verdict = run_attempt(lab, "gfp-colony-screening", steps)
    assert not verdict.sufficient
    lanes = [value for _, value in readings(bench, "AgaroseGelElectrophoresis", "Colony PCR")]
    assert ["950 bp" in lane for lane in lanes] == [True, False]
    assert ["230 bp" in lane for lane in lanes] == [False, True]
    reads = [value for _, value in readings(bench, "DNASequencing", "forward read")]
    assert ["in one frame" in read for read in reads] == [True, False]
