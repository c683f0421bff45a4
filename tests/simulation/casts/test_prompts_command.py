"""Stored prompt sets and the command `prompts`."""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from simulation.casts import prompt_previews, prompt_store
from simulation.lab.errors import LabError
from simulation.llm import prompt_sets
from simulation.llm.prompt_sets import load_built_in
from simulation.models import Experiment, PromptSet
from simulation.runs import benches

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def house_folder(tmp_path: Path) -> Path:
    """Write a prompt folder with one file, as a laboratory would."""
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "agent.act.txt").write_text("Go on.\n")
    return folder


def run_prompts(*arguments: object) -> None:
    call_command("prompts", *map(str, arguments))


def test_built_in_prompt_set_is_stored_on_first_use() -> None:
    assert not PromptSet.objects.exists()
    row = prompt_store.get_prompt_set("wetbench")
    assert (row.name, row.sha256, row.files) == ("wetbench", load_built_in().sha256, dict(load_built_in().files))
    assert (
        prompt_store.get_prompt_set().pk
        == prompt_store.get_prompt_set(f"wetbench@{row.sha256[:6]}").pk
        == PromptSet.objects.get().pk
    )


def test_imported_prompt_set_is_found_by_name_and_its_texts_by_hash(house_folder: Path) -> None:
    row, read = prompt_store.import_folder(house_folder, "house")
    assert prompt_store.get_prompt_set("house").pk == row.pk and read.texts.sha256 == row.sha256
    texts = prompt_store.load_texts(row.sha256)
    assert texts.files["agent.act.txt"] == "Go on.\n"
    assert texts.files["agent.plan.txt"] == load_built_in().files["agent.plan.txt"]
    assert prompt_store.load_texts(row.sha256) is texts


def test_changed_prompt_set_is_a_new_version_and_the_older_one_is_kept(house_folder: Path) -> None:
    old, _ = prompt_store.import_folder(house_folder, "house")
    (house_folder / "agent.act.txt").write_text("Go on, please.\n")
    new, _ = prompt_store.import_folder(house_folder, "house")
    assert prompt_store.get_prompt_set("house").pk == new.pk != old.pk
    assert prompt_store.get_prompt_set(f"house@{old.sha256[:8]}").pk == old.pk
    assert [row.pk for row in prompt_store.list_current()] == [
        *(prompt_store.get_prompt_set(name).pk for name in ("wetbench", "wetbench-protocol")),
        new.pk,
    ]


def test_older_version_of_the_built_in_set_is_found_by_hash(house_folder: Path) -> None:
    earlier, _ = prompt_store.import_folder(house_folder, "house")
    PromptSet.objects.filter(pk=earlier.pk).update(name="wetbench")  # as an earlier release would have stored it
    assert prompt_store.get_prompt_set(f"wetbench@{earlier.sha256[:12]}").pk == earlier.pk
    assert prompt_store.get_prompt_set().sha256 == load_built_in().sha256
    assert [row.sha256 for row in prompt_store.list_current()][:-1] == [load_built_in().sha256]


@pytest.mark.parametrize("name", ["paper", "house@000000", "wetbench@ffffff", "a b", "x\x00", "house@", ""])
def test_unknown_prompt_set_is_refused_with_the_existing_names(house_folder: Path, name: str) -> None:
    prompt_store.import_folder(house_folder, "house")
    with pytest.raises(prompt_store.NoSuchPromptSet, match=r"wetbench, house|is not a name of|after @ must follow"):
        prompt_store.get_prompt_set(name)


def test_stored_texts_that_do_not_match_their_hash_are_refused(house_folder: Path) -> None:
    (house_folder / "agent.act.txt").write_text("Never tampered with.")
    row, _ = prompt_store.import_folder(house_folder, "house")
    PromptSet.objects.filter(pk=row.pk).update(files={**row.files, "agent.act.txt": "Tampered with."})
    with pytest.raises(LabError, match="no longer match its hash"):
        prompt_store.load_texts(row.sha256)
    with pytest.raises(prompt_store.NoSuchPromptSet, match="no prompt set with the hash"):
        prompt_store.load_texts("0" * 64)


def test_import_reports_which_prompt_files_were_stored_taken_from_the_built_in_set_or_unescaped(
    house_folder: Path, capsys
) -> None:
    (house_folder / "incorrect.user.txt").write_text('{materials} {observations} {action} {{"success": true}}')
    (house_folder / "obvious.user.txt").write_text('{materials} {observations} {action} {{"success": {"key": 1}}}')
    run_prompts("import", house_folder)
    said = capsys.readouterr().out
    assert "choose prompt set house for a run" in said
    assert "Not in the folder, taken from wetbench: agent.plain.txt, " in said and "agent.act.txt," not in said
    assert "doubled braces were changed to single ones: incorrect.user.txt\n" in said
    assert "there are single ones as well: obvious.user.txt\n" in said
    assert PromptSet.objects.get(name="house").files["incorrect.user.txt"].endswith('{"success": true}')


