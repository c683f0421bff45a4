"""The rule-based agents: they follow the protocol, make seeded lapses, and never loop."""

import pytest

from simulation.lab.actions import SUBMIT
from simulation.lab.bench import Bench, Ending, step_from_json, step_to_json
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import AVAILABLE, UNLIMITED, NewMaterial, build_inventory
from simulation.lab.outcomes import Outcome
from simulation.offline.agents import ProtocolAgent, RandomAgent, plan_careless_protocol
from tests.support.data_files import CATALOGUE, load_specs

SPECS = load_specs()
NEW_MATERIALS = 20

TEA = ExperimentSpec(
    slug="tea",
    name="Tea",
    group="Chemistry",
    goal="Find the pH of the tea.",
    max_steps=20,
    materials=(
        ("tea", NewMaterial("Tea", {"volume": "50 mL"}, AVAILABLE)),
        ("tubes", NewMaterial("Tubes", {}, UNLIMITED)),
    ),
    protocol=(
        {"action": "Aliquot", "materials": ["tea", "tubes"], "parameters": {"volume": "1 mL", "count": 2},
         "yields": {"cup_1": 1, "cup_2": 2}, "role": "sample"},
        {"action": "Transfer", "materials": ["cup_1", "cup_2"], "parameters": {"source": "@cup_1", "amount": "1 µL"},
         "yields": {}, "role": "preparation"},
        {"action": "MeasurepH", "materials": ["tea", "cup_1", "cup_2"], "parameters": {}, "yields": {},
         "role": "sample"},
        {"action": "Mix", "materials": ["tea"], "parameters": {"duration": "10 s"}, "yields": {}, "role": "control"},
    ),
)  # fmt: skip


class GenerousModel:
    """A model that returns its inputs and twenty new materials, and rejects the actions it is set up to reject."""

    def __init__(self, refused=()):
        self.refused = refused

    def predict_outcome(self, action, situation):
        if action.name in self.refused:
            return Outcome.make_rejected("told to")
        held = [situation.inventory[code] for code in action.materials]
        kept = [NewMaterial(m.name, m.properties, replaces=m.barcode) for m in held if m.available_for_use != UNLIMITED]
        return Outcome(success=True, new_materials=(*kept, *(NewMaterial("New", {}) for _ in range(NEW_MATERIALS))))


def build_bench(spec, seed=5):
    return Bench(
        goal=spec.goal,
        catalogue=CATALOGUE,
        inventory=build_inventory(spec.initial_materials(), seed),
        seed=seed,
        max_steps=spec.max_steps,
    )


def play(bench, agent, model):
    while bench.ending is None:
        bench.take_step(agent.choose_action(bench.get_situation()), model)
    return [step.action.name for step in bench.history]


def test_protocol_agent_follows_every_step_and_then_submits():
    bench = build_bench(TEA)
    assert play(bench, ProtocolAgent(TEA, seed=1), GenerousModel()) == [
        "Aliquot",
        "Transfer",
        "MeasurepH",
        "Mix",
        SUBMIT,
    ]
    assert bench.ending == Ending.SUBMITTED


def test_protocol_agent_replaces_names_by_the_barcodes_of_the_episode():
    bench = build_bench(TEA)
    play(bench, ProtocolAgent(TEA, seed=1), GenerousModel())
    tea, tubes = (material.barcode for material in bench.inventory.materials[:2])
    aliquot, transfer, measured, *_ = bench.history
    assert aliquot.action.materials == (tea, tubes)
    # Tea is returned first; tubes are unlimited and are not returned. So new materials start at index 1.
    assert transfer.action.materials == aliquot.barcodes[1:3]
    assert transfer.action.parameters == {"source": aliquot.barcodes[1], "amount": "1 µL"}
    assert measured.action.materials == (tea, *aliquot.barcodes[1:3])


def test_protocol_agent_skips_steps_and_materials_that_depend_on_a_rejected_step():
    bench = build_bench(TEA)
    names = play(bench, ProtocolAgent(TEA, seed=1), GenerousModel(refused=("Aliquot",)))
    # Transfer needs a cup and is skipped. Of the three materials to measure only the tea exists.
    assert names == ["Aliquot", "MeasurepH", "Mix", SUBMIT]
    assert bench.history[1].action.materials == (bench.inventory.materials[0].barcode,)


