"""A gunicorn worker that gives a request to a thread only when the whole request has arrived.

gunicorn's gthread worker reads headers and bodies in the threads of its pool, writes responses there, and waits in its main
thread for clients to close. Eight clients that send one byte every few seconds occupy all threads, and one client that
never closes its connection stops the process for two seconds. Here the main thread, which never waits for a single client,
does all of this for all clients at once, with a time limit for each step. Threads only run the application.

A body of more than 64 KiB is not received before the application asks for it. The first call of the application gets an
`ExpectedBody`; the first read from it ends that call (`BodyRequested`), the body is received into a temporary file, and the
application is called again with the whole body. If the application answers without reading, the body is never received.
`wetbench_site.middleware.body_first` makes sure that this happens before a view has changed anything.
"""

import errno
import io
import re
import selectors
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from tempfile import SpooledTemporaryFile, TemporaryFile
from typing import IO, Any

from gunicorn.http import RequestParser
from gunicorn.http.errors import LimitRequestHeaders
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from wetbench_site.headers import HEADERS
from wetbench_site.middleware.body_first import BodyRequested, ExpectedBody

MIN_BYTES_PER_SECOND = 10_000  # a client that is slower on average is disconnected
MAX_HEAD_BYTES = MAX_UNREQUESTED_BODY_BYTES = 1 << 16
MAX_DISCARDED_BYTES = 1 << 22  # from a client that continues to send after the response
LINGER_SECONDS = 2.0  # for a client to receive the response and close the connection
CHECK_SECONDS = 0.25  # between two searches for connections whose time is over
PIECE = 1 << 18  # bytes of one read or write: each client gets its turn

_TIMEOUT_TEXT = "The request did not arrive in time. Nothing was saved.\n"
_TIMEOUT_HEADERS = (
    ("Connection", "close"),
    ("Content-Type", "text/plain; charset=utf-8"),
    ("Content-Length", str(len(_TIMEOUT_TEXT))),
    *HEADERS,
)
TIMEOUT_RESPONSE = (
    "HTTP/1.1 408 Request Timeout\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in _TIMEOUT_HEADERS)
    + f"\r\n{_TIMEOUT_TEXT}"
).encode()
# Headers that decide how much of a request the server waits for. gunicorn parses and checks them later, in a thread.
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_TRANSFER_ENCODING = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_EXPECTS_CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)


class ReceivedRequest(RequestParser):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's parser for one request, which reads only what was received."""

    def __init__(self, conn: "Connection", data: bytes | bytearray, body: Any) -> None:
        super().__init__(conn.cfg, [], conn.client)
        self.unreader.unread(data)
        # A body that is not in the data: a file, or None if it is.
        self.body, self.body_bytes, self.is_too_long = body, conn.body_bytes, conn.head_end < 0

    def __next__(self) -> Any:
        if self.is_too_long:
            raise LimitRequestHeaders("the headers are too long")
        request = super().__next__()
        request._expected_100_continue = False  # that response was sent when the body was wanted
        # Where the next request begins is known only if gunicorn agrees about the length of the body.
        if isinstance(self.body, ExpectedBody) or getattr(request.body.reader, "length", None) != self.body_bytes:
            request.must_close = True
        if self.body is not None:
            request.body = self.body
        return request


class BufferedSocket(socket.socket):
    """A connection to which writing never waits: what the client does not take is kept in a temporary file."""

    folder: str | None
    _unsent: SpooledTemporaryFile[bytes] | None = None
    _begin = _end = 0  # of what was not sent yet, in the file

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send what the client takes now, and keep the rest."""
        if self.has_unsent():
            self.send_unsent()
        sent = 0 if self.has_unsent() else self._send_now(data)
        if sent < len(data):
            self._unsent = self._unsent or SpooledTemporaryFile(PIECE, dir=self.folder)  # noqa: SIM115
            self._unsent.seek(self._end)
            self._end += self._unsent.write(memoryview(data)[sent:])

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send the file as `sendall` does: the system's own call would wait for the client."""
        file.seek(offset)
        sent, size = 0, sys.maxsize if count is None else count
        while piece := file.read(min(PIECE, size - sent)):
            self.sendall(piece)
            sent += len(piece)
        return sent

    def has_unsent(self) -> bool:
        return self._begin < self._end

    def send_unsent(self) -> int:
        """Send as much of what was kept as the client takes now. Return the number of bytes."""
        assert self._unsent
        before = self._begin
        while self.has_unsent():
            self._unsent.seek(self._begin)
            piece = self._unsent.read(min(PIECE, self._end - self._begin))
            sent = self._send_now(piece)
            self._begin += sent
            if sent < len(piece):
                return self._begin - before
        sent_bytes, self._begin, self._end = self._begin - before, 0, 0
        self._unsent.truncate(0)
        return sent_bytes

    def _send_now(self, data: bytes) -> int:
        try:
            return self.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0


