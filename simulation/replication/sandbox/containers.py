"""Sandboxes by Docker or Podman, for machines without bubblewrap. Used only when WETBENCH_SANDBOX names them.

A container starts in about half a second. The read-only input is not protected from the command, and the packages are those of
the image. No engine was available when this was written, so it has not been run; `make containers` runs the tests that need one.
"""

import contextlib
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event

from simulation.replication.sandbox.base import INPUT, SCRATCH, WORKSPACE, Limits, SandboxResult, SandboxUnavailable
from simulation.replication.sandbox.bubblewrap import FIRST_USER, LAST_USER
from simulation.replication.sandbox.exchange import Exchange, Streams
from simulation.replication.sandbox.frames import format_request
from simulation.replication.sandbox.inputs import Ceiling, build_environment, check_inputs

PATH = "/venv/bin:/usr/local/bin:/usr/bin:/bin"


class ContainerSandbox:
    """Runs commands in containers of `program`, which is "docker" or "podman", from the image `image`."""

    def __init__(self, program: str, image: str, ceiling: Ceiling = Ceiling()) -> None:  # noqa: B008  # immutable
        self.name = Path(program).name
        self._program, self._image, self._ceiling = program, image, ceiling

    def run(
        self,
        command: Sequence[str],
        files: Mapping[str, bytes],
        read_only: Mapping[str, bytes] | None = None,
        limits: Limits = Limits(),  # noqa: B008  # immutable
        packages: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        with_result: bool = False,
        stop: Event | None = None,
    ) -> SandboxResult:
        """Run the command, as `base.Sandbox.run` describes; `packages` has no effect."""
        check_inputs(command, files, read_only or {})
        limits = self._ceiling.lower(limits)
        variables = {name: value for name, value in build_environment(environment).items() if name not in _OF_THE_HOST}
        request = format_request(
            command, files, limits, {**variables, "PATH": PATH}, with_result, input_files=read_only
        )
        name = f"wetbench-{secrets.token_hex(8)}"
        try:
            process = subprocess.Popen(
                [self._program, *build_arguments(name, self._image, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
            )
        except OSError as error:
            raise SandboxUnavailable(f"{self._program} cannot be started: {error.strerror}") from error
        assert process.stdin and process.stdout and process.stderr
        streams = Streams(process.stdin, process.stdout, process.stderr)

        def end() -> None:
            # Ending the client would leave the container running.
            subprocess.run([self._program, "kill", name], check=False, capture_output=True, timeout=30)

        try:
            return Exchange(streams, request, limits, lambda: None, end, stop).run()
        finally:
            if process.poll() is None:
                end()
            process.kill()
            process.wait(timeout=30)
            for stream in streams:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


_OF_THE_HOST = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")


def build_arguments(name: str, image: str, limits: Limits) -> Iterator[str]:
    """Yield the arguments of `docker run` for one sandbox."""
    user = FIRST_USER + secrets.randbelow(LAST_USER - FIRST_USER)
    memory = f"{limits.resident_mib + limits.work_mib + 2 * limits.tmp_mib}m"  # memory file systems count as well
    yield from ("run", "--rm", "--interactive", "--name", name, "--hostname", "sandbox", "--network", "none")
    yield from ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", f"{user}:{user}")
    yield from ("--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes), "--cpus", "1")
    for folder, size in ((WORKSPACE, limits.work_mib), (SCRATCH, limits.tmp_mib), (INPUT, 64)):
        yield from ("--tmpfs", f"{folder}:size={size}m,nr_inodes={limits.inodes},mode=0777")
    yield from ("--shm-size", f"{limits.tmp_mib}m", "--workdir", WORKSPACE, "--entrypoint", "python3", image)
    yield from ("-I", "-S", "-c", Path(__file__).with_name("supervisor.py").read_text(encoding="utf-8"), "-")
