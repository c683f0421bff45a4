"""A control group for each sandbox, in a folder of plain files: no machine here has delegated one."""

import subprocess

import pytest

from simulation.replication.sandbox import cgroups
from simulation.replication.sandbox.base import Limits, SandboxFault


def test_group_gets_the_limits_and_the_process_that_joins_it(tmp_path, monkeypatch):
    (tmp_path / "sandbox-old").mkdir()
    make_folder = cgroups.Path.mkdir

    def make_group(path, *arguments, **named):
        make_folder(path, *arguments, **named)
        for name in ("memory.max", "pids.max", "cpu.max", "cgroup.procs"):
            (path / name).write_text("")  # what the kernel does

    monkeypatch.setattr(cgroups.Path, "mkdir", make_group)
    monkeypatch.setattr(cgroups.time, "sleep", lambda seconds: None)
    with cgroups.open_group(str(tmp_path), Limits(resident_mib=100, processes=10)) as group:
        assert not (tmp_path / "sandbox-old").exists()
        assert (group / "memory.max").read_text() == str(100 * 2**20)
        assert (group / "pids.max").read_text() == "18"
        done = subprocess.run([*cgroups.join_group(group), "echo", "a b"], capture_output=True, text=True, check=True)
        assert done.stdout == "a b\n" and (group / "cgroup.procs").read_text() == "0\n"


def test_folder_without_controllers_is_a_fault_with_what_to_change(tmp_path):
    message = r"memory\.max.*the controllers memory, pids and cpu"
    with pytest.raises(SandboxFault, match=message), cgroups.open_group(str(tmp_path), Limits()):
        pass
    assert list(tmp_path.iterdir()) == []