class Connection(TConn):  # type: ignore[misc]
    """A client, and what has arrived of its current request."""

    sock: BufferedSocket
    parser: ReceivedRequest | None = None
    file: IO[bytes] | None  # the body, if the application had to ask for it
    # Where the headers end in `received`, and the declared length of the body. `missing_bytes` counts for `file` only.
    head_end: int
    body_bytes: int
    missing_bytes: int

    def __init__(self, cfg: Any, sock: BufferedSocket, client: Any, server: Any) -> None:
        super().__init__(cfg, sock, client, server)
        self.initialized = self.data_ready = True  # gunicorn would read from the socket before the first request
        self.begin_request()

    def begin_step(self) -> None:
        """Start the time limit of the next step: receiving headers or a body, sending, or closing."""
        self.started, self.moved_bytes = time.monotonic(), 0

    def begin_request(self) -> None:
        """Forget the previous request, except for what the client has already sent of this one."""
        self.pipelined = self.parser.unreader.take_buffered() if self.parser else b""
        self.parser, self.received, self.file = None, bytearray(), None
        self.head_end = self.body_bytes = self.missing_bytes = 0
        self.begin_step()

    def receive(self) -> bool:
        """Take what has arrived. Return whether a thread can handle the request now.

        Raises EOFError if the client has closed the connection, BlockingIOError if nothing has arrived.
        """
        data, self.pipelined = self.pipelined, b""
        if not data:
            data = self.sock.recv(min(PIECE, self.missing_bytes) or MAX_HEAD_BYTES, socket.MSG_DONTWAIT)
        if not data:
            raise EOFError
        self.moved_bytes += len(data)
        if self.file:
            return self._add_to_file(data)
        self.received += data
        return bool(self.head_end or self._find_head_end(len(data))) and self._has_arrived()

    def _find_head_end(self, new_bytes: int) -> int:
        """Set and return the end of the headers: 0 if it has not arrived, negative if they are too long."""
        # The last three bytes before the new ones may belong to the end. A request may begin with an empty line.
        searched = max(0, len(self.received) - new_bytes - 3, 2 if self.received.startswith(b"\r\n") else 0)
        self.head_end = self.received.find(b"\r\n\r\n", searched) + 4
        if self.head_end > 3:
            self._find_body_length()
        else:
            self.head_end = -1 if len(self.received) > MAX_HEAD_BYTES else 0
        return self.head_end

    def _find_body_length(self) -> None:
        length = _CONTENT_LENGTH.search(self.received, 0, self.head_end)
        self.body_bytes = int(length[1]) if length else 0
        if 0 < self.body_bytes <= MAX_UNREQUESTED_BODY_BYTES:
            self._begin_body()

    def _begin_body(self) -> None:
        if _EXPECTS_CONTINUE.search(self.received, 0, self.head_end):
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.begin_step()

    def _has_arrived(self) -> bool:
        if self.body_bytes > MAX_UNREQUESTED_BODY_BYTES:
            self.parser = ReceivedRequest(self, self.received, ExpectedBody())
        elif len(self.received) < self.head_end + self.body_bytes:
            return False
        else:
            # Django ignores a body without a declared length, so it is not received either.
            is_chunked = _TRANSFER_ENCODING.search(self.received, 0, self.head_end)
            self.parser = ReceivedRequest(self, self.received, io.BytesIO() if is_chunked else None)
        return True

    def begin_requested_body(self, folder: str | None) -> bool:
        """Begin to receive the body that the application has asked for. Return whether it has arrived already."""
        self.file = TemporaryFile(dir=folder)  # noqa: SIM115  # `end_request` closes it
        self.missing_bytes = self.body_bytes
        self._begin_body()
        body_end = self.head_end + self.body_bytes
        arrived = self.received[self.head_end : body_end]
        del self.received[self.head_end : body_end]
        return self._add_to_file(arrived)

    def _add_to_file(self, data: bytes | bytearray) -> bool:
        assert self.file
        self.file.write(data)
        self.missing_bytes -= len(data)
        if self.missing_bytes:
            return False
        self.file.seek(0)
        self.parser = ReceivedRequest(self, self.received, self.file)
        return True

    def end_request(self) -> None:
        if self.file:
            self.file.close()


class BufferingWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker with threads, in which no thread waits for a client. The module explains how."""

    request_seconds = 20.0
    folder: str | None = None  # of temporary files

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Connections that wait for their client, each with what to do when the client has sent or taken something.
        self.waiting: dict[Connection, Callable[[Connection], None]] = {}
        self.next_check = self.stopped_at = 0.0

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Exit if gunicorn is configured to terminate TLS, whose handshake would occupy a thread."""
        super().check_config(cfg, log)
        if cfg.is_ssl:
            sys.exit("TLS is terminated by a proxy: docs/operations.md. Remove --certfile and --keyfile.")

    def accept(self, listener: socket.socket) -> None:
        """Accept a client and receive its first request."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._close_slowest()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return
        sock = BufferedSocket(fileno=accepted.detach())
        sock.folder = self.folder
        self.nr_conns += 1
        self.enqueue_req(Connection(self.cfg, sock, address, listener.getsockname()))

    def enqueue_req(self, conn: Connection) -> None:
        """Receive a request. gunicorn calls this when a client has connected, or has sent something."""
        conn.begin_request()
        self._receive(conn)

    def handle(self, conn: Connection) -> Any:
        """Run the application in a thread. Return whether the connection stays open, or BodyRequested."""
        try:
            return super().handle(conn)
        except BodyRequested:
            return BodyRequested

    def finish_request(self, conn: Connection, fs: "Future[Any]") -> None:
        """Do what follows a call of the application: receive the body, send the rest of the response, or finish."""
        result = False if fs.cancelled() or fs.exception() else fs.result()
        if result is BodyRequested:
            self._receive_requested_body(conn)
            return
        conn.end_request()
        if conn.sock.has_unsent():
            conn.begin_step()
            self._wait(conn, selectors.EVENT_WRITE, partial(self._send, future=fs))
        elif result:
            super().finish_request(conn, fs)
        else:
            self._begin_closing(conn)

    def murder_pending(self) -> None:
        """Close connections whose time is over. gunicorn calls this at least once a second."""
        now = time.monotonic()
        if not self.alive:
            self.stopped_at = self.stopped_at or now
        if self.nr_conns >= self.worker_connections:
            self._close_slowest()
        if now < self.next_check:
            return
        self.next_check = now + CHECK_SECONDS
        for conn in [conn for conn in self.waiting if self._get_deadline(conn) <= now]:
            self._give_up(conn)

    def _get_deadline(self, conn: Connection) -> float:
        if self.waiting[conn] == self._discard:
            return conn.started + LINGER_SECONDS
        deadline = conn.started + self.request_seconds + conn.moved_bytes / MIN_BYTES_PER_SECOND
        if self.stopped_at and not conn.head_end:
            deadline = min(deadline, max(conn.started, self.stopped_at) + STOP_KEEPALIVE_LINGER)
        return deadline

    def _give_up(self, conn: Connection) -> None:
        """Close a connection. If the client has sent a part of a request, send status 408 first."""
        if self.waiting[conn] != self._receive or not conn.received:
            self._close(conn)
            return
        self._stop_waiting(conn)
        try:
            conn.sock.sendall(TIMEOUT_RESPONSE)
        except OSError:
            self._close(conn)
        else:
            self._begin_closing(conn)

    def _close_slowest(self) -> None:
        """Make room for another client: close the connection that has progressed least for the time it had."""
        if self.waiting:
            self._close(min(self.waiting, key=self._get_deadline))

    def _receive(self, conn: Connection) -> None:
        """Receive more of a request. Give it to a thread if that was all."""
        try:
            is_complete = conn.receive()
        except BlockingIOError:
            is_complete = False
        except (EOFError, OSError):
            self._close(conn)
            return
        self._continue(conn, is_complete)

    def _receive_requested_body(self, conn: Connection) -> None:
        try:
            is_complete = conn.begin_requested_body(self.folder)
        except OSError as error:
            self.log.error("A request body cannot be received: %s", error.strerror)
            self._close(conn)
            return
        self._continue(conn, is_complete)

    def _continue(self, conn: Connection, is_complete: bool) -> None:
        if is_complete:
            self._stop_waiting(conn)
            super().enqueue_req(conn)
        else:
            self._wait(conn, selectors.EVENT_READ, self._receive)

    def _send(self, conn: Connection, future: "Future[Any]") -> None:
        """Send more of a response. Continue with the next request if that was all."""
        try:
            conn.moved_bytes += conn.sock.send_unsent()
        except OSError:
            self._close(conn)
            return
        if not conn.sock.has_unsent():
            self._stop_waiting(conn)
            self.finish_request(conn, future)

    def _begin_closing(self, conn: Connection) -> None:
        """End the response, and let the client close the connection.

        If the server closed it while the client still sends, the client could lose the response.
        """
        conn.begin_step()
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
        else:
            self._wait(conn, selectors.EVENT_READ, self._discard)

    def _discard(self, conn: Connection) -> None:
        try:
            data = conn.sock.recv(PIECE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        conn.moved_bytes += len(data)
        if not data or conn.moved_bytes > MAX_DISCARDED_BYTES:
            self._close(conn)

    def _wait(self, conn: Connection, event: int, step: Callable[[Connection], None]) -> None:
        """Call the step whenever the client has sent, or can take, something."""
        if conn not in self.waiting:
            self.poller.register(conn.sock, event, partial(self._run_step, conn))
        self.waiting[conn] = step

    def _run_step(self, conn: Connection, _socket: Any) -> None:
        # Another event of the same turn may have closed the connection.
        if conn in self.waiting:
            self.waiting[conn](conn)

    def _stop_waiting(self, conn: Connection) -> None:
        if self.waiting.pop(conn, None):
            self.poller.unregister(conn.sock)

    def _close(self, conn: Connection) -> None:
        self._stop_waiting(conn)
        self.nr_conns -= 1
        conn.end_request()
        conn.close()
