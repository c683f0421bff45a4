"""Prompt sets: the built-in texts, filling, hashing, and reading from a folder."""

import json
import re
from pathlib import Path

import pytest

from simulation.lab import action_format
from simulation.lab.materials import AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE
from simulation.lab.outcomes import MEASUREMENT_TYPES
from simulation.lab.parameters import PARAMETER_TYPES
from simulation.llm import prompt_sets
from simulation.llm.prompt_files import ALL_FILES, BUILT_IN_PROTOCOL, FAMILIES, PLACEHOLDERS, SHIPPED
from simulation.llm.prompt_sets import (
    MAX_FILE_BYTES,
    PromptSetError,
    PromptTexts,
    SetName,
    compute_hash,
    load_built_in,
    load_built_in_rating,
    load_folder,
)
from tests.support.data_files import CATALOGUE, FIXTURES
from tests.support.prompt_constraints import CONSTRAINTS, Constraint

OUTCOME_PROMPTS = ("transition.system.txt", "incorrect.system.txt", "obvious.system.txt")
STATE = "M {materials} O {observations} A {action}"


def write_folder(tmp_path: Path, **files: str | bytes) -> Path:
    """Write a prompt folder with these files; `agent_act` becomes agent.act.txt."""
    for name, text in files.items():
        path = tmp_path / (name.replace("_", ".") + (".json" if name == "examples" else ".txt"))
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path


# Contents of the built-in set


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: f"{each.file}: {each.statement}")
def test_built_in_prompts_state_every_constraint_of_the_paper(constraint: Constraint) -> None:
    assert constraint.our_words in " ".join(load_built_in().files[constraint.file].split())


def test_every_prompt_file_with_instructions_has_constraints() -> None:
    held = {constraint.file for constraint in CONSTRAINTS}
    assert set(PLACEHOLDERS) - held == {
        "agent.user.txt", "agent.plain.txt", "agent.act.txt", "agent.summary.txt",
        "agent.schema.txt", "transition.schema.txt", "classification.schema.txt",
    }  # fmt: skip


@pytest.mark.parametrize("file", OUTCOME_PROMPTS)
def test_outcome_format_is_json_with_the_fields_and_values_of_the_paper(file: str) -> None:
    form = json.loads(re.search(r"^\{\n.*?^\}", load_built_in().files[file], re.M | re.S)[0])  # type: ignore[index]
    # The paper has the reasoning after the lists. Here it is first, because a model then reasons before it answers.
    assert list(form) == ["reasoning", "success", "failure_reason", "new_materials", "new_observations"]
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


def test_action_examples_of_the_agent_prompt_are_valid() -> None:
    known = CATALOGUE
    blocks = re.findall(
        r"^ACTION: [A-Z].*\nMATERIALS:.*\nPARAMETERS:.*$", load_built_in().files["agent.system.txt"], re.M
    )
    actions = [action_format.parse_action(block) for block in blocks]
    assert [action.name for action in actions] == [
        "Mix", "Wait", "FlowCytometry", "SubmitMaterialsObservationsForReview", "Aliquot"
    ]  # fmt: skip
    values = [known.types[action.name].parse_parameters(action) for action in actions]
    assert values[1]["duration"] == 3600  # seconds, as the text says
    assert values[2]["detector_voltages"] == {"FSC": 400, "SSC": 500, "FL1": 600} and values[2]["compensation"] is True


def test_agent_prompt_explains_every_parameter_type() -> None:
    explained = re.findall(r"^- ([a-z_]+): ", load_built_in().files["agent.system.txt"], re.M)
    assert sorted(explained) == sorted(PARAMETER_TYPES)


def test_classifier_prompt_requests_the_five_tags_of_the_paper_with_the_reasoning_before_the_verdict() -> None:
    tags = re.findall(r"^</?([a-z_]+)>|</([a-z_]+)>$", load_built_in().files["classification.txt"], re.M)
    assert list(dict.fromkeys(one or other for one, other in tags))[:5] == [
        "reasoning", "verdict", "confidence", "goal_relevance", "evidence_strength"
    ]  # fmt: skip


