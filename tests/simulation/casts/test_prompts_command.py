"""Stored prompt sets and the command `prompts`."""

import os
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from simulation.casts import prompt_store
from simulation.lab.errors import LabError
from simulation.llm.prompt_sets import load_built_in
from simulation.models import PromptSet

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
    assert [row.pk for row in prompt_store.list_current()] == [prompt_store.get_prompt_set().pk, new.pk]


def test_older_version_of_the_built_in_set_is_found_by_hash(house_folder: Path) -> None:
    earlier, _ = prompt_store.import_folder(house_folder, "house")
    PromptSet.objects.filter(pk=earlier.pk).update(name="wetbench")  # as an earlier release would have stored it
    assert prompt_store.get_prompt_set(f"wetbench@{earlier.sha256[:12]}").pk == earlier.pk
    assert prompt_store.get_prompt_set().sha256 == load_built_in().sha256
    assert [row.sha256 for row in prompt_store.list_current()] == [load_built_in().sha256]


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
