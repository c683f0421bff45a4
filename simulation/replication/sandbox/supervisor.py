"""The first program in a sandbox: unpacks the inputs, runs the command, ends every process, and returns the files.

It runs as `python3 -I -S supervisor.py UID` inside the sandbox and imports only modules that load quickly, so neither tarfile
nor subprocess. Frames come in on standard input and go out on standard output; `frames.py`
describes them. UID is the user that the supervisor becomes before it reads anything, or "-" if it is that user already.

Nothing that this program sends is trusted: the command in the sandbox has the same user.
"""

import _ctypes  # without ctypes around it: 0.3 ms instead of 3 ms
import os
import resource
import select
import signal
import stat
import sys
import time

WORKSPACE, INPUT, RESULT_NUMBER = "/workspace", "/input", 3
PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24  # linux/prctl.h
CAPABILITY_HEADER = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)  # version 3, this process (linux/capability.h)
MAX_FILES, MAX_FILE_BYTES, MAX_TREE_BYTES, MAX_DEPTH, MAX_LEFT_OUT = 400, 2**20, 16 * 2**20, 12, 50


def read_exactly(length: int) -> bytes:
    """Return `length` bytes of standard input. Ends the program if the host closed it, because then the host process has ended."""
    parts = []
    while length:
        part = os.read(0, min(length, 2**20))
        if not part:
            os._exit(3)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def read_frame() -> tuple[bytes, bytes, bytes]:
    head = read_exactly(9)
    name = read_exactly(int.from_bytes(head[1:5], "big"))
    return head[:1], name, read_exactly(int.from_bytes(head[5:9], "big"))


def send_frame(kind: bytes, name: bytes = b"", data: bytes = b"") -> None:
    frame = kind + len(name).to_bytes(4, "big") + len(data).to_bytes(4, "big") + name + data
    while frame:
        frame = frame[os.write(1, frame) :]


def write_file(folder: str, name: bytes, data: bytes) -> None:
    path = os.path.join(os.fsencode(folder), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as target:
        target.write(data)


def read_request() -> tuple[dict[str, float], list[bytes], dict[bytes, bytes], bool]:
    """Read frames until G (go), write the files, and return the limits, the command and the environment."""
    limits: dict[str, float] = {}
    command: list[bytes] = []
    environment: dict[bytes, bytes] = {}
    with_result = False
    while True:
        kind, name, data = read_frame()
        if kind == b"G":
            return limits, command, environment, with_result
        if kind == b"F":
            write_file(WORKSPACE, name, data)
        elif kind == b"I":
            write_file(INPUT, name, data)
        elif kind == b"L":
            limits[name.decode()] = float(data)
        elif kind == b"A":
            command.append(data)
        elif kind == b"V":
            environment[name] = data
        elif kind == b"D":
            with_result = True


def start_command(
    limits: dict[str, float],
    command: list[bytes],
    environment: dict[bytes, bytes],
    output: int,
    result: int | None,
) -> None:
    """In the child: set the limits and replace this program. `result` is a descriptor or None."""
    try:
        os.nice(10)  # so that the web server on the same machine stays responsive
        os.setsid()
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if result is not None:
            os.dup2(result, RESULT_NUMBER)
            environment[b"RESULT_FD"] = str(RESULT_NUMBER).encode()
        os.closerange(RESULT_NUMBER + (result is not None), 256)
        for kind, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, limits["address"]),
            (resource.RLIMIT_NOFILE, limits["files"]),
            (resource.RLIMIT_FSIZE, limits["file"]),
            (resource.RLIMIT_CPU, 2 * limits["seconds"] + 1),
            # Set inside, the limit counts the processes of this sandbox; set outside, those of all sandboxes of a user.
            (resource.RLIMIT_NPROC, limits["processes"]),
        ):
            resource.setrlimit(kind, (int(value), int(value)))
        os.chdir(WORKSPACE)
        os.execvpe(command[0], command, environment)
    except BaseException as error:
        os.write(2, f"cannot run {command[:1]}: {error}\n".encode(errors="replace"))
    os._exit(127)


def reap() -> dict[int, int]:
    """Collect ended children; return the wait status of each."""
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended
            ended[pid] = status
    except ChildProcessError:
        return ended


def end_all_processes() -> None:
    """Kill every other process of the sandbox, including daemons with their own session."""
    try:
        while True:
            os.kill(-1, signal.SIGKILL)
            reap()
            time.sleep(0.0005)
    except ProcessLookupError:
        reap()


