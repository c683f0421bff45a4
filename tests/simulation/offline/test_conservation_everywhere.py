"""Amounts are conserved on every bench, whatever is done: only what is declared to change may change."""

from collections import Counter
from decimal import Decimal, localcontext

import pytest

from simulation.lab import quantities
from simulation.lab.materials import NOT_AVAILABLE, UNLIMITED, build_inventory
from simulation.offline.ledger import Contents, find_original
from simulation.offline.rules import RuleBasedTransitionModel
from simulation.offline.vessels import Vessel
from tests.support.wild_play import iter_wild_steps

STEPS = 45
SLUGS = [
    "acidifying-microbes", "asap3-voltage-biosensor", "biofilm-forming-microbes", "caffeine-hplc-analysis",
    "chloride-gravimetric-analysis", "chr2-gcamp-fusion", "dual-fret-biosensor", "ferrocene-cyclic-voltammetry",
    "gcamp7-viral-packaging", "gfp-colony-screening", "iglusnfr3-glutamate-biosensor", "lentivirus-moi-optimization",
    "minicell-uptake", "p2a-cleavage-efficiency", "puromycin-concentration-optimization",
    "weathering-enhancement-quantification", "zebrafish-genotyping", "zebrafish-progeny-genotyping",
]  # fmt: skip
# What is loaded into these stays accounted for: in a gel, or in the well that is imaged.
KEEPS_ITS_LOAD = ("AgaroseGelElectrophoresis", "PAGE", "UseMicroscope", "UsePlateReader")
# These do not conserve amounts: syntheses, and a kit that discards all but the DNA and elutes it in its own buffer.
MAKES = ("synthesis", "AttemptDNAExtraction")
GELS = ("AgaroseGelElectrophoresis", "PAGE")


class Drawn:
    """What was drawn from unlimited supplies, and from everything else, in one step."""

    def __init__(self):
        self.supplied, self.taken = Counter(), Counter()

    def note(self, vessel, contents):
        add(self.supplied if vessel.unlimited else self.taken, contents)


@pytest.fixture
def drawn(monkeypatch):
    """Record everything drawn. All pipetting and weighing goes through two methods of Vessel."""
    noted = Drawn()
    for name in (Vessel.draw_volume.__name__, Vessel.draw_mass.__name__):
        whole = getattr(Vessel, name)

        def noting(self, *asked, _whole=whole, **named):
            contents = _whole(self, *asked, **named)
            noted.note(self, contents)
            return contents

        monkeypatch.setattr(Vessel, name, noting)
    return noted


def add(total, contents):
    """Add amounts by component, shares by origin, and the volume to a total; count unknown amounts separately."""
    for name, part in contents.components.items():
        if part.amount is None:
            total["unknown", find_original(name)] += 1
        else:
            # Dead, inactive and degraded forms count with the component that they were.
            total[find_original(name)] += part.amount
    for key, share in contents.origins.items():
        total["share", key] += share
    total["volume"] += contents.volume or 0


def list_contents(material):
    """Return the contents of a material and of each of its wells."""
    return [
        Vessel.from_material(material, 0).contents,
        *(Contents.from_ledger(well["ledger"]) for well in material.ledger.get("wells", ())),
    ]


def sum_contents(inventory):
    """Return the totals over all limited materials, including used-up ones and waste."""
    total = Counter()
    for material in inventory:
        if material.available_for_use != UNLIMITED:
            for contents in list_contents(material):
                add(total, contents)
    return total


def list_changing_components(truth):
    """Return the components that the truth allows to be made, used or grown."""
    names = set()
    for reaction in truth.get("reactions", ()):
        names |= {reaction.get("makes"), reaction.get("from"), *reaction.get("uses", ()), *reaction.get("consumes", {})}
    for entry in (*truth.get("growth", ()), *truth.get("survival", ())):
        names |= {*entry["components"], entry.get("into"), *entry.get("consumes", ()), *entry.get("forms", ())}
    return names