def test_only_perturbation_prompts_mention_a_secret() -> None:
    speaking = {file for file, text in load_built_in().files.items() if "secret" in text.lower()}
    assert speaking == {"incorrect.system.txt", "incorrect.user.txt", "obvious.system.txt", "obvious.user.txt"}


def test_each_answer_format_appears_only_in_prompts_of_its_role() -> None:
    def find_roles(mark: str) -> set[str]:
        return {file.split(".")[0] for file, text in load_built_in().files.items() if mark in text}

    assert (find_roles("ACTION:"), find_roles("<verdict>")) == ({"agent"}, {"classification"})
    assert find_roles("new_materials") == {"transition", "incorrect", "obvious"}


def test_twin_prompts_do_not_contradict_the_rules_that_they_share_with_the_transition_model() -> None:
    correct, subtle, obvious = (" ".join(load_built_in().files[file].split()) for file in OUTCOME_PROMPTS)
    # What only a correct outcome has to follow is not said to the models that plant an error.
    for words in ("Work out what would really happen", "Be scientifically accurate.", "WHEN AN ACTION FAILS"):
        assert words in correct and words not in subtle and words not in obvious
    assert "simulate what is physically there" not in subtle + obvious
    # Twins are made of accepted actions only: neither prompt offers a failure.
    for text in (subtle, obvious):
        assert '"success" is true without quotes and "failure_reason" is an empty string' in text
        assert "it fails" not in text and '"success" to false' not in text


def test_form_of_a_subtle_twin_is_word_for_word_that_of_a_correct_outcome() -> None:
    # A difference in the form would show which outcome is the twin.
    def cut(file: str) -> str:
        text = load_built_in().files[file]
        return text[text.index("MATERIALS IN YOUR ANSWER") : text.index("FAITHFULNESS")]

    assert cut("incorrect.system.txt") == cut("transition.system.txt")


def test_every_reply_states_its_reasons_before_its_result() -> None:
    files = {**load_built_in().files, **load_built_in_rating().files}
    reasons_and_results = {
        "transition.system.txt": ('"reasoning":', '"success":'),
        "incorrect.system.txt": ('"reasoning":', '"success":'),
        "obvious.system.txt": ('"reasoning":', '"success":'),
        "classification.txt": ("<reasoning>", "<verdict>"),
        "classification.repair.txt": ("<reasoning>", "<verdict>"),
        "rating.plausibility.txt": ('"reason":', '"verdict":'),
        "rating.sufficiency.txt": ('"reason":', '"verdict":'),
        "agent.react.txt": ("THOUGHT:", "ACTION:"),
    }
    for file, (reason, result) in reasons_and_results.items():
        assert 0 <= files[file].index(reason) < files[file].index(result), file


def test_agent_prompt_puts_stable_text_before_changing_text() -> None:
    assert load_built_in().files["agent.system.txt"].rstrip().endswith("{actions}")
    order = re.findall(r"\{([a-z]+)\}", load_built_in().files["agent.user.txt"])
    assert order == ["goal", "history", "time", "materials", "notes"]


def test_built_in_examples_are_three_valid_and_two_invalid() -> None:
    examples = json.loads(load_built_in().files["examples.json"])
    assert [example["label"] for example in examples] == ["VALID"] * 3 + ["INVALID"] * 2
    assert load_built_in().render_examples().count("Verdict: INVALID") == 2


# Filling


def test_placeholders_inside_inserted_text_are_not_filled_and_other_braces_are_kept() -> None:
    texts = PromptTexts("mine", {"transition.user.txt": '{"a": {}} {materials}|{observations}|{action}|{goal} {{x}}'})
    filled = texts.fill_in(
        "transition.user.txt", materials="{action}", observations="{{materials}}", action="\\1 %s {0}"
    )
    assert filled == '{"a": {}} {action}|{{materials}}|\\1 %s {0}|{goal} {{x}}'


def test_filling_requires_exactly_the_placeholders_of_the_file() -> None:
    with pytest.raises(TypeError, match=r"agent\.act\.txt is filled with nothing, not with goal"):
        load_built_in().fill_in("agent.act.txt", goal="x")
    with pytest.raises(TypeError, match="materials, observations, action, not with action"):
        load_built_in().fill_in("transition.user.txt", action="x")


