"""The laboratory report: reference protocols in full, and without the steps that their rubric counts."""

import json
import re
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from simulation import lab_report
from simulation.lab import experiments
from simulation.lab.actions import FIDELITIES, KINDS
from simulation.lab.parameters import PARAMETER_TYPES
from simulation.lab.rendering import format_clock
from simulation.lab.rubrics import RubricLine
from simulation.lab_report.protocol_checks import check_protocol
from simulation.offline import gym
from simulation.offline.hidden_steps.protocol_runs import run_protocol
from simulation.offline.hidden_truth import ENTRIES, WHOLE_FIELDS
from tests.support.data_files import CATALOGUE as ACTIONS
from tests.support.data_files import FIXTURES
from tests.support.laboratory_factory import build_material

pytestmark = pytest.mark.slow


def measure_step(key, action="MeasureVolume"):
    return {"action": action, "materials": [key], "parameters": {}, "yields": {}, "role": "sample"}


def rubric_line(name, of, **more):
    return {"line": name, "text": name, "actions": ["MeasureVolume"], "of": [of], "value": "numeric", **more}


def small_experiment(**changes):
    """Two liquids whose volumes must be measured, and a protocol that measures the tea's and then the water's."""
    return {
        "slug": "tea",
        "name": "Tea",
        "group": "Chemistry",
        "goal": "Find both volumes.",
        "max_steps": 50,
        "provenance": "ours",
        "materials": [build_material("tea"), build_material("water")],
        "protocol": [measure_step("tea"), measure_step("water")],
        "rubric": [rubric_line("tea_read", "tea"), rubric_line("water_read", "water")],
        "variants": [{"name": "no water", "reason": "It is half the goal.", "without": [2], "missing": "water_read"}],
        **changes,
    }


def check_small_experiment(**changes):
    data = small_experiment(**changes)
    assert experiments.check_experiment(data, ACTIONS) == []
    return check_protocol(experiments.build_experiment(data), ACTIONS, seed=1)


@pytest.mark.parametrize("slug", gym.list_slugs())
def test_reference_protocol_is_sufficient_and_every_rubric_line_is_needed(slug):
    checked = lab_report.build_report(FIXTURES, seed=1, only=[slug])
    assert checked.all_faults == []
    (experiment,) = checked.protocol_checks
    assert all(ablation.name in ablation.missed for ablation in experiment.line_ablations)
    assert len(experiment.variants) == 10 and len(experiment.alternatives) >= 2


def test_rubric_line_is_missed_without_the_step_that_counts_for_it():
    done = check_small_experiment()
    assert done.reference.valid and done.reference.steps == 2 and done.all_faults == []
    assert [(cut.name, cut.removed_steps, cut.valid, cut.missed) for cut in done.line_ablations] == [
        ("tea_read", (1,), False, ("tea_read",)),
        ("water_read", (2,), False, ("water_read",)),
    ]
    assert [(cut.name, cut.valid, cut.missed) for cut in done.variants] == [("no water", False, ("water_read",))]


def test_lab_report_counts_an_insufficient_reference_protocol_as_a_fault():
    done = check_small_experiment(protocol=[measure_step("tea")], variants=[])
    assert done.all_faults == ["the reference protocol is not VALID: missed: water_read"]


def test_lab_report_counts_a_rejected_step_as_a_fault():
    frozen = build_material("tea", "frozen", condition="-80C")
    done = check_small_experiment(materials=[frozen, build_material("water")])
    assert any("rejected at step 1, MeasureVolume" in fault for fault in done.all_faults)


def test_lab_report_counts_a_label_for_a_material_that_is_not_produced_as_a_fault():
    # MeasureVolume gives its one material back: there is a new material 0 and no 3.
    late = [measure_step("tea") | {"yields": {"late": 3}}, measure_step("water")]
    fault = (
        "the reference protocol cannot continue after step 1, MeasureVolume: 'late' is none of the 1 materials produced"
    )
    assert check_small_experiment(protocol=late).all_faults == [fault]


def test_lab_report_counts_a_rubric_line_that_is_not_needed_as_a_fault():
    # Either line makes a complete route of its own, so neither is needed.
    routes = [rubric_line("tea_read", "tea", route="tea"), rubric_line("water_read", "water", route="water")]
    done = check_small_experiment(rubric=routes, variants=[])
    assert done.all_faults == ["tea_read: still VALID without steps 1", "water_read: still VALID without steps 2"]


def test_lab_report_lists_an_unused_route_but_not_as_a_fault():
    routes = [
        rubric_line("tea_read", "tea", route="tea"),
        rubric_line("weighed", "tea", route="scales", actions=["MeasureWeight"]),
    ]
    done = check_small_experiment(rubric=routes, protocol=[measure_step("tea")], variants=[])
    assert done.all_faults == [] and done.unused_lines == ("weighed",)


