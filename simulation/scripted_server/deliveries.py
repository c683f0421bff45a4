"""Ways to send a reply: at once, or with a fault of the connection."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from simulation.scripted_server.messages import Reply, head

if TYPE_CHECKING:
    from simulation.scripted_server.rules import Rule

_FOR_EVER = 24 * 3600.0  # seconds; longer than any timeout of a client


class Link(NamedTuple):
    """A connection with a client."""

    reader: asyncio.StreamReader
    outgoing: asyncio.StreamWriter

    async def gone_within(self, seconds: float) -> bool:
        """Wait this long, or until the client disconnects; return whether it did."""
        try:
            async with asyncio.timeout(seconds):
                return not await self.reader.read(
                    # One byte is read and dropped: only the end of the stream is of interest.
                    1
                )  # a client that keeps writing is still connected; the data is ignored
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    async def write(self, data: bytes) -> bool:
        """Send the data and return whether the client is still connected."""
        try:
            self.outgoing.write(data)
            await self.outgoing.drain()
        # The client may have given up, which is what most faults test.
        except ConnectionError:
            return False
        return not self.reader.at_eof()

    async def trickle(self, data: bytes, seconds: float) -> bool:
        """Send one byte after the other, `seconds` apart."""
        for at in range(len(data)):
            if not await self.write(data[at : at + 1]) or await self.gone_within(seconds):
                return False
        return True

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        raw = self.outgoing.get_extra_info("socket")
        # With a linger time of zero, the kernel sends a reset instead of an orderly close.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.outgoing.transport.abort()


async def plain(link: Link, reply: Reply, rule: "Rule | None" = None) -> bool:
    """Send the complete reply at once. All deliveries return whether the client got the complete reply."""
    return await link.write(head(reply) + reply.body)


async def _reset(link: Link, reply: Reply, rule: "Rule") -> bool:
    """Send a TCP reset instead of a reply; variant "half" after half of it."""
    if rule.variant == "half":
        # At least the head is sent, so that the client has begun to read.
        await link.write((head(reply) + reply.body)[: len(reply.body) // 2])
    link.reset()
    return False


async def _close(link: Link, reply: Reply, rule: "Rule") -> bool:
    """Close the connection instead of replying."""
    return False


async def _drip(link: Link, reply: Reply, rule: "Rule") -> bool:
    return await link.write(head(reply)) and await link.trickle(reply.body, rule.seconds or 0.5)


async def _slow_headers(link: Link, reply: Reply, rule: "Rule") -> bool:
    return await link.trickle(head(reply), rule.seconds or 0.5) and await link.write(reply.body)


async def _hang(link: Link, reply: Reply, rule: "Rule") -> bool:
    await link.gone_within(_FOR_EVER)
    return False


async def _late(link: Link, reply: Reply, rule: "Rule") -> bool:
    return not await link.gone_within(rule.seconds or 1.0) and await plain(link, reply)


async def _cut_body(link: Link, reply: Reply, rule: "Rule") -> bool:
    """Send half of the promised Content-Length, then close."""
    await link.write(head(reply) + reply.body[: len(reply.body) // 2])
    return False


DELIVERIES: Mapping[str, Callable[[Link, Reply, "Rule"], Awaitable[bool]]] = {
    "reset": _reset,
    "close": _close,
    "drip": _drip,
    "slow_headers": _slow_headers,
    "hang": _hang,
    "late": _late,
    "cut_body": _cut_body,
}
