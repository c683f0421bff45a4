"""The bench of one episode: endings, clock, barcodes, and replay from stored steps."""

import re

import pytest

from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType, Catalogue, Duration
from simulation.lab.bench import Bench, Ending, step_from_json, step_to_json
from simulation.lab.errors import LabError
from simulation.lab.materials import NOT_AVAILABLE, UNLIMITED, NewMaterial, build_inventory
from simulation.lab.outcomes import Observation, Outcome, RejectedBy
from simulation.lab.parameters import Parameter

TIME = Parameter("time", "range_with_units", "how long", dimension="duration", minimum="1 s", maximum="7 day")
CATALOGUE = Catalogue(
    {
        kind.name: kind
        for kind in (
            ActionType("Halve", "transformation", "halves", "one", "two", duration=Duration(120)),
            ActionType("Wait", "control", "waits", "one", "one", (TIME,), duration=Duration(1, "time")),
            ActionType("Refuse", "transformation", "never works", "one", "none", duration=Duration(120)),
            ActionType("Peek", "control", "free", "one", "none", costs_step=False),
            ActionType(SUBMIT, "control", "hands in", "none", "none", min_materials=0, max_materials=0),
            ActionType(QUIT, "control", "gives up", "none", "none", min_materials=0, max_materials=0),
        )
    }
)


class Halver:
    """Return the sample and a new half of it; reject the action `Refuse`."""

    def __init__(self):
        self.calls = 0

    def predict_outcome(self, action, situation):
        self.calls += 1
        if action.name == "Refuse":
            return Outcome.make_rejected("it cannot be done")
        if action.name != "Halve":
            kept = [NewMaterial(situation.inventory[c].name, {}, replaces=c) for c in action.materials]
            return Outcome(success=True, new_materials=tuple(kept))
        code = action.materials[0]
        drafts = (
            NewMaterial("Sample", {"volume": "half"}, replaces=code, ledger={"secret": 1}),
            NewMaterial("Half", {"volume": "half"}, derived_from=(code,), ledger={"secret": 1}),
        )
        return Outcome(success=True, new_materials=drafts, new_observations=(Observation("Clear", "visual"),))


def bench_arguments(max_steps=10):
    return {
        "goal": "find out",
        "catalogue": CATALOGUE,
        "inventory": build_inventory((NewMaterial("Sample", {"volume": "whole"}),), seed=3),
        "seed": 3,
        "max_steps": max_steps,
    }


def sample_barcode(bench):
    return bench.inventory.materials[0].barcode


def test_submit_ends_the_episode_without_calling_the_model():
    bench, model = Bench(**bench_arguments()), Halver()
    bench.take_step(Action("Submit"), model)
    assert bench.ending == Ending.SUBMITTED
    assert model.calls == 0


def test_quit_ends_the_episode():
    bench = Bench(**bench_arguments())
    bench.take_step(Action(QUIT), Halver())
    assert bench.ending == Ending.QUIT


def test_third_rejection_in_a_row_ends_the_episode():
    bench, model = Bench(**bench_arguments()), Halver()
    for name in ("Refuse", "Teleport"):
        bench.take_step(Action(name, (sample_barcode(bench),)), model)
    assert bench.ending is None
    bench.take_step(Action("Halve", ("MAT-00000000",)), model)
    assert bench.ending == Ending.REJECTED_OUT
    assert model.calls == 1  # only Refuse reached the model, the catalogue refused the others
    assert [step.outcome.rejected_by for step in bench.history] == [
        RejectedBy.TRANSITION_MODEL,
        RejectedBy.CATALOGUE,
        RejectedBy.CATALOGUE,
    ]


def test_accepted_step_resets_the_count_of_rejections():
    bench, model = Bench(**bench_arguments()), Halver()
    for name in ("Refuse", "Refuse", "Halve", "Refuse", "Refuse"):
        bench.take_step(Action(name, (sample_barcode(bench),)), model)
    assert bench.ending is None
    assert bench.consecutive_rejections == 2


def test_episode_is_truncated_at_max_steps_and_rejected_steps_count():
    bench, model = Bench(**bench_arguments(max_steps=3)), Halver()
    for name in ("Halve", "Refuse"):
        bench.take_step(Action(name, (sample_barcode(bench),)), model)
    assert (bench.ending, bench.get_situation().steps_left) == (None, 1)
    bench.take_step(Action("Halve", (sample_barcode(bench),)), model)
    assert bench.ending == Ending.TRUNCATED


def test_submit_as_the_last_step_counts_as_submitted():
    bench = Bench(**bench_arguments(max_steps=1))
    bench.take_step(Action("Submit"), Halver())
    assert bench.ending == Ending.SUBMITTED


def test_free_action_does_not_count_as_a_step():
    bench, model = Bench(**bench_arguments(max_steps=2)), Halver()
    bench.take_step(Action("Peek", (sample_barcode(bench),)), model)
    assert (bench.steps_used, len(bench.history)) == (0, 1)


