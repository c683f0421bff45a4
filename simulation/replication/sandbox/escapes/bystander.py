"""A process of the host that attempts are aimed at, with everything that they could reach: a server, a socket, a secret, a file."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Bystander(NamedTuple):
    """The target of the attempts. The programs in the sandbox get all these facts, so that no attempt fails for lack of an address."""

    process: subprocess.Popen[str]
    name: str  # part of its command line
    secret: str  # in its environment and its file
    folder: Path
    file: Path
    port: int  # of its server on 127.0.0.1
    socket: str  # name of its abstract UNIX socket

    def count_contacts(self) -> int:
        """Return how many connections and signals have reached the process. Raises OSError if it has ended."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("count\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextlib.contextmanager
def run_bystander(parent: Path | None = None) -> Iterator[Bystander]:
    """Run a bystander with a folder below `parent`, by default the system's folder of temporary files."""
    name, secret = f"bystander-{secrets.token_hex(8)}", secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="bystander-", dir=parent) as folder:
        os.chmod(folder, 0o777)  # it must be protected by being invisible, not by its mode
        file = Path(folder, "secret.txt")
        file.write_text(secret)
        file.chmod(0o666)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, name],
            env={"BYSTANDER_SECRET": secret},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin and process.stdout
        try:
            ports = json.loads(process.stdout.readline())
            yield Bystander(process, name, secret, Path(folder), file, ports["port"], ports["socket"])
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def serve(name: str) -> None:
    """Accept connections and signals; answer each line on standard input with how many there were."""
    contacts = 0

    def count_signal(number: int, frame: object) -> None:
        nonlocal contacts
        contacts += 1

    signal.signal(signal.SIGUSR1, count_signal)
    server = socket.create_server(("127.0.0.1", 0))
    local = socket.socket(socket.AF_UNIX)
    local.bind("\0" + name)
    local.listen()
    print(json.dumps({"port": server.getsockname()[1], "socket": name}), flush=True)
    while True:
        ready = select.select([server, local, sys.stdin], [], [])[0]
        for listener in (server, local):
            if listener in ready:
                listener.accept()[0].close()
                contacts += 1
        if sys.stdin in ready:
            if not sys.stdin.readline():
                return
            print(contacts, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
