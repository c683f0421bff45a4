"""Ways to send a reply: at once, or with a fault of the connection."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tests.support.model_server.messages import Reply, format_head

if TYPE_CHECKING:
    from tests.support.model_server.rules import Rule

_FOREVER_SECONDS = 24 * 3600.0  # seconds; longer than any timeout of a client


class ClientConnection(NamedTuple):
    """A connection with a client."""

    reader: asyncio.StreamReader
    outgoing: asyncio.StreamWriter

    async def wait_for_disconnect(self, seconds: float) -> bool:
        """Wait for this time, or until the client disconnects. Return whether it disconnected."""
        ends = time.monotonic() + seconds
        # Checked repeatedly, because reading would take bytes of the client's next request.
        while not (is_gone := self._is_gone()) and (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.02))
        return is_gone

    def _is_gone(self) -> bool:
        return self.reader.at_eof() or self.reader.exception() is not None

    async def send_bytes(self, data: bytes) -> bool:
        """Send the data and return whether the client is still connected."""
        try:
            self.outgoing.write(data)
            await self.outgoing.drain()
        # The client may have given up, which is what most faults test.
        except ConnectionError:
            return False
        return not self.reader.at_eof()

    async def send_slowly(self, data: bytes, seconds: float) -> bool:
        """Send one byte at a time, `seconds` apart. Return whether the client stayed connected."""
        for at in range(len(data)):
            if not await self.send_bytes(data[at : at + 1]) or await self.wait_for_disconnect(seconds):
                return False
        return True

    def reset_connection(self) -> None:
        """End the connection with a TCP reset."""
        raw = self.outgoing.get_extra_info("socket")
        # With a linger time of zero, the kernel sends a reset instead of an orderly close.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.outgoing.transport.abort()


async def send_reply(link: ClientConnection, reply: Reply, rule: "Rule | None" = None) -> bool:
    """Send the complete reply at once. Like every delivery, return whether the client got the complete reply."""
    return await link.send_bytes(format_head(reply) + reply.body)


async def _send_reset(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    """Send a TCP reset instead of the reply; with variant "half", after about half of the reply."""
    if rule.variant == "half":
        # The client has begun to read the reply when the reset arrives.
        await link.send_bytes((format_head(reply) + reply.body)[: len(reply.body) // 2])
    link.reset_connection()
    return False


async def _close_early(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    """Close the connection instead of replying."""
    return False


async def _send_body_slowly(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    return await link.send_bytes(format_head(reply)) and await link.send_slowly(reply.body, rule.seconds or 0.5)


async def _send_head_slowly(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    return await link.send_slowly(format_head(reply), rule.seconds or 0.5) and await link.send_bytes(reply.body)


async def _hang_forever(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    await link.wait_for_disconnect(_FOREVER_SECONDS)
    return False


async def _send_late(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    return not await link.wait_for_disconnect(rule.seconds or 1.0) and await send_reply(link, reply)


async def _send_half_body(link: ClientConnection, reply: Reply, rule: "Rule") -> bool:
    """Send only half of the bytes that Content-Length states, so that the connection is closed too early."""
    await link.send_bytes(format_head(reply) + reply.body[: len(reply.body) // 2])
    return False


DELIVERIES: Mapping[str, Callable[[ClientConnection, Reply, "Rule"], Awaitable[bool]]] = {
    "reset": _send_reset,
    "close": _close_early,
    "drip": _send_body_slowly,
    "slow_headers": _send_head_slowly,
    "hang": _hang_forever,
    "late": _send_late,
    "cut_body": _send_half_body,
}