@pytest.mark.parametrize(("name", "family"), SHIPPED.items())
def test_every_file_of_a_built_in_set_can_be_filled(name: str, family: str) -> None:
    texts = prompt_sets.load_family(name)
    for file, placeholders in FAMILIES[family].items():
        filled = texts.fill_in(file, **{each: f"<{each} here>" for each in placeholders.all_names})
        # Only the agents of the set wetbench-protocol are given a protocol.
        used = [each for each in placeholders.all_names if each != "protocol" or name == BUILT_IN_PROTOCOL]
        assert all(f"<{each} here>" in filled and f"{{{each}}}" not in filled for each in used)
        assert used == list(placeholders.all_names) or "<protocol here>" not in filled


# The hash


def test_prompt_set_hash_covers_file_names_and_texts_and_not_the_set_name() -> None:
    # printf '{"a.txt":"ä","b.txt":"y"}' | sha256sum
    digest = "d29a057215eaf1709c0be1e1245d988e17080637dbc0b7bf733b222d4a8c7051"
    assert (
        compute_hash({"b.txt": "y", "a.txt": "ä"}) == digest == PromptTexts("any", {"a.txt": "ä", "b.txt": "y"}).sha256
    )
    assert compute_hash({"a.txt": "äy", "b.txt": ""}) != digest
    assert PromptTexts("one", load_built_in().files).sha256 == load_built_in().sha256


def test_prompt_set_texts_are_read_only() -> None:
    with pytest.raises(TypeError):
        load_built_in().files["agent.act.txt"] = "other"  # type: ignore[index]


# Reading a folder


def test_missing_prompt_files_are_taken_from_the_built_in_set(tmp_path: Path) -> None:
    read = load_folder(write_folder(tmp_path, agent_act="Go on."), "mine")
    assert read.texts.name == "mine" and read.texts.files["agent.act.txt"] == "Go on."
    assert read.borrowed == tuple(sorted(set(PLACEHOLDERS) - {"agent.act.txt"})) and read.unescaped == ()
    assert {**read.texts.files, "agent.act.txt": ""} == {**load_built_in().files, "agent.act.txt": ""}


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({"incorrect_user": STATE}, {"incorrect.system.txt"}),
        ({"agent_system": "{actions}"}, {"agent.schema.txt"}),
        ({"obvious_system": "Be wrong."}, {"transition.schema.txt"}),
        ({"classification": "{observation} {interpretation}"}, {"classification.schema.txt"}),
    ],
)
def test_own_texts_of_a_folder_are_not_combined_with_built_in_texts_that_contradict_them(
    tmp_path: Path, files: dict[str, str], missing: set[str]
) -> None:
    read = load_folder(write_folder(tmp_path, **files), "paper")
    assert set(PLACEHOLDERS) - set(read.texts.files) == missing and not missing & set(read.borrowed)