def test_repeated_import_stores_nothing_and_reports_it(house_folder: Path, capsys) -> None:
    run_prompts("import", house_folder)
    (house_folder / "agent.act.txt").write_text("Go on, please.\n")
    run_prompts("import", house_folder)
    (house_folder / "agent.act.txt").write_text("Go on.\n")
    capsys.readouterr()
    run_prompts("import", house_folder)
    old = PromptSet.objects.filter(name="house").last()
    said = capsys.readouterr().out
    assert (
        old and f"choose prompt set house@{old.sha256[:12]} for a run" in said and "refers to a newer version" in said
    )
    run_prompts("import", house_folder, "--name", "second")
    assert "The same texts are stored already, as house" in capsys.readouterr().out
    assert PromptSet.objects.count() == 3  # two versions of house and the built-in set


def test_import_of_a_copy_of_the_built_in_set_stores_nothing_new(tmp_path: Path, capsys) -> None:
    for file, text in load_built_in().files.items():
        (tmp_path / file).write_text(text)
    run_prompts("import", tmp_path, "--name", "copy")
    assert "as wetbench: nothing new was stored" in capsys.readouterr().out
    assert PromptSet.objects.get().name == "wetbench"


@pytest.mark.parametrize("name", ["wetbench", "two words", "x" * 81, "house@123456", "ü"])
def test_import_refuses_the_built_in_name_and_invalid_names(house_folder: Path, name: str) -> None:
    with pytest.raises(CommandError, match=r"--name|is not a name of a prompt set") as refused:
        run_prompts("import", house_folder, "--name", name)
    assert refused.value.returncode == 2 and not PromptSet.objects.filter(name=name).exists()


def test_import_of_an_invalid_folder_exits_with_2_and_stores_nothing(house_folder: Path) -> None:
    (house_folder / "summary.txt").write_text("{observation}")
    with pytest.raises(CommandError, match=r"summary.txt: \{interpretation\} is missing") as refused:
        run_prompts("import", house_folder)
    assert refused.value.returncode == 2 and not PromptSet.objects.exclude(name="wetbench").exists()


