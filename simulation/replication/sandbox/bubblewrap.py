"""Sandboxes by bubblewrap: namespaces of the Linux kernel, a seccomp filter, memory file systems and resource limits."""

import contextlib
import functools
import importlib.util
import json
import marshal
import os
import secrets
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event

from simulation.replication.sandbox.base import (
    INPUT,
    PACKAGES,
    SCRATCH,
    WORKSPACE,
    Limits,
    SandboxFault,
    SandboxResult,
    SandboxUnavailable,
)
from simulation.replication.sandbox.cgroups import join_group, open_group
from simulation.replication.sandbox.exchange import Exchange, Streams, Watch
from simulation.replication.sandbox.filters import build_filter
from simulation.replication.sandbox.frames import format_request
from simulation.replication.sandbox.inputs import Ceiling, build_environment, check_inputs
from simulation.replication.sandbox.packages import (
    find_hidden_folders,
    find_interpreter,
    find_package_mounts,
)
from simulation.replication.sandbox.watching import attach_watch

# In root mode each sandbox has a user id of its own from this range, so that no two sandboxes share a kernel user.
FIRST_USER, LAST_USER = 2**20, 2**30
SUPERVISOR = "/supervisor.pyc"


class BubblewrapSandbox:
    """Runs commands in bubblewrap. As root, every sandbox gets its own kernel user; otherwise a user namespace."""

    def __init__(self, program: str = "bwrap", ceiling: Ceiling = Ceiling(), cgroup: str = "") -> None:  # noqa: B008
        self._program, self._ceiling, self._cgroup = program, ceiling, cgroup
        self._is_root = os.geteuid() == 0
        self.name = "bubblewrap/root" if self._is_root else "bubblewrap/user"

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
        """Run the command, as `base.Sandbox.run` describes."""
        check_inputs(command, files, read_only or {})
        limits = self._ceiling.lower(limits)
        request = format_request(command, files, limits, build_environment(environment), with_result)
        user = FIRST_USER + secrets.randbelow(LAST_USER - FIRST_USER) if self._is_root else None
        with contextlib.ExitStack() as stack:
            arguments, descriptors = self._build_arguments(stack, read_only or {}, limits, tuple(packages), user)
            info, info_end = os.pipe()
            stack.callback(os.close, info)
            arguments_file = _store(stack, "\0".join([*arguments, "--info-fd", str(info_end)]).encode())
            group = stack.enter_context(open_group(self._cgroup, limits)) if self._cgroup else None
            inner = ["python3", "-I", "-S", SUPERVISOR, "-" if user is None else str(user)]
            try:
                # The environment is empty, because process 1 of the sandbox shows it in /proc/1/environ.
                process = subprocess.Popen(
                    [*join_group(group), self._program, "--args", str(arguments_file), "--", *inner],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[arguments_file, info_end, *descriptors],
                    env={"PATH": os.defpath},
                    cwd="/",
                )
            except OSError as error:
                raise SandboxUnavailable(f"{self._program} cannot be started: {error.strerror}") from error
            finally:
                os.close(info_end)
            return self._follow(process, info, request, limits, stop)

    def _follow(
        self, process: subprocess.Popen[bytes], info: int, request: bytes, limits: Limits, stop: Event | None
    ) -> SandboxResult:
        """Exchange frames with the sandbox, and return when all its processes have ended."""
        assert process.stdin and process.stdout and process.stderr
        first: list[int] = []  # pidfd of the first process in the sandbox

        with contextlib.ExitStack() as stack:

            def attach() -> Callable[[], Watch]:
                pid = read_first_process(info)
                first.append(os.pidfd_open(pid))
                stack.callback(os.close, first[0])
                return attach_watch(stack, pid, limits)

            def end() -> None:
                process.kill()
                for number in first:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(number, signal.SIGKILL)

            streams = Streams(process.stdin, process.stdout, process.stderr)
            try:
                result = Exchange(streams, request, limits, attach, end, stop).run()
                if process.wait(timeout=10) < 0 and not result.killed:
                    raise SandboxFault("the sandbox was killed from outside")
                return result
            except subprocess.TimeoutExpired as error:
                raise SandboxFault("the sandbox has returned its files and did not end within 10 s") from error
            finally:
                end()
                process.wait(timeout=10)
                for number in first:
                    # The kernel ends the first process of a namespace after all others.
                    select.select([number], [], [], 10)
                for stream in streams:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def _build_arguments(
        self,
        stack: contextlib.ExitStack,
        read_only: Mapping[str, bytes],
        limits: Limits,
        packages: tuple[str, ...],
        user: int | None,
    ) -> tuple[list[str], list[int]]:
        """Return the arguments of bwrap and the descriptors that they name."""
        work, small = str(limits.work_mib * 2**20), str(limits.tmp_mib * 2**20)
        arguments = [*(ROOT_MODE if user is not None else USER_MODE), *COMMON]
        descriptors: list[int] = []

        def place(content: bytes, path: str) -> None:
            number = _store(stack, content)
            descriptors.append(number)
            arguments.extend(("--perms", "0444", "--file", str(number), path))

        arguments += mount_system(packages)
        for path, size in ((WORKSPACE, work), (SCRATCH, small), ("/dev/shm", small)):
            arguments += ["--perms", "1777" if path != WORKSPACE else "0777", "--size", size, "--tmpfs", path]
        if read_only:
            arguments += ["--perms", "0755", "--tmpfs", INPUT]
            folders = {str(parent) for path in read_only for parent in Path(path).parents} - {"."}
            for folder in sorted(folders):
                arguments += ["--perms", "0755", "--dir", f"{INPUT}/{folder}"]
            for path, content in sorted(read_only.items()):
                place(content, f"{INPUT}/{path}")
            arguments += ["--remount-ro", INPUT]
        place(compile_supervisor(), SUPERVISOR)
        arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
        descriptors.append(_store(stack, build_filter()))
        return [*arguments, "--seccomp", str(descriptors[-1])], descriptors