def test_copy_of_the_built_in_set_has_the_same_hash(tmp_path: Path) -> None:
    for file, text in load_built_in().files.items():
        (tmp_path / file).write_text("\ufeff" + text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert load_folder(tmp_path, "copy").texts.sha256 == load_built_in().sha256


def test_doubled_braces_of_a_format_template_are_unescaped(tmp_path: Path) -> None:
    template = '{materials} {observations}\n{action}\n{{"new_materials": [{{"properties": {{"key": "value"}}}}]}}'
    read = load_folder(write_folder(tmp_path, incorrect_user=template), "paper")
    assert read.unescaped == ("incorrect.user.txt",)
    assert read.texts.files["incorrect.user.txt"] == template.format(
        materials="{materials}", observations="{observations}", action="{action}"
    )


@pytest.mark.parametrize(
    "json_as_it_is",
    ['{"new_materials": [{"properties": {"key": "value"}}]}', "{{x}} {goal!r:>4}", "{{ {0}", "}", "{{a}} {key:value}"],
)
def test_braces_of_prompt_files_without_a_format_template_are_kept(tmp_path: Path, json_as_it_is: str) -> None:
    text = STATE + json_as_it_is
    read = load_folder(write_folder(tmp_path, transition_user=text), "mine")
    assert read.unescaped == () and read.texts.files["transition.user.txt"] == text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"transition_user": "{materials} {action}"}, "transition.user.txt: {observations} is missing"),
        ({"agent_system": "{actions} {goal}"}, "agent.system.txt: {goal} is not filled in here; {actions} is"),
        ({"agent_plain": "{notes}"}, "agent.plain.txt: {notes} is not filled in here; nothing is"),
        ({"agent_sistem": "{actions}"}, "agent.sistem.txt: no such file in a prompt set; there are agent.act.txt, "),
        ({"agent_act": b"\xff\xfe"}, "agent.act.txt: is not UTF-8 text (byte 1)"),
        ({"agent_act": " \n"}, "agent.act.txt: is empty"),
        ({"agent_act": "a\x00b"}, "agent.act.txt: contains control characters"),
        ({"agent_act": "x" * (MAX_FILE_BYTES + 1)}, f"agent.act.txt: is longer than {MAX_FILE_BYTES} bytes"),
        ({"examples": "[{]"}, "examples.json: is not JSON"),
        ({"examples": "[" * 90_000}, "examples.json: is not JSON"),
        ({"examples": "{}"}, "examples.json: must be a list of 1 to 50 examples"),
        ({"examples": '[{"observation": "o"}]'}, "examples.json: [0] must be an object with observation, interp"),
        ({"examples": '[{"observation": "", "interpretation": "i", "label": "VALID"}]'}, "[0] observation must be a text"),
        ({"examples": '[{"observation": "o", "interpretation": "i", "label": 1}]'}, "label must be VALID or INVALID"),
        ({}, "contains none of agent.act.txt, "),
    ],
)  # fmt: skip
def test_invalid_prompt_folder_is_refused_with_file_and_placeholder(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    with pytest.raises(PromptSetError) as refused:
        load_folder(write_folder(tmp_path, **files), "mine")
    assert said in str(refused.value)


def test_all_problems_of_a_prompt_folder_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError) as refused:
        load_folder(write_folder(tmp_path, agent_act="", transition_user="{action}", examples="1"), "mine")
    assert len(refused.value.problems) == 4  # one per file, and two for the two missing placeholders


def test_other_files_are_ignored_and_a_directory_named_like_a_prompt_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".hidden.txt").write_text("x")
    assert load_folder(write_folder(tmp_path, agent_act="Go on."), "mine").texts.files["agent.act.txt"] == "Go on."
    (tmp_path / "agent.plan.txt").mkdir()
    with pytest.raises(PromptSetError, match=r"agent\.plan\.txt: cannot be read"):
        load_folder(tmp_path, "mine")


@pytest.mark.parametrize("path", ["/nowhere/at/all", "nul\x00"])
def test_missing_prompt_folder_is_refused(path: str) -> None:
    with pytest.raises(PromptSetError, match="cannot be read as a folder"):
        load_folder(Path(path), "mine")


def test_prompt_set_can_be_specified_by_name_or_by_name_and_hash() -> None:
    assert SetName.parse_name("paper") == SetName("paper") and SetName.parse_name("paper@12ab34") == SetName(
        "paper", "12ab34"
    )
    for wrong in ("", "pa per", "paper@", "paper@12ab3", "paper@xyz123", "a@123456@123456", "x\x00", "x" * 81):
        with pytest.raises(PromptSetError):
            SetName.parse_name(wrong)


def test_built_in_prompt_set_is_cached() -> None:
    assert prompt_sets.load_built_in() is prompt_sets.load_built_in()


def test_documentation_lists_every_prompt_file_with_its_placeholders() -> None:
    manual = (FIXTURES.parent / "docs" / "prompts.md").read_text()
    for file, placeholders in ALL_FILES.items():
        row = next(line for line in manual.splitlines() if line.startswith("|") and f"`{file}`" in line)
        assert all(f"`{{{name}}}`" in row for name in placeholders.all_names)
