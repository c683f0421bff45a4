"""Prompt sets: what the built-in one states, how a set is filled, hashed, and read from a folder."""

import json
import re
from pathlib import Path

import pytest

from simulation.lab import catalogue, wire
from simulation.lab.materials import AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE
from simulation.lab.outcomes import MEASUREMENT_TYPES
from simulation.lab.parameters import PARAMETER_TYPES
from simulation.llm.prompts import prompt_sets
from simulation.llm.prompts.prompt_files import LONGEST, PLACEHOLDERS
from simulation.llm.prompts.prompt_sets import PromptSetError, PromptTexts, SetName, built_in, content_hash, read_folder
from tests.support.prompt_constraints import CONSTRAINTS, Constraint

ACTIONS = Path(__file__).parents[3] / "fixtures" / "actions"
OUTCOME_PROMPTS = ("transition.system.txt", "obvious.system.txt")
STATE = "M {materials} O {observations} A {action}"


def folder(tmp_path: Path, **files: str | bytes) -> Path:
    """A folder with these files; `agent_act` stands for agent.act.txt."""
    for name, text in files.items():
        path = tmp_path / (name.replace("_", ".") + (".json" if name == "examples" else ".txt"))
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


# What the built-in set states


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: f"{each.file}: {each.says}")
def test_every_constraint_of_the_paper_is_stated_in_our_set(constraint: Constraint) -> None:
    assert constraint.ours in " ".join(built_in().files[constraint.file].split())


def test_every_file_but_those_that_only_ask_for_the_next_turn_is_held_to_constraints() -> None:
    held = {constraint.file for constraint in CONSTRAINTS}
    assert set(PLACEHOLDERS) - held == {
        "agent.user.txt", "agent.plain.txt", "agent.act.txt", "agent.summary.txt"
    }  # fmt: skip


@pytest.mark.parametrize("file", OUTCOME_PROMPTS)
def test_the_form_of_an_outcome_is_json_with_the_fields_and_words_of_the_paper(file: str) -> None:
    form = json.loads(re.search(r"^\{\n.*?^\}", built_in().files[file], re.M | re.S)[0])  # type: ignore[index]
    assert list(form) == ["new_materials", "new_observations", "reasoning", "success", "failure_reason"]
    material, observation = form["new_materials"][0], form["new_observations"][0]
    assert list(material) == [
        "name", "properties", "available_for_use", "material_type", "environmental_condition", "replaces", "derived_from"
    ]  # fmt: skip
    assert material["available_for_use"].split("|") == [AVAILABLE, NOT_AVAILABLE]
    assert material["material_type"].split("|") == list(MATERIAL_TYPES)
    assert material["environmental_condition"].split("|") == list(CONDITIONS)
    assert list(observation) == ["description", "measurement_type", "value", "timestamp"]
    assert observation["measurement_type"].split("|") == list(MEASUREMENT_TYPES)
    assert form["success"] is True and form["failure_reason"] == ""


def test_the_examples_of_an_action_are_read_and_accepted_by_the_catalogue() -> None:
    known = catalogue.read_directory(ACTIONS)[0]
    blocks = re.findall(r"^ACTION: [A-Z].*\nMATERIALS:.*\nPARAMETERS:.*$", built_in().files["agent.system.txt"], re.M)
    actions = [wire.read(block) for block in blocks]
    assert [action.name for action in actions] == [
        "Mix", "Wait", "FlowCytometry", "SubmitMaterialsObservationsForReview"
    ]  # fmt: skip
    values = [known.types[action.name].values(action) for action in actions]
    assert values[1]["duration"] == 3600  # seconds, as the text says
    assert values[2]["detector_voltages"] == {"FSC": 400, "SSC": 500, "FL1": 600} and values[2]["compensation"] is True


def test_every_parameter_type_of_the_catalogue_is_explained_to_the_agent() -> None:
    explained = re.findall(r"^- ([a-z_]+): ", built_in().files["agent.system.txt"], re.M)
    assert sorted(explained) == sorted(PARAMETER_TYPES)


def test_the_classifier_is_asked_for_the_five_tags_in_the_papers_order() -> None:
    tags = re.findall(r"^</?([a-z_]+)>|</([a-z_]+)>$", built_in().files["classification.txt"], re.M)
    assert list(dict.fromkeys(one or other for one, other in tags))[:5] == [
        "verdict", "reasoning", "confidence", "goal_relevance", "evidence_strength"
    ]  # fmt: skip


