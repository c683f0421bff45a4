"""A proxy that forwards a request, waits for the complete response, and then closes the connection without sending it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.services import find_free_port


@dataclass
class CuttingProxy:
    """`left` is the number of responses to POST still to be cut; `lost` has the status lines that no client received."""

    port: int
    n_left: int = 0
    lost_statuses: list[str] = field(default_factory=list)

    @property
    def site(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def run_proxy(port: int) -> Iterator[CuttingProxy]:
    """Run a proxy in front of the port. Its clients send one request per connection, as urllib does."""
    proxy = CuttingProxy(find_free_port())
    with socket.create_server(("127.0.0.1", proxy.port)) as listener:
        threading.Thread(target=_serve, args=(listener, proxy, port), daemon=True).start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, proxy: CuttingProxy, port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, socket.create_connection(("127.0.0.1", port)) as upstream:
            request = _read_request(client)
            upstream.sendall(request)
            response = b"".join(iter(lambda: upstream.recv(1 << 16), b""))
            if proxy.n_left and request.startswith(b"POST"):
                proxy.n_left -= 1
                proxy.lost_statuses.append(response.split(b"\r\n")[0].decode())
            else:
                client.sendall(response)


def _read_request(client: socket.socket) -> bytes:
    """Return head and body; the head gives the length of the body."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(1 << 16)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += client.recv(1 << 16)
    return head + b"\r\n\r\n" + body
