"""Which sandbox a machine uses, its self-test, and the command that shows it."""

import compileall
import io
import json

import pytest
from django.core.management import CommandError, call_command

from simulation.replication.sandbox import choosing
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.sandbox.bubblewrap import BubblewrapSandbox
from simulation.replication.sandbox.choosing import SandboxSettings, open_sandbox
from simulation.replication.sandbox.inputs import Ceiling
from simulation.replication.sandbox.packages import list_uncompiled_packages
from simulation.replication.sandbox.self_test import run_self_test


class WithoutFilter(BubblewrapSandbox):
    """A sandbox that is weaker than it must be: without the system call filter, and with a writable folder."""

    def _build_arguments(self, *arguments):
        options, descriptors = super()._build_arguments(*arguments)
        position = options.index("--seccomp")
        return [*options[:position], *options[position + 2 :]], descriptors


def test_settings_of_sandboxes_come_from_the_environment():
    environ = {
        "WETBENCH_SANDBOX": "podman",
        "WETBENCH_BWRAP": "/opt/bwrap",
        "WETBENCH_SANDBOX_IMAGE": "wetbench-sandbox",
        "WETBENCH_SANDBOX_CGROUP": "/sys/fs/cgroup/wetbench",
        "WETBENCH_SANDBOX_SECONDS": "60",
        "WETBENCH_SANDBOX_MEMORY_MB": "512",
        "WETBENCH_SANDBOXES": "3",
    }
    expected = SandboxSettings(
        "podman", "/opt/bwrap", "wetbench-sandbox", "/sys/fs/cgroup/wetbench", Ceiling(60, 512), 3
    )
    assert SandboxSettings.from_environment(environ) == expected
    assert SandboxSettings.from_environment({}) == SandboxSettings()
    with pytest.raises(SandboxUnavailable, match="'many'"):
        SandboxSettings.from_environment({"WETBENCH_SANDBOXES": "many"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SandboxSettings(mode="off"), "switched off .*apt-get install bubblewrap"),
        (SandboxSettings(mode="none"), "'none'; allowed are auto, bubblewrap, docker, podman, off"),
        (SandboxSettings(program="no-such-bwrap"), "no-such-bwrap was not found; install bubblewrap"),
        (SandboxSettings(mode="docker"), "needs its program, and an image"),
        (SandboxSettings(cgroup="/tmp"), "'/tmp', which is not a control group"),
    ],
)
def test_sandbox_that_cannot_be_used_is_unavailable_with_what_helps(settings, message):
    with pytest.raises(SandboxUnavailable, match=message):
        open_sandbox(settings)


def test_sandbox_that_fails_its_self_test_is_not_used(monkeypatch):
    monkeypatch.setattr(choosing, "BubblewrapSandbox", WithoutFilter)
    with pytest.raises(SandboxUnavailable, match="filters system calls: Seccomp 0, AF_VSOCK opened"):
        open_sandbox(SandboxSettings(slots=63))  # other settings than those of the cached sandbox


def test_self_test_has_twelve_checks_that_this_machine_passes():
    test = run_self_test(open_sandbox())
    assert (len(test.checks), test.failed) == (12, ())


def test_sandbox_check_prints_its_checks_as_json_and_refuses_without_a_sandbox(monkeypatch):
    output = io.StringIO()
    call_command("sandbox_check", "--json", stdout=output)
    report = json.loads(output.getvalue())
    assert report.pop("start_ms") > 0
    assert report == {"usable": True, "backend": open_sandbox().name, "checks": 12, "failed": []}
    monkeypatch.setenv("WETBENCH_SANDBOX", "off")
    with pytest.raises(CommandError, match="apt-get install bubblewrap") as refusal:
        call_command("sandbox_check")
    assert refusal.value.returncode == 2


def test_packages_without_compiled_code_are_named(tmp_path, monkeypatch):
    (tmp_path / "uncompiled_package").mkdir()
    module = tmp_path / "uncompiled_package" / "__init__.py"
    module.write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list_uncompiled_packages(["uncompiled_package", "no_such_package"]) == [module.parent]
    assert compileall.compile_file(module, quiet=1)
    assert list_uncompiled_packages(["uncompiled_package"]) == []