def test_only_the_prompts_for_wrong_outcomes_speak_of_a_secret() -> None:
    speaking = {file for file, text in built_in().files.items() if "secret" in text.lower()}
    assert speaking == {"incorrect.user.txt", "obvious.system.txt", "obvious.user.txt"}


def test_each_form_of_an_answer_stands_only_in_the_prompts_of_its_role() -> None:
    def roles(mark: str) -> set[str]:
        return {file.split(".")[0] for file, text in built_in().files.items() if mark in text}

    assert (roles("ACTION:"), roles("<verdict>")) == ({"agent"}, {"classification"})
    assert roles("new_materials") == {"transition", "obvious"}


def test_the_catalogue_ends_the_static_prompt_and_the_history_comes_before_what_changes_each_step() -> None:
    assert built_in().files["agent.system.txt"].rstrip().endswith("{actions}")
    order = re.findall(r"\{([a-z]+)\}", built_in().files["agent.user.txt"])
    assert order == ["goal", "history", "time", "materials", "notes"]


def test_there_are_three_valid_and_two_invalid_examples() -> None:
    examples = json.loads(built_in().files["examples.json"])
    assert [example["label"] for example in examples] == ["VALID"] * 3 + ["INVALID"] * 2
    assert built_in().examples().count("Verdict: INVALID") == 2


# Filling


def test_what_is_filled_in_is_never_filled_again_and_other_braces_stay() -> None:
    texts = PromptTexts("mine", {"transition.user.txt": '{"a": {}} {materials}|{observations}|{action}|{goal} {{x}}'})
    filled = texts.fill("transition.user.txt", materials="{action}", observations="{{materials}}", action="\\1 %s {0}")
    assert filled == '{"a": {}} {action}|{{materials}}|\\1 %s {0}|{goal} {{x}}'


def test_filling_needs_exactly_the_placeholders_of_the_file() -> None:
    with pytest.raises(TypeError, match=r"agent\.act\.txt is filled with nothing, not with goal"):
        built_in().fill("agent.act.txt", goal="x")
    with pytest.raises(TypeError, match="materials, observations, action, not with action"):
        built_in().fill("transition.user.txt", action="x")


def test_every_file_of_the_built_in_set_can_be_filled() -> None:
    for file, placeholders in PLACEHOLDERS.items():
        filled = built_in().fill(file, **{name: f"<{name} here>" for name in placeholders.all})
        assert all(f"<{name} here>" in filled and f"{{{name}}}" not in filled for name in placeholders.all)


# The hash


def test_the_hash_is_that_of_names_and_texts_and_not_of_the_sets_name() -> None:
    # printf '{"a.txt":"ä","b.txt":"y"}' | sha256sum
    digest = "d29a057215eaf1709c0be1e1245d988e17080637dbc0b7bf733b222d4a8c7051"
    assert (
        content_hash({"b.txt": "y", "a.txt": "ä"}) == digest == PromptTexts("any", {"a.txt": "ä", "b.txt": "y"}).sha256
    )
    assert content_hash({"a.txt": "äy", "b.txt": ""}) != digest
    assert PromptTexts("one", built_in().files).sha256 == built_in().sha256


def test_the_texts_of_a_set_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        built_in().files["agent.act.txt"] = "other"  # type: ignore[index]


# Reading a folder


def test_files_that_are_not_in_the_folder_are_the_built_in_ones(tmp_path: Path) -> None:
    read = read_folder(folder(tmp_path, agent_act="Go on."), "mine")
    assert read.texts.name == "mine" and read.texts.files["agent.act.txt"] == "Go on."
    assert read.borrowed == tuple(sorted(set(PLACEHOLDERS) - {"agent.act.txt"})) and read.unescaped == ()
    assert {**read.texts.files, "agent.act.txt": ""} == {**built_in().files, "agent.act.txt": ""}