def test_list_shows_every_version_and_marks_the_newest(house_folder: Path, capsys) -> None:
    old, _ = prompt_store.import_folder(house_folder, "house")
    (house_folder / "agent.act.txt").write_text("Go on, please.\n")
    new, _ = prompt_store.import_folder(house_folder, "house")
    run_prompts("list")
    lines = [(line.split()[0], line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        (f"house@{new.sha256[:12]}", "newest"),
        (f"house@{old.sha256[:12]}", "older"),
        (f"wetbench@{load_built_in().sha256[:12]}", "newest"),
        (f"wetbench-protocol@{prompt_sets.load_family('wetbench-protocol').sha256[:12]}", "newest"),
    ]


def test_show_prints_a_set_or_one_file_exactly(house_folder: Path, capsys) -> None:
    prompt_store.import_folder(house_folder, "house")
    run_prompts("show", "house", "agent.act.txt")
    assert capsys.readouterr().out == "Go on.\n"
    run_prompts("show", "wetbench")
    said = capsys.readouterr().out
    assert said.startswith(f"wetbench  {load_built_in().sha256}\n")
    assert "===== classification.txt  (filled in: {observation}, {interpretation}, {examples})" in said
    with pytest.raises(CommandError, match=r"choose from .*agent.act.txt"):
        run_prompts("show", "wetbench", "agent.txt")


def test_diff_shows_only_the_differing_files_of_sets_or_folders(house_folder: Path, capsys) -> None:
    prompt_store.import_folder(house_folder, "house")
    for other in ("house", house_folder):
        run_prompts("diff", "wetbench", other)
        lines = capsys.readouterr().out.splitlines()
        assert lines[:2] == ["--- wetbench agent.act.txt", f"+++ {other} agent.act.txt"]
        assert "+Go on." in lines and sum(line.startswith("---") for line in lines) == 1
    run_prompts("diff", "house", house_folder)
    assert capsys.readouterr().out == "The sets are identical.\n"


def test_prompts_command_stops_quietly_when_its_output_pipe_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        run_prompts("list")
        run_prompts("show", "wetbench")
        monkeypatch.undo()


# Rendering


def render(capsys: pytest.CaptureFixture[str], role: str, step: int = 3, *more: object) -> str:
    run_prompts("render", role, "--experiment", "caffeine-hplc-analysis", "--step", step, *more)
    return capsys.readouterr().out


def read_counts(output: str) -> dict[str, int]:
    """Return the tokens of each part, and of all static and dynamic ones."""
    rows = re.findall(r"^ *(\d+)  (static|dynamic) +(.+)$", output, re.MULTILINE)
    return {(part if part != "all parts" else f"all {kind}"): int(count) for count, kind, part in rows}


@pytest.mark.parametrize("role", prompt_previews.ROLES)
def test_render_prints_the_filled_prompt_of_every_role_with_the_tokens_of_each_part(
    role: str, caffeine: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    output = render(capsys, role)
    assert f"{role}, step 3 of caffeine-hplc-analysis, " in output
    assert "Tokens are estimated: UTF-8 bytes divided by 4" in output
    counts = read_counts(output)
    static, dynamic = counts.pop("all static"), counts.pop("all dynamic")
    assert static > 0 and dynamic > 0 and static + dynamic == sum(counts.values())
    # No placeholder of the set is left, and the system prompt is printed as it is sent.
    assert not re.search(r"\{(actions|goal|history|materials|observations|action|item|rows|interpretation)\}", output)
    system = re.search(r"===== system prompt \(static\)\n(.*?)\n\n=====", output, re.DOTALL)
    assert (system is None) == (role == prompt_previews.CLASSIFIER)
    if system:
        # A quarter of its bytes, rounded up.
        assert counts["system prompt"] == -(-len(system[1].encode()) // 4)


def test_rendered_prompts_show_the_step_that_was_asked_for(
    caffeine: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = render(capsys, "agent", 3)
    history = agent.split("===== message: what later prompts repeat")[1].split("===== message: what changes")[0]
    assert re.findall(r"^(\d+)\. \w+ at ", history, re.MULTILINE) == ["1", "2"]
    assert "THOUGHT" not in agent.split("===== message")[-1]
    assert "THOUGHT:" in render(capsys, "agent", 3, "--scaffold", "react").split("===== message")[-1]
    judged = render(capsys, "evidence-classifier", 2)
    assert '"step": 2' in judged and '"step": 3' not in judged
    assert "SECRET" in render(capsys, "twin-subtle") and "SECRET" not in render(capsys, "transition-model")
    # Raters see letters and no barcodes.
    assert "MAT-" not in render(capsys, "model-rater")


def test_render_with_counts_prints_the_table_alone(caffeine: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    output = render(capsys, "agent", 3, "--counts")
    assert "=====" not in output and len(output.splitlines()) < 12 and read_counts(output)["all static"] > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("judge", "--experiment", "caffeine-hplc-analysis", "--step", "1"), "There is no role 'judge'; allowed: agent, "),
        (("agent", "--experiment", "tea", "--step", "1"), "There is no experiment 'tea'; allowed: acidifying-microbes, "),
        (("agent", "--experiment", "caffeine-hplc-analysis", "--step", "0"), "Step 0 is not in the reference protocol"),
        (("agent", "--experiment", "caffeine-hplc-analysis", "--step", "999"), "allowed: 1 to "),
        (("agent", "--experiment", "caffeine-hplc-analysis", "--step", "1", "--prompts", "none"), "no prompt set 'none'"),
    ],
)  # fmt: skip
def test_render_refuses_what_there_is_not_and_lists_what_is_allowed(
    caffeine: Experiment, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(CommandError, match=re.escape(message)) as refused:
        run_prompts("render", *arguments)
    assert refused.value.returncode == 2


def test_rendered_agent_prompt_is_that_of_an_episode_at_the_same_step(caffeine: Experiment) -> None:
    catalogue = benches.get_current_catalogue()
    spec = benches.get_specification(caffeine)
    texts = prompt_store.load_texts(prompt_store.get_prompt_set().sha256)
    request = prompt_previews.PreviewRequest("agent", spec, catalogue, texts, step=2)
    earlier, later = (prompt_previews.build_preview(replace(request, step=step)) for step in (2, 3))
    assert earlier.system == later.system and earlier.schema == later.schema
    [stable, *_] = [part for part in prompt_previews.split_prompt(earlier) if "repeat" in part.name]
    assert later.messages[0].text.startswith(stable.text) and stable.kind == prompt_previews.STATIC


# Agents that edit code


def test_render_prints_the_first_prompt_of_a_code_agent_for_a_mask(capsys: pytest.CaptureFixture[str]) -> None:
    run_prompts("render", "code", "--task", "qpcr-titre", "--mask", "u1-001", "--scaffold", "react", "--code", "ast")
    output = capsys.readouterr().out
    assert "===== system prompt (static)" in output and "===== message: what later prompts repeat (static)" in output
    assert "CODE AT THE START" in output and "THOUGHT: what the last output" in output and "wetbench-code" in output
    run_prompts("render", "code", "--task", "qpcr-titre", "--mask", "u1-001", "--scaffold", "fixed", "--counts")
    counted = capsys.readouterr().out
    assert "=====" not in counted and "code, first prompt of qpcr-titre u1-001" in counted


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("code", "--task", "qpcr-titre"), "The role code needs --mask"),
        (("agent", "--step", "1"), "The role agent needs --experiment"),
        (("code", "--task", "qpcr", "--mask", "u1-001"), "There is no task 'qpcr'. Tasks: .*qpcr-titre"),
        (("code", "--task", "all", "--mask", "u1-001"), "--task: is 'all'; allowed: the name of one task"),
        (("code", "--task", "qpcr-titre", "--mask", "3"), "'3' is not the key of a mask; allowed: u [(]uniform[)], n"),
        (("code", "--task", "qpcr-titre", "--mask", "u1-009"), "qpcr-titre has no mask u1-009; allowed: 001 to 008"),
        (("code", "--task", "qpcr-titre", "--mask", "u0-001", "--scaffold", "fixed"), "hides nothing"),
    ],
)  # fmt: skip
def test_render_of_a_code_prompt_refuses_what_there_is_not(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run_prompts("render", *arguments)