def test_lab_report_counts_a_variant_that_misses_another_line_than_declared_as_a_fault():
    done = check_small_experiment(
        variants=[{"name": "no water", "reason": "Half.", "without": [2], "missing": "tea_read"}]
    )
    assert done.all_faults == ["no water: INVALID, but the line 'tea_read' is met; missed: water_read"]


def test_lab_report_counts_a_variant_that_is_judged_sufficient_as_a_fault():
    # The amount of water is measured after the tea's either way.
    late = [
        {"name": "tea first", "reason": "Tea cools.", "move": [{"steps": [1], "before": 2}], "missing": "water_read"}
    ]
    assert check_small_experiment(variants=late).all_faults == ["tea first: still VALID"]


def test_lab_report_counts_a_variant_with_a_rejected_step_as_a_fault():
    # The bench refuses 500 mL of 50 mL, so no record can show this variant.
    pour = {"action": "Transfer", "materials": ["tea", "water"], "parameters": {"source": "@tea", "amount": "500 mL"}}
    edits = {"insert": [{"before": 1, "steps": [pour]}], "without": [2]}
    variant = {"name": "spilt", "reason": "It was lost.", "missing": "water_read", **edits}
    (fault,) = check_small_experiment(variants=[variant]).all_faults
    assert fault.startswith("spilt: rejected at step 1, Transfer")


def test_lab_report_counts_an_alternative_that_is_judged_insufficient_as_a_fault():
    ways = [
        {"name": "water first", "move": [{"steps": [2], "before": 1}]},
        {"name": "tea only", "without": [2]},
    ]
    done = check_small_experiment(alternatives=ways)
    assert [way.valid for way in done.alternatives] == [True, False]
    assert done.all_faults == ["tea only: not VALID; missed: water_read"]


def test_lab_report_lists_the_other_lines_that_a_variant_misses(tmp_path, capsys):
    variant = {"name": "nothing", "reason": "Nothing was read.", "without": [1, 2], "missing": "water_read"}
    way = {"name": "water first", "move": [{"steps": [2], "before": 1}]}
    folder = write_data_files(tmp_path, variants=[variant], alternatives=[way])
    call_command("lab_report", "--variants", directory=folder)
    rows = [re.split(r"  +", row) for row in capsys.readouterr().out.splitlines()]
    assert ["VARIANTS (1 of 1 refused for the named reason, seed 1)"] in rows
    assert ["nothing", "water_read", "tea_read", "Nothing was read."] in rows
    assert ["ALTERNATIVES (1 of 1 accepted)"] in rows and ["tea", "water first", "VALID"] in rows
    assert not any(row[0].startswith("ACTIONS") for row in rows)


def test_lab_report_command_exits_with_1_if_a_variant_is_accepted(tmp_path):
    late = [
        {"name": "tea first", "reason": "Tea cools.", "move": [{"steps": [1], "before": 2}], "missing": "water_read"}
    ]
    with pytest.raises(CommandError, match="1 faults") as error:
        call_command("lab_report", "--variants", directory=write_data_files(tmp_path, variants=late))
    assert error.value.returncode == 1


def test_protocol_run_is_reproducible_with_its_seed():
    spec = experiments.build_experiment(small_experiment())
    assert run_protocol(spec, ACTIONS, seed=3) == run_protocol(spec, ACTIONS, seed=3)


def write_data_files(tmp_path, **changes):
    (tmp_path / "actions").symlink_to(FIXTURES / "actions")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/tea.json").write_text(json.dumps(small_experiment(**changes)))
    return tmp_path


def test_lab_report_command_prints_tables(tmp_path, capsys):
    call_command("lab_report", directory=write_data_files(tmp_path))
    output, progress = capsys.readouterr()
    assert f"ACTIONS ({len(ACTIONS)};" in output
    head, hplc = (next(row for row in output.splitlines() if row.startswith(word)) for word in ("action ", "HPLC "))
    assert head.split() == ["action", "kind", "parameters", "badge", "time"]
    assert str(len(ACTIONS.types["HPLC"].parameters)) in hplc and ACTIONS.types["HPLC"].fidelity in hplc
    summary = next(row for row in output.splitlines() if row.startswith("tea "))
    seconds = 2 * ACTIONS.types["MeasureVolume"].duration.seconds  # two volumes are read
    expected = f"tea Chemistry 2 2 50 {format_clock(seconds)} 0 VALID 2/2 1/1 0/0"
    assert " ".join(summary.split()) == expected
    assert ["tea_read:", "tea_read", "1", "INVALID", "tea_read"] in [row.split() for row in output.splitlines()]
    assert "On the bench: tea; water" in output
    assert "No faults" in output and "checked 1 experiments" in progress


