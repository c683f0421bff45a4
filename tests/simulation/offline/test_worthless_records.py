"""Records that look right but prove nothing: each is the reference protocol, spoiled in one way."""

from dataclasses import replace

import pytest

from simulation.offline.agents import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier


def changed(step, **changes):
    """Return the step with other materials or parameters; a parameter set to None is left out."""
    parameters = {**step.get("parameters", {}), **changes.pop("parameters", {})}
    return {**step, **changes, "parameters": {name: value for name, value in parameters.items() if value is not None}}


def taking(steps, where, **changes):
    """Return the steps with this change applied to those that match all of `where`; at least one must match."""
    hit = [step for step in steps if where.items() <= {"action": step["action"], **step.get("parameters", {})}.items()]
    assert hit, f"no step with {where}"
    return [changed(step, **changes) if step in hit else step for step in steps]


def left_in_the_cold(steps):
    """Fourteen days pass, but nothing lives at 4 °C."""
    cold = {"temperature": None, "shaking": None, "condition": "4C"}
    return taking(steps, {"action": "Incubate", "duration": "14 day"}, action="Storage", parameters=cold)


def first_flask_filtered_three_times(steps):
    """Three filtrates of one flask of each microbe pass as three flasks."""
    at = next(number for number, step in enumerate(steps) if step["action"] == "Filter")
    keys = list(steps[at]["materials"])
    assert keys[:3] == ["s1_1", "s1_2", "s1_3"]
    ones = [key for key in keys if key.endswith("_1")]
    labels = list(steps[at]["yields"])
    filtering = []
    for number in (1, 2, 3):
        # What a Filter step gives: the samples it changed, then one filtrate for each.
        yields = {key.replace("_1", f"_{number}") + "_f": len(ones) + position for position, key in enumerate(ones)}
        assert set(yields) <= set(labels)
        filtering.append({**steps[at], "materials": [*ones, *keys[-2:]], "yields": yields})
    return [*steps[:at], *filtering, *steps[at + 1 :]]


def other_portions_weighed_than_used(steps):
    """Three portions are weighed and set aside; what is dissolved was never weighed."""
    aside = [
        changed(step, yields={label + "_aside": at for label, at in step["yields"].items()})
        for step in steps
        if step["action"] == "Transfer" and step["parameters"].get("source") == "@unknown"
    ]
    weighed = ["portion_1_aside", "portion_2_aside", "portion_3_aside"]
    at = next(
        number for number, step in enumerate(steps) if step["materials"] == ["portion_1", "portion_2", "portion_3"]
    )
    return [*steps[:at], *aside, changed(steps[at], materials=weighed), *steps[at + 1 :]]


def rinsed_with_the_precipitant(steps):
    materials = [*steps[9]["materials"][:-1], "silver"]
    return taking(steps, {"action": "Filter"}, materials=materials, parameters={"residue_wash": "@silver"})


def dye_looked_for_in_water(steps):
    rinse = next(step for step in steps if "acetic" in step["materials"])
    materials = [key for key in rinse["materials"] if key != "acetic"]
    # Without acetic acid, one material less comes before the fresh vessels.
    yields = {label: position - 1 for label, position in rinse["yields"].items()}
    return taking(steps, {"replacement_medium": "@acetic"}, materials=materials, yields=yields,
                  parameters={"replacement_medium": "@water"})  # fmt: skip


def only_one_chip_read_of_each_isolate(steps):
    """Each reading needs three chips of each isolate: three cuvettes out of one chip are one chip."""
    keep, boxed = ["r1_1_chip", "r2_1_chip", "r3_1_chip", "r4_1_chip"], []
    for key in keep:
        cuvettes = {f"{key}_{number}": number for number in (1, 2, 3)}
        boxed.append({"action": "Aliquot", "materials": [key, "wells"], "yields": cuvettes,
                      "parameters": {"volume": "300 µL", "count": 3}})  # fmt: skip
    cuvettes = [f"{key}_{number}" for key in keep for number in (1, 2, 3)]
    at = max(number for number, step in enumerate(steps) if "r1_1_chip" in step["materials"])
    reading = changed(steps[at], materials=cuvettes, parameters={"sample_volume": "200 µL"})
    return [*steps[:at], *boxed, reading, *steps[at + 1 :]]