# A sandbox started by root has no user namespace, because its user 0 would be the user 0 of the host: it could open
# /proc/sys/kernel/core_pattern for writing, and process limits would not hold. The supervisor becomes another user at once.
ROOT_MODE = [
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
    "--cap-add",
    "CAP_SETUID",
    "--cap-add",
    "CAP_SETGID",
    "--cap-add",
    "CAP_SETPCAP",
]
# As process 1, the supervisor has the seccomp filter. bwrap's own process 1 has none, and the command, which has the
# same user here, could write into its memory.
USER_MODE = [
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--disable-userns",
    "--uid",
    "1000",
    "--gid",
    "1000",
    "--cap-drop",
    "ALL",
    "--as-pid-1",
]
COMMON = (
    f"--die-with-parent --new-session --clearenv --hostname sandbox --chdir {WORKSPACE} --proc /proc --dev /dev"
).split()


@functools.cache
def compile_supervisor() -> bytes:
    """Return the supervisor as a compiled file, so that no sandbox has to compile it. The interpreter inside is the same."""
    path = Path(__file__).with_name("supervisor.py")
    code = compile(path.read_bytes(), SUPERVISOR, "exec")
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def mount_system(packages: tuple[str, ...]) -> Iterator[str]:
    """Yield the arguments that show programs, libraries, the interpreter and packages read-only."""
    # bwrap makes missing parents with mode 0700, which the user of the sandbox could not enter.
    yield from ("--perms", "0755", "--dir", "/usr")
    for folder in ("/usr/bin", "/usr/lib", "/usr/lib64"):
        if Path(folder).is_dir():
            yield from ("--ro-bind", folder, folder)
    for name in ("bin", "lib", "lib64"):
        if Path("/", name).exists():
            yield from ("--symlink", f"usr/{name}", f"/{name}")
    # A shared mapping of /dev/zero is memory that no limit of a sandbox counts.
    yield from ("--dev-bind", "/dev/null", "/dev/zero")
    yield from ("--symlink", SCRATCH.strip("/"), "/tmp")
    base, inside = find_interpreter()
    if base != inside:
        yield from ("--ro-bind", base, inside)
    for folder in find_hidden_folders():
        yield from ("--perms", "0755", "--tmpfs", folder, "--remount-ro", folder)
    yield from ("--perms", "0755", "--dir", PACKAGES)
    for source, target in find_package_mounts(packages):
        yield from ("--ro-bind", source, target)
    for name, value in build_environment(None).items():
        yield from ("--setenv", name, value)


def read_first_process(info: int) -> int:
    """Return the process id of the sandbox's first process. bwrap writes its JSON in pieces."""
    text = b""
    while b"}" not in text:
        part = os.read(info, 4096)
        if not part:
            raise SandboxFault("bwrap did not report its process")
        text += part
    return int(json.loads(text)["child-pid"])


def _store(stack: contextlib.ExitStack, content: bytes) -> int:
    """Return a descriptor that bwrap reads `content` from."""
    number = os.memfd_create("input", os.MFD_CLOEXEC)
    stack.callback(os.close, number)
    view = memoryview(content)
    while view:
        view = view[os.write(number, view) :]
    os.lseek(number, 0, os.SEEK_SET)
    return number