def test_lab_report_command_prints_the_same_as_json(tmp_path, capsys):
    call_command("lab_report", "--json", directory=write_data_files(tmp_path))
    printed = json.loads(capsys.readouterr().out)
    assert [kind["name"] for kind in printed["actions"]] == list(ACTIONS.types)
    (tea,) = printed["experiments"]
    seconds = 2 * ACTIONS.types["MeasureVolume"].duration.seconds
    assert (tea["reference"], tea["protocol_steps"], tea["elapsed_seconds"]) == ("VALID", 2, seconds)
    assert [(cut["name"], cut["without"], cut["verdict"]) for cut in tea["without_line"]] == [
        ("tea_read", [1], "INVALID"),
        ("water_read", [2], "INVALID"),
    ]
    assert [row["steps"] for row in tea["rubric"]] == [[1], [2]] and printed["faults"] == []


def test_lab_report_has_the_checkers_results_on_labelled_files(tmp_path, capsys):
    folder = write_data_files(tmp_path)
    (folder / "checker").mkdir()
    lines = (FIXTURES / "checker/handmade.jsonl").read_text().splitlines()
    twins = [
        line for line in lines if json.loads(line)["id"] in ("h005", "h103")
    ]  # 11.5 mL out of 10 mL, and 10 out of 10
    assert len(twins) == 2
    (folder / "checker/handmade.jsonl").write_text("\n".join([*twins, "no json"]))
    call_command("lab_report", "--json", directory=folder)
    printed = json.loads(capsys.readouterr().out)["checker"]["handmade"]
    assert (printed["recall"], printed["false_alarms"]) == ({"part": 1, "whole": 1}, {"part": 0, "whole": 1})
    assert printed["malformed"] == 1 and printed["recall_by_code"] == {"L02": {"part": 1, "whole": 1}}
    call_command("lab_report", directory=folder)
    assert "1 of 1 (100%)" in capsys.readouterr().out


def test_lab_report_command_exits_with_1_for_a_fault(tmp_path, capsys):
    with pytest.raises(CommandError, match="1 faults") as error:
        call_command("lab_report", directory=write_data_files(tmp_path, protocol=[measure_step("tea")], variants=[]))
    assert error.value.returncode == 1
    assert "FAULTS\ntea: the reference protocol is not VALID: missed: water_read" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"experiment": ["coffee"]}, {}])
def test_lab_report_command_exits_with_2_for_an_unknown_slug_or_a_wrong_file(tmp_path, wrong):
    folder = write_data_files(tmp_path, **({} if wrong else {"max_steps": 0}))
    with pytest.raises(CommandError, match=r"no experiment 'coffee'|max_steps: is 0") as error:
        call_command("lab_report", directory=folder, **wrong)
    assert error.value.returncode == 2


def test_lab_report_command_exits_with_2_without_data_files(tmp_path):
    with pytest.raises(CommandError, match="actions: contains no data file") as error:
        call_command("lab_report", directory=tmp_path)
    assert error.value.returncode == 2


def test_lab_report_writes_consecutive_step_numbers_as_a_range():
    assert lab_report._format_steps((1, 2, 3, 5, 7, 8)) == "1-3, 5, 7-8"


def _read_examples():
    """Return path and content of the data files in docs/laboratory.md."""
    text = (FIXTURES.parent / "docs/laboratory.md").read_text()
    return re.findall(r"^`fixtures/(\w+/[\w-]+\.json)`:\n\n```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_examples_in_the_laboratory_documentation_are_complete_and_consistent(tmp_path):
    for kind in ("actions", "experiments"):
        (tmp_path / kind).mkdir()
    for path in (FIXTURES / "actions").glob("*.json"):
        (tmp_path / "actions" / path.name).symlink_to(path)
    examples = dict(_read_examples())
    assert set(examples) == {"actions/Swirl.json", "experiments/vinegar-acidity.json"}
    for name, content in examples.items():
        (tmp_path / name).write_text(content)
    checked = lab_report.build_report(tmp_path, seed=1)
    assert checked.all_faults == [] and "Swirl" in checked.catalogue.types
    (vinegar,) = checked.protocol_checks
    assert [len(cut.removed_steps) for cut in vinegar.line_ablations] == [1, 1] and len(vinegar.variants) == 2
    # 0.84 M lies between 0.1 M (2.9) and 1 M (2.4): 2.9 - 0.5 x 0.74/0.9 = 2.489; noise 0.02 a reading
    portions = vinegar.reference.findings[0].counted
    assert all(abs(reading.first_number - Decimal("2.489")) < Decimal("0.1") for reading in portions)


def test_laboratory_documentation_names_every_field_and_entry_of_the_data_files():
    text = (FIXTURES.parent / "docs/laboratory.md").read_text()
    names = {*RubricLine.model_fields, *ENTRIES, *WHOLE_FIELDS, *PARAMETER_TYPES, *FIDELITIES, *KINDS}
    names |= {name for needed, more in ENTRIES.values() for name in (*needed, *more)}
    assert sorted(name for name in names if f"`{name}`" not in text and f'"{name}"' not in text) == []
