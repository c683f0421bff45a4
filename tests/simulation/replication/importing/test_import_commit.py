"""Import of a commit: no checkout, nothing of the repository's configuration, links dropped."""

import json

import pytest

from simulation.replication.importing.git_reading import open_commit
from simulation.replication.importing.import_sources import import_commit
from simulation.replication.importing.reading import ImportFault
from simulation.replication.importing.results import write_tasks
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.task_files import load_task
from tests.support import import_sources, small_tasks


@pytest.fixture(scope="module")
def sandbox():
    return open_sandbox()


def write_repository(folder, paper_link="", **changes):
    """Write a repository with a task that has data and no generator, and return the hash of its commit."""
    folder.mkdir()
    entry = {**small_tasks.build_task_json(), "claims": {"e1": {"mean": 3.5}}, **changes}
    files = {
        "code/small/__init__.py": "",
        "code/small/sums.py": small_tasks.MODULE,
        "code/experiments.py": small_tasks.EXPERIMENTS,
        "data/readings.json": json.dumps({"offset": 1.0, "values": [2.0, 4.0, 7.0]}),
        "paper.md": small_tasks.PAPER,
        "task.json": json.dumps(entry),
        "mutants.json": "[]",
    }
    if paper_link:
        del files["paper.md"]
        (folder / "paper.md").symlink_to(paper_link)
    return import_sources.commit_files(folder, files)


def test_commit_becomes_a_task_folder_with_links_dropped(tmp_path, sandbox):
    commit = write_repository(tmp_path / "source")
    result = import_commit(tmp_path / "source", commit, sandbox)
    [folder] = write_tasks(result.tasks, tmp_path / "out")
    task = load_task(folder)
    assert (task.origin.format, task.origin.commit, task.origin.source) == ("git", commit, "source")
    assert (
        list(task.data) == ["readings.json"] and not task.has_variants and task.origin.claims == {"e1": {"mean": 3.5}}
    )
    left_out = "\n".join(result.tasks[0].left_out)
    assert "'data-link.csv': is a link" in left_out and "mutants.json: is not part" in left_out


def test_commit_is_read_without_the_configuration_of_its_repository(tmp_path):
    source, marker = tmp_path / "source", tmp_path / "marker"
    commit = write_repository(source)
    program = tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    config = source / ".git" / "config"
    # With a promised object missing, Git would start this program to fetch it.
    config.write_text(
        f"[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {program}\n\tpager = {program}\n[extensions]\n\tpartialclone = origin\n"
        f'[remote "origin"]\n\turl = {source}\n\tpromisor = true\n\tuploadpack = {program}\n'
    )
    with open_commit(source, commit) as opened:
        entry = {entry.path: entry for entry in opened.list_entries()}["paper.md"]
        (source / ".git" / "objects" / entry.blob[:2] / entry.blob[2:]).unlink()
        with pytest.raises(ImportFault, match=entry.blob):
            opened.read_blob(entry, 100_000)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("commit", "folder", "text"),
    [
        ("HEAD", "", "allowed: the full hash of a commit"),
        ("0" * 40, "", "git cat-file"),
        ("", "../x", "allowed: the full hash"),
        (None, "../x", "--folder: is '../x'"),
    ],
)
def test_commit_is_named_by_its_full_hash(tmp_path, commit, folder, text):
    present = write_repository(tmp_path / "source")
    with (
        pytest.raises(ImportFault, match=text),
        open_commit(tmp_path / "source", present if commit is None else commit, folder),
    ):
        pass


def test_commit_with_wrong_fields_or_hostile_modules_is_refused_as_a_whole(tmp_path, sandbox):
    commit = write_repository(
        tmp_path / "source", functions=[{"id": "f1", "path": "code/small/sums.py", "name": "absent"}]
    )
    result = import_commit(tmp_path / "source", commit, sandbox)
    with pytest.raises(ImportFault, match=r"functions\[0\].name: is 'absent'"):
        write_tasks(result.tasks, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_commit_whose_paper_is_a_link_is_refused(tmp_path, sandbox):
    commit = write_repository(tmp_path / "source", paper_link="/etc/passwd")
    with pytest.raises(ImportFault, match=r"paper.md: is a link or a submodule; allowed: a regular file"):
        import_commit(tmp_path / "source", commit, sandbox)