def cells_spun_out_of_the_inoculum(steps):
    """The isolates' old medium is poured on without the cells: nothing grows, and the pH has no reason to fall."""
    isolates = ["isolate_a", "isolate_b", "isolate_c", "isolate_d"]
    spin = {"action": "Centrifuge", "materials": isolates, "parameters": {"force": "4000 x g", "duration": "10 min"}}
    return [spin, *steps]


def too_little_silver(steps):
    """20 mL of 0.1 M silver for 2.9 mmol of chloride: the test is made, and says that chloride is left."""
    return taking(steps, {"source": "@silver"}, parameters={"amount": "20 mL"})


def five_tails_in_one_tube(steps):
    """One look at all of them together cannot say which of them is nacre."""
    tails = [f"fish_{number}" for number in range(1, 6)]
    pool = {"action": "Combine", "materials": [*tails, "pcr_tubes"], "yields": {"pool": len(tails)}}
    look = {"action": "VisualInspection", "materials": ["pool"], "parameters": {"question": "Is it pigmented?"}}
    return [pool, look, steps[-1]]


def fins_digested_in_one_tube(steps):
    """One lane of eight fish: the controls beside it are right, and no fish has a genotype."""
    fish = [f"fish_{number}" for number in range(1, 9)]
    known = ["wild_type_dna", "nacre_dna", "parent_dna", "water"]
    parts = {"forward_primer": "1 µL", "reverse_primer": "1 µL", "pcr_mix": "10 µL"}
    tubes = [f"pcr_{template}" for template in ("pool", *known)]

    def step(action, materials, *yields, **parameters):
        named = {label: len(materials) - 1 + at for at, label in enumerate(yields)}
        return {"action": action, "materials": materials, "yields": named, "parameters": parameters}

    return [
        {**step("SeparateWells", ["plate"]), "yields": {label: at for at, label in enumerate(fish, start=1)}},
        {**step("Combine", [*fish, "microtubes"]), "yields": {"pool": len(fish)}},
        step("AttemptDNAExtraction", ["pool", "kit"]),
        *(
            step("Transfer", [one, "pcr_tubes"], f"pcr_{one}", source=f"@{one}", amount="2 µL")
            for one in ("pool", *known)
        ),
        *(step("Dilute", [*tubes, part], solvent=f"@{part}", volume=volume) for part, volume in parts.items()),
        step("Thermocycler", tubes),
        step("Dilute", [*tubes, "enzyme"], solvent="@enzyme", volume="2 µL"),
        step("Incubate", tubes, temperature="37 °C", duration="1 h"),
        step("AgaroseGelElectrophoresis", [*tubes, "ladder"], ladder="@ladder", agarose="3 %"),
        steps[-1],
    ]


SPOILED = {
    left_in_the_cold: "weathering-enhancement-quantification",
    first_flask_filtered_three_times: "weathering-enhancement-quantification",
    other_portions_weighed_than_used: "chloride-gravimetric-analysis",
    rinsed_with_the_precipitant: "chloride-gravimetric-analysis",
    too_little_silver: "chloride-gravimetric-analysis",
    five_tails_in_one_tube: "zebrafish-genotyping",
    fins_digested_in_one_tube: "zebrafish-progeny-genotyping",
    dye_looked_for_in_water: "biofilm-forming-microbes",
    only_one_chip_read_of_each_isolate: "biofilm-forming-microbes",
    cells_spun_out_of_the_inoculum: "acidifying-microbes",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_worthless_record_is_insufficient(lab, spoil):
    spec = lab.specs[SPOILED[spoil]]
    spoiled = replace(spec, protocol=tuple(spoil(list(spec.protocol))))
    bench = lab.play_attempt(spoiled, ProtocolAgent(spoiled, 11), 11)
    # The simulator accepts every step; only the checklist finds the flaw.
    assert [step.outcome.failure_reason for step in bench.history if not step.outcome.success] == []
    assert len(bench.history) == len(spoiled.protocol)
    verdict = ChecklistClassifier(spec.rubric, spec.goal).judge_evidence(spec.goal, bench.get_transcript())
    assert not verdict.sufficient, verdict.reasoning