def test_clock_advances_by_the_action_duration_and_not_on_rejection():
    bench, model = Bench(**bench_arguments()), Halver()
    code = sample_barcode(bench)
    for action in (Action("Halve", (code,)), Action("Refuse", (code,)), Action("Wait", (code,), {"time": "1 h"})):
        bench.take_step(action, model)
    # 120 s, then nothing, then 3600 s
    assert [(step.started_at, step.ended_at) for step in bench.history] == [(0, 120), (120, 120), (120, 3720)]
    assert bench.elapsed == 3720
    assert bench.inventory[code].last_modified == 3720


def test_new_material_gets_a_barcode_and_a_continued_one_keeps_its_own():
    bench = Bench(**bench_arguments())
    code = sample_barcode(bench)
    step = bench.take_step(Action("Halve", (code,)), Halver())
    assert step.barcodes[0] == code
    assert step.barcodes[1] not in (code, "")
    assert [material.name for material in bench.inventory] == ["Sample", "Half"]
    assert bench.inventory[step.barcodes[1]].created_at == 120


def test_rejected_step_leaves_the_bench_unchanged():
    bench = Bench(**bench_arguments())
    before = bench.inventory
    bench.take_step(Action("Refuse", (sample_barcode(bench),)), Halver())
    assert bench.inventory == before
    assert bench.inventory.materials[0].available_for_use != NOT_AVAILABLE


def test_bench_replayed_from_stored_steps_equals_the_original():
    bench, model = Bench(**bench_arguments()), Halver()
    for name in ("Halve", "Refuse", "Halve"):
        bench.take_step(Action(name, (sample_barcode(bench),)), model)
    stored = [step_to_json(step) for step in bench.history]
    again = Bench(**bench_arguments())
    again.replay_steps(step_from_json(data) for data in stored)
    assert again == bench
    assert again.take_step(Action("Halve", (sample_barcode(bench),)), model) == bench.take_step(
        Action("Halve", (sample_barcode(bench),)), model
    )


def test_transcript_lists_steps_without_ledger_or_reasoning():
    bench, model = Bench(**bench_arguments()), Halver()
    bench.take_step(Action("Halve", (sample_barcode(bench),)), model)
    bench.take_step(Action("Refuse", (sample_barcode(bench),)), model)
    bench.take_step(Action("Submit"), model)
    first, second = bench.get_transcript()
    assert [output["barcode"] for output in first.outputs] == list(bench.history[0].barcodes)
    assert first.outputs[1]["derived_from"] == [sample_barcode(bench)]
    assert first.observations[0]["description"] == "Clear"
    assert second.rejected == "it cannot be done"
    assert "secret" not in repr((first, second))


MALFORMED = {
    "accepted with a reason for rejection": lambda code, _: Outcome(True, failure_reason="no"),
    "rejected without one": lambda code, _: Outcome(False),
    "rejected and returns materials": lambda code, _: Outcome(False, (NewMaterial("Half", {}),), failure_reason="no"),
    "has no name": lambda code, _: Outcome(True, (NewMaterial(" ", {}),)),
    "is 'plenty'; allowed: unlimited": lambda code, _: Outcome(True, (NewMaterial("Half", {}, "plenty"),)),
    "is 'gas'; allowed: static, dynamic": lambda code, _: Outcome(
        True, (NewMaterial("Half", {}, material_type="gas"),)
    ),
    "is 'warm'; allowed: room_temp": lambda code, _: Outcome(
        True, (NewMaterial("H", {}, environmental_condition="warm"),)
    ),
    "comes from 'MAT-ELSEWHERE'": lambda code, _: Outcome(
        True, (NewMaterial("H", {}, derived_from=("MAT-ELSEWHERE",)),)
    ),
    "returns 'MAT-ELSEWHERE'": lambda code, _: Outcome(True, (NewMaterial("Sample", {}, replaces="MAT-ELSEWHERE"),)),
    "returned twice": lambda code, _: Outcome(
        True, (NewMaterial("S", {}, replaces=code), NewMaterial("S", {}, replaces=code))
    ),
    "unlimited, or": lambda _, endless: Outcome(True, (NewMaterial("Water", {"volume": "1 mL"}, replaces=endless),)),
}


@pytest.mark.parametrize("said", MALFORMED)
def test_malformed_outcome_is_refused_and_changes_nothing(said):
    bench = Bench(
        **{
            **bench_arguments(),
            "inventory": build_inventory((NewMaterial("Sample", {}), NewMaterial("Water", {}, UNLIMITED)), seed=3),
        }
    )
    sample, endless = (material.barcode for material in bench.inventory)
    before = bench.inventory
    with pytest.raises(LabError, match=re.escape(said)):
        bench.record_outcome(Action("Halve", (sample, endless)), MALFORMED[said](sample, endless))
    assert (bench.inventory, bench.history, bench.elapsed, bench.ending) == (before, [], 0, None)
