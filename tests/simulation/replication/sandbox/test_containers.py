"""Docker and Podman behind the same interface: the arguments here, and with `make containers` a run where an engine is."""

import os
import shutil

import pytest

from simulation.replication.sandbox.base import Limits
from simulation.replication.sandbox.choosing import SandboxSettings, build_sandbox
from simulation.replication.sandbox.containers import build_arguments
from simulation.replication.sandbox.self_test import run_self_test

IMAGE = os.environ.get("WETBENCH_SANDBOX_IMAGE") or "python:3.11-slim-bookworm"


def test_container_is_isolated_and_limited_by_its_arguments():
    arguments = list(build_arguments("name", "image", Limits(processes=7, resident_mib=100, work_mib=10, tmp_mib=3)))
    text = " ".join(arguments[: arguments.index("image")])
    for option in (
        "--network none", "--read-only", "--cap-drop ALL", "--security-opt no-new-privileges", "--pids-limit 7",
        "--memory 116m --memory-swap 116m", "--shm-size 3m", "/workspace:size=10m,nr_inodes=20000,mode=0777",
    ):  # fmt: skip
        assert option in text
    assert int(arguments[arguments.index("--user") + 1].split(":")[0]) >= 2**20


@pytest.mark.container
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_container_runs_a_command_and_passes_its_self_test(engine):
    if not shutil.which(engine):
        pytest.skip(f"{engine} is not installed")
    sandbox = build_sandbox(SandboxSettings(mode=engine, image=IMAGE))
    result = sandbox.run(["sh", "-c", "cat a /input/b > c; exit 3"], {"a": b"1"}, read_only={"b": b"2"})
    assert (result.exit, result.killed, result.files) == (3, "", {"a": b"1", "c": b"12"})
    # An image has folders of its own, and its engine decides what of /dev and /proc is visible.
    failed = {check.name for check in run_self_test(sandbox).failed}
    assert failed <= {"has no files of the host", "has a read-only system", "filters system calls"}