def find_unaccounted(spec, kind, before, after, drawn):
    """Return amounts that changed without being supplied, loaded into an instrument or declared to change."""
    if {kind.kind, kind.name} & {*MAKES}:
        return {}
    old, new = sum_contents(before), sum_contents(after)
    free = list_changing_components(spec.truth) | {name[1] for name in (*old, *new) if name[0] == "unknown"}
    loaded = drawn.taken if kind.kind == "measurement" and kind.name not in KEEPS_ITS_LOAD else Counter()
    # A measured unlimited sample is drawn from a supply and used up by the instrument.
    supplied = Counter() if kind.kind == "measurement" and kind.name not in KEEPS_ITS_LOAD else drawn.supplied
    names = {name for name in {*old, *new, *supplied} if name not in free and name[0] != "unknown"}
    gains = {name: new[name] - old[name] - supplied[name] + loaded[name] for name in names}
    return {name: gain for name, gain in gains.items() if gain}


def check(spec, before, step, bench, drawn):
    kind = bench.catalogue.types[step.action.name]
    if not step.outcome.success:
        assert bench.inventory == before, step.action
        assert step.outcome.failure_reason and step.ended_at == step.started_at
        return
    assert step.outcome.fidelity == kind.fidelity
    assert find_unaccounted(spec, kind, before, bench.inventory, drawn) == {}, step.action
    for material in bench.inventory:
        old = before.get(material.barcode)
        if UNLIMITED in (material.available_for_use, old and old.available_for_use):
            assert material == old, step.action
        elif old is None or old != material:
            check_vessel(material)
    made = [draft for draft in step.outcome.new_materials if not draft.replaces]
    assert not made or kind.kind != "measurement" or (kind.name in GELS and len(made) == 1), step.action


def check_vessel(material):
    contents = list_contents(material)[0]
    assert all(part.amount is None or part.amount >= 0 for part in contents.components.values()), material
    assert all(share >= 0 for share in contents.origins.values()), material
    assert (contents.volume or 0) >= 0 and (contents.mass or 0) >= 0, material
    if contents.volume and "container_capacity" in material.properties:
        assert (
            contents.volume <= quantities.parse_quantity(material.properties["container_capacity"], "volume").value
        ), material


def play(lab, slug, seed, drawn):
    spec, done = lab.specs[slug], Counter()
    with localcontext() as context:
        context.prec = 60
        for before, step, bench in iter_wild_steps(
            spec, lab.catalogue, build_inventory(spec.initial_materials(), seed), seed, STEPS
        ):
            check(spec, before, step, bench, drawn)
            done[step.outcome.success] += 1
            drawn.supplied.clear()
            drawn.taken.clear()
    return done


def test_conservation_is_tested_on_every_experiment(lab):
    assert sorted(lab.specs) == SLUGS


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slug", SLUGS)
def test_amounts_are_conserved_on_every_bench(lab, drawn, slug, seed):
    done = play(lab, slug, seed, drawn)
    assert done[True] >= 5, "too little was possible to have tested anything"


@pytest.mark.parametrize("slipped", ["1E-12", "-1E-12"])
def test_conservation_test_detects_a_deviation_of_the_smallest_amount(lab, drawn, monkeypatch, slipped):
    whole = RuleBasedTransitionModel.predict_outcome

    def slipping(self, action, situation):
        outcome = whole(self, action, situation)
        for draft in outcome.new_materials:
            for part in draft.ledger["components"].values():
                if part["amount"] and draft.available_for_use != NOT_AVAILABLE:
                    part["amount"] = str(Decimal(part["amount"]) + Decimal(slipped))
                    return outcome
        return outcome

    monkeypatch.setattr(RuleBasedTransitionModel, "predict_outcome", slipping)
    with pytest.raises(AssertionError, match=r"1E-12"):
        play(lab, "caffeine-hplc-analysis", 1, drawn)
