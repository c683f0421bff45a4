"""A proxy before a site that takes a request through, waits for the whole answer, and then hangs up without a word."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.services import free_port


@dataclass
class Cut:
    """`left`: how many answers to a POST are still to be cut. `lost`: the status lines nobody got to see."""

    port: int
    left: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def site(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def before(port: int) -> Iterator[Cut]:
    """Its clients send one request a connection, as urllib does."""
    cut = Cut(free_port())
    with socket.create_server(("127.0.0.1", cut.port)) as door:
        threading.Thread(target=_serve, args=(door, cut, port), daemon=True).start()
        yield cut
        door.shutdown(socket.SHUT_RDWR)


def _serve(door: socket.socket, cut: Cut, port: int) -> None:
    while True:
        try:
            client, _ = door.accept()
        except OSError:
            return
        with client, socket.create_connection(("127.0.0.1", port)) as site:
            request = _request(client)
            site.sendall(request)
            answer = b"".join(iter(lambda: site.recv(1 << 16), b""))
            if cut.left and request.startswith(b"POST"):
                cut.left -= 1
                cut.lost.append(answer.split(b"\r\n")[0].decode())
            else:
                client.sendall(answer)


def _request(client: socket.socket) -> bytes:
    """Head and body, the body as long as the head says."""
    whole = b""
    while b"\r\n\r\n" not in whole:
        whole += client.recv(1 << 16)
    head, _, body = whole.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += client.recv(1 << 16)
    return head + b"\r\n\r\n" + body
