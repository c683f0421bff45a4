"""Reach a network, a server of the host, or the kernel by a socket."""

import functools
import socket

from simulation.replication.sandbox.inside.attempting import attempt, read_target, report


def connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)  # type: ignore[arg-type]
        connection.send(b"from the sandbox")


def open_socket(family: int) -> None:
    socket.socket(family, socket.SOCK_DGRAM if family == 16 else socket.SOCK_STREAM).close()


target = read_target()
stream = socket.SOCK_STREAM
attempt(
    "connect to a server of the host", functools.partial(connect, socket.AF_INET, stream, ("127.0.0.1", target["port"]))
)
attempt(
    "connect to a UNIX socket of the host", functools.partial(connect, socket.AF_UNIX, stream, "\0" + target["socket"])
)
# 192.0.2.0/24 is reserved for documentation: nothing answers there, but a packet would leave the machine.
attempt("send a packet", functools.partial(connect, socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)))
attempt("look up a name", functools.partial(socket.getaddrinfo, "wetbench.example.org", 80))
for name, family in (("AF_NETLINK", 16), ("AF_PACKET", 17), ("AF_VSOCK", 40), ("AF_ALG", 38)):
    attempt(f"open a socket of the family {name}", functools.partial(open_socket, family))
report("end", "")