def test_protocol_agent_does_not_retry_a_rejected_step():
    bench = build_bench(TEA)
    names = play(bench, ProtocolAgent(TEA, seed=1), GenerousModel(refused=("Transfer", "Mix")))
    assert names == ["Aliquot", "Transfer", "MeasurepH", "Mix", SUBMIT]


def test_protocol_agent_reserves_the_last_allowed_step_for_submitting():
    bench = build_bench(TEA)
    bench.max_steps = 3
    assert play(bench, ProtocolAgent(TEA, seed=1), GenerousModel()) == ["Aliquot", "Transfer", SUBMIT]


@pytest.mark.parametrize("make", [ProtocolAgent, lambda spec, seed: ProtocolAgent(spec, seed, lapses=True),
                                  lambda spec, seed: RandomAgent(seed)])  # fmt: skip
@pytest.mark.parametrize("slug", sorted(SPECS))
def test_agent_rebuilt_from_stored_steps_continues_with_the_same_action(slug, make):
    spec = SPECS[slug]
    whole = build_bench(spec)
    play(whole, make(spec, 3), GenerousModel())
    for length in range(len(whole.history)):
        stored = [step_to_json(step) for step in whole.history[:length]]
        again = build_bench(spec)
        again.replay_steps(step_from_json(data) for data in stored)
        chosen = CATALOGUE.normalise_action(make(spec, 3).choose_action(again.get_situation()))
        assert chosen == whole.history[length].action


@pytest.mark.parametrize("slug", sorted(SPECS))
def test_careless_protocol_has_one_to_three_lapses(slug):
    spec = SPECS[slug]
    for seed in range(60):
        steps, lapses = plan_careless_protocol(spec, seed)
        assert 1 <= len(lapses) <= 3
        assert steps != spec.protocol
        assert all(1 <= lapse.step <= len(spec.protocol) and lapse.note for lapse in lapses)
        assert plan_careless_protocol(spec, seed) == (steps, lapses)


@pytest.mark.parametrize("slug", sorted(SPECS))
def test_careless_protocols_contain_every_kind_of_lapse(slug):
    spec = SPECS[slug]
    kinds = {lapse.kind for seed in range(80) for lapse in plan_careless_protocol(spec, seed)[1]}
    controls = any(step["role"] in ("control", "calibration") for step in spec.protocol)
    assert kinds == {"skipped replicate", "wrong order", "wrong amount"} | ({"skipped control"} if controls else set())


def test_careless_lapse_changes_exactly_what_its_note_says():
    spec = SPECS["caffeine-hplc-analysis"]
    for seed in range(80):
        steps, lapses = plan_careless_protocol(spec, seed)
        if len(lapses) != 1:
            continue
        lapse = lapses[0]
        was = spec.protocol[lapse.step - 1]
        match lapse.kind:
            case "skipped control":
                assert was["role"] in ("control", "calibration")
                assert list(steps) == [step for step in spec.protocol if step is not was]
            case "skipped replicate":
                assert len(steps[lapse.step - 1]["materials"]) == len(was["materials"]) - 1
            case "wrong order":
                assert steps[lapse.step] == was
                assert steps[lapse.step - 1] == spec.protocol[lapse.step]
            case "wrong amount":
                now = steps[lapse.step - 1]["parameters"]
                assert sum(now[name] != value for name, value in was["parameters"].items()) == 1


def test_careless_lapses_do_not_modify_the_reference_protocol_itself():
    spec = SPECS["caffeine-hplc-analysis"]
    before = repr(spec.protocol)
    for seed in range(40):
        plan_careless_protocol(spec, seed)
    assert repr(spec.protocol) == before


def test_random_agent_only_tries_what_the_catalogue_allows():
    tried = set()
    for seed in range(40):
        bench = build_bench(SPECS["zebrafish-genotyping"], seed)
        agent = RandomAgent(seed)
        while bench.ending is None:
            action = agent.choose_action(bench.get_situation())
            assert CATALOGUE.find_rejection(action, bench.inventory) == ""
            tried.add(action.name)
            bench.take_step(action, GenerousModel())
        assert bench.ending == Ending.SUBMITTED
    assert len(tried) > 25


def test_random_agents_with_other_seeds_choose_other_actions():
    situation = build_bench(SPECS["zebrafish-genotyping"]).get_situation()
    assert len({repr(RandomAgent(seed).choose_action(situation)) for seed in range(20)}) > 10