def follow_command(child: int, seconds: float, pipes: dict[int, bytes]) -> int | None:
    """Forward output until the child ends or `seconds` have passed. Return its wait status, or None if it was stopped."""
    deadline = time.monotonic() + seconds
    poller = select.poll()
    poller.register(os.pidfd_open(child), select.POLLIN)
    for number in pipes:
        poller.register(number, select.POLLIN)
    open_pipes = dict(pipes)

    def forward(number: int) -> None:
        data = os.read(number, 65536)
        if data:
            send_frame(open_pipes[number], b"", data)
        else:
            poller.unregister(number)
            del open_pipes[number]

    status = None
    while status is None and time.monotonic() < deadline:
        for number, _ in poller.poll(min(100, max(1, 1000 * (deadline - time.monotonic())))):
            if number in open_pipes:
                forward(number)
        status = reap().get(child)  # also orphans, if this program is process 1
    end_all_processes()
    while open_pipes:  # all writers are dead: read what is left, up to the end
        for number, _ in poller.poll(1000):
            if number in open_pipes:
                forward(number)
    return status


class Collector:
    """Sends the regular files below /workspace, and the name of each entry that is not returned, with the reason."""

    def __init__(self) -> None:
        self.files = self.size = self.left_out = 0

    def leave_out(self, name: bytes, reason: str) -> None:
        self.left_out += 1
        if self.left_out <= MAX_LEFT_OUT:
            send_frame(b"N", name[:800], reason.encode())

    def send_folder(self, folder: bytes, prefix: bytes, depth: int) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.leave_out(prefix, f"the folder cannot be read: {error.strerror}")
            return
        for entry in entries:
            name = prefix + entry.name
            if entry.name == b"__pycache__":
                continue
            if entry.name.startswith(b"."):
                self.leave_out(name, "hidden files are not kept")
            elif entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    self.send_folder(entry.path, name + b"/", depth + 1)
                else:
                    self.leave_out(name, f"more than {MAX_DEPTH} levels")
            elif entry.is_file(follow_symlinks=False):
                self.send_file(entry.path, name)
            else:
                self.leave_out(name, "only regular files are kept")

    def send_file(self, path: bytes, name: bytes) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            self.leave_out(name, f"it cannot be read: {error.strerror}")
            return
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                self.leave_out(name, "only regular files are kept")
            elif state.st_size > MAX_FILE_BYTES:
                self.leave_out(name, "larger than 1 MiB")
            elif self.files >= MAX_FILES or self.size + state.st_size > MAX_TREE_BYTES:
                self.leave_out(name, f"more than {MAX_FILES} files or 16 MiB in all")
            else:
                data = b""
                while len(data) < state.st_size:
                    part = os.read(descriptor, state.st_size - len(data))
                    if not part:
                        break
                    data += part
                self.files += 1
                self.size += len(data)
                send_frame(b"F", name, data)
        finally:
            os.close(descriptor)


def call_library(name: str, *arguments: int | bytes) -> int:
    """Call a function of the C library that Python does not offer; return its result."""
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None: what this program has loaded already
    result: int = _ctypes.call_function(_ctypes.dlsym(library, name), arguments)
    return result


def give_up_privileges(user: int | None) -> None:
    """Become `user` without any capability, and close this program's memory to the command, which has the same user."""
    if user is not None:
        number = 0
        while call_library("prctl", PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
            number += 1  # up to the last capability of this kernel
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if call_library("capset", CAPABILITY_HEADER, bytes(24)) or call_library("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0):
        sys.exit("capset or prctl failed")


def main() -> None:
    os.closerange(3, 256)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open("/proc/self/oom_score_adj", "w") as target:
        target.write("1000")  # if the machine runs out of memory, sandboxes end first
    give_up_privileges(None if sys.argv[1] == "-" else int(sys.argv[1]))
    os.umask(0o022)
    send_frame(b"R")
    limits, command, environment, with_result = read_request()
    output, output_end = os.pipe()
    pipes = {output: b"O"}
    result_end = None
    if with_result:
        result, result_end = os.pipe()
        pipes[result] = b"D"
    send_frame(b"B")
    child = os.fork()
    if not child:
        start_command(limits, command, environment, output_end, result_end)
    os.close(output_end)
    if result_end is not None:
        os.close(result_end)
    status = follow_command(child, limits["seconds"], pipes)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    exit_status = "stopped" if status is None else str(os.waitstatus_to_exitcode(status))
    cpu = usage.ru_utime + usage.ru_stime
    send_frame(b"X", b"", f"{exit_status} {cpu:.3f} {usage.ru_maxrss // 1024}".encode())
    Collector().send_folder(os.fsencode(WORKSPACE), b"", 1)
    send_frame(b"E")


if __name__ == "__main__":
    main()