def test_a_copy_of_the_built_in_set_has_its_hash(tmp_path: Path) -> None:
    for file, text in built_in().files.items():
        (tmp_path / file).write_text("\ufeff" + text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert read_folder(tmp_path, "copy").texts.sha256 == built_in().sha256


def test_doubled_braces_of_a_str_format_template_are_made_single(tmp_path: Path) -> None:
    template = '{materials} {observations}\n{action}\n{{"new_materials": [{{"properties": {{"key": "value"}}}}]}}'
    read = read_folder(folder(tmp_path, incorrect_user=template), "paper")
    assert read.unescaped == ("incorrect.user.txt",)
    assert read.texts.files["incorrect.user.txt"] == template.format(
        materials="{materials}", observations="{observations}", action="{action}"
    )


@pytest.mark.parametrize(
    "json_as_it_is",
    ['{"new_materials": [{"properties": {"key": "value"}}]}', "{{x}} {goal!r:>4}", "{{ {0}", "}", "{{a}} {key:value}"],
)
def test_braces_of_a_text_that_is_no_such_template_are_left_alone(tmp_path: Path, json_as_it_is: str) -> None:
    text = STATE + json_as_it_is
    read = read_folder(folder(tmp_path, transition_user=text), "mine")
    assert read.unescaped == () and read.texts.files["transition.user.txt"] == text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"transition_user": "{materials} {action}"}, "transition.user.txt: {observations} does not stand in it"),
        ({"agent_system": "{actions} {goal}"}, "agent.system.txt: {goal} is not filled in here; {actions} is"),
        ({"agent_plain": "{notes}"}, "agent.plain.txt: {notes} is not filled in here; nothing is"),
        ({"agent_sistem": "{actions}"}, "agent.sistem.txt: no such file in a prompt set; there are agent.act.txt, "),
        ({"agent_act": b"\xff\xfe"}, "agent.act.txt: is not UTF-8 text (byte 1)"),
        ({"agent_act": " \n"}, "agent.act.txt: is empty"),
        ({"agent_act": "a\x00b"}, "agent.act.txt: holds control characters"),
        ({"agent_act": "x" * (LONGEST + 1)}, f"agent.act.txt: is longer than {LONGEST} bytes"),
        ({"examples": "[{]"}, "examples.json: is not JSON"),
        ({"examples": "[" * 90_000}, "examples.json: is not JSON"),
        ({"examples": "{}"}, "examples.json: must be a list of 1 to 50 examples"),
        ({"examples": '[{"observation": "o"}]'}, "examples.json: [0] must be an object with observation, interp"),
        ({"examples": '[{"observation": "", "interpretation": "i", "label": "VALID"}]'}, "[0] observation must be a text"),
        ({"examples": '[{"observation": "o", "interpretation": "i", "label": 1}]'}, "label must be VALID or INVALID"),
        ({}, "holds none of agent.act.txt, "),
    ],
)  # fmt: skip
def test_a_wrong_folder_is_refused_by_file_and_name(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(PromptSetError) as refused:
        read_folder(folder(tmp_path, **files), "mine")
    assert said in str(refused.value)


def test_all_problems_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError) as refused:
        read_folder(folder(tmp_path, agent_act="", transition_user="{action}", examples="1"), "mine")
    assert len(refused.value.problems) == 4  # one, two (both missing placeholders), one


def test_what_is_no_prompt_file_is_passed_over_and_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".hidden.txt").write_text("x")
    assert read_folder(folder(tmp_path, agent_act="Go on."), "mine").texts.files["agent.act.txt"] == "Go on."
    (tmp_path / "agent.plan.txt").mkdir()
    with pytest.raises(PromptSetError, match=r"agent\.plan\.txt: cannot be read"):
        read_folder(tmp_path, "mine")


@pytest.mark.parametrize("path", ["/nowhere/at/all", "nul\x00"])
def test_a_folder_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(PromptSetError, match="cannot be read as a folder"):
        read_folder(Path(path), "mine")


def test_a_set_is_named_by_name_or_by_name_and_hash() -> None:
    assert SetName.read("paper") == SetName("paper") and SetName.read("paper@12ab34") == SetName("paper", "12ab34")
    for wrong in ("", "pa per", "paper@", "paper@12ab3", "paper@xyz123", "a@123456@123456", "x\x00", "x" * 81):
        with pytest.raises(PromptSetError):
            SetName.read(wrong)


def test_the_built_in_set_is_read_once() -> None:
    assert prompt_sets.built_in() is prompt_sets.built_in()


def test_the_manual_names_every_file_with_what_is_filled_into_it() -> None:
    manual = (ACTIONS.parents[1] / "docs" / "prompts.md").read_text()
    for file, placeholders in PLACEHOLDERS.items():
        row = next(line for line in manual.splitlines() if line.startswith("|") and f"`{file}`" in line)
        assert all(f"`{{{name}}}`" in row for name in placeholders.all)
