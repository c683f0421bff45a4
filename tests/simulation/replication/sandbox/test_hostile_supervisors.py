"""What comes back from a sandbox is hostile: frames of every wrong form, as a supervisor that an agent took over would send."""

import subprocess
import sys

import pytest

from simulation.replication.sandbox import exchange
from simulation.replication.sandbox.base import Limits, SandboxFault
from simulation.replication.sandbox.exchange import Exchange, Output, Streams
from simulation.replication.sandbox.frames import format_frame

READY, BEGUN, END = format_frame(b"R"), format_frame(b"B"), format_frame(b"E")
EXITED = format_frame(b"X", b"", b"0 0.010 12")
FILE = format_frame(b"F", b"a.txt", b"new")


def exchange_with(frames, *, limits=Limits(seconds=5), then=""):  # noqa: B008  # immutable
    """Return the result of a supervisor that sends these bytes, whatever it is sent."""
    code = f"import sys, time; out = sys.stdout.buffer; out.write({READY!r}); out.flush(); sys.stdin.buffer.read(9)\n"
    code += f"out.write(eval(sys.argv[1])); out.flush(); {then}"
    with subprocess.Popen(
        [sys.executable, "-c", code, frames if isinstance(frames, str) else repr(frames)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        streams = Streams(process.stdin, process.stdout, process.stderr)
        try:
            return Exchange(streams, format_frame(b"G"), limits, lambda: None, process.kill).run()
        finally:
            process.kill()


def test_supervisor_that_keeps_to_the_form_is_read():
    result = exchange_with(BEGUN + format_frame(b"O", b"", b"out\xff") + FILE + EXITED + END)
    assert (result.exit, result.killed, result.files) == (0, "", {"a.txt": b"new"})
    assert (result.output, result.output_bytes, result.cpu, result.resident_mib) == ("out\ufffd", 4, 0.01, 12)


@pytest.mark.parametrize(
    "frames",
    [
        BEGUN + FILE + EXITED,  # no end
        BEGUN + FILE + END,  # no exit status
        BEGUN + FILE + EXITED + END + FILE,  # more after the end
        BEGUN + FILE + EXITED + END + b"F",
        BEGUN + BEGUN + EXITED + END,
        BEGUN + READY + EXITED + END,
        BEGUN + b"F\x00\x00\x00\x05\x7f\xff\xff\xff" + b"a.txt",  # a file of 2 GiB
        BEGUN + b"F\xff\xff\xff\xff\x00\x00\x00\x00",  # a name of 4 GiB
        BEGUN + b"Q" + bytes(8),  # no such kind
        BEGUN + format_frame(b"X", b"", b"0 nan 12") + END,
        BEGUN + format_frame(b"X", b"", b"0" * 4000) + END,
        BEGUN + FILE + EXITED + END[:4],
        f"{BEGUN!r} + {format_frame(b'F', b'a', b'')!r} * 100_000 + {EXITED + END!r}",
        f"{BEGUN!r} + (b'F' + (1).to_bytes(4, 'big') + (2**20).to_bytes(4, 'big') + b'a' + bytes(2**20)) * 20 + {EXITED + END!r}",
        f"{BEGUN!r} + {format_frame(b'N', b'a', b'')!r} * 100_000 + {EXITED + END!r}",
    ],
)
def test_supervisor_that_breaks_the_form_returns_no_files(frames):
    result = exchange_with(frames)
    assert (result.exit, result.killed, result.files) == (None, "supervisor", None)


def test_supervisor_cannot_return_names_that_a_workspace_may_not_have():
    names = [
        b"../x",
        b"/etc/passwd",
        b"a/../../x",
        b"a//b",
        b"",
        b".",
        b"x\x00y",
        b"\xff",
        b"x\x1b[2J",
        b"e\xcc\x81",
        b"a" * 201,
    ]
    frames = b"".join(format_frame(b"F", name, b"x") for name in names)
    result = exchange_with(BEGUN + frames + FILE + EXITED + END)
    assert result.files == {"a.txt": b"new"} and len(result.left_out) == len(names)
    assert all(text.isprintable() for text in result.left_out)


def test_supervisor_cannot_return_a_file_as_a_folder_as_well_or_a_name_twice():
    frames = b"".join(format_frame(b"F", name, b"x") for name in (b"a", b"a/b", b"a-c", b"d", b"d"))
    result = exchange_with(BEGUN + frames + EXITED + END)
    assert sorted(result.files) == ["a", "a-c", "d"]
    reason = "one of its folders is a file, or the path occurs twice"
    assert result.left_out == (f"'a/b': {reason}", f"'d': {reason}")


def test_supervisor_that_never_ends_is_stopped_by_the_host(monkeypatch):
    monkeypatch.setattr(exchange, "GRACE_SECONDS", 0.1)
    result = exchange_with(BEGUN, limits=Limits(seconds=0.2), then="time.sleep(20)")
    assert (result.killed, result.files) == ("wall", None) and result.seconds < 2


def test_supervisor_that_floods_the_output_is_stopped():
    frames = f"{BEGUN!r} + (b'O' + bytes(4) + (65536).to_bytes(4, 'big') + bytes(65536)) * 1100"
    result = exchange_with(frames, then="time.sleep(20)")
    assert (result.killed, result.files) == ("output", None) and len(result.output) < 70_000


def test_supervisor_that_does_not_begin_is_a_fault_of_the_sandbox_with_its_message():
    with pytest.raises(SandboxFault, match="did not start: no space left"):
        exchange_with(b"", then="sys.exit('no space left')")


def test_output_keeps_head_and_tail_with_the_number_of_bytes_between():
    output = Output(10)
    for part in (b"abc", b"defgh", b"ijk", b"lmnop"):
        output.add(part)
    assert output.get_text() == "abcde\n[... 6 bytes left out ...]\nlmnop"
    whole = Output(10)
    whole.add("äöü".encode())
    whole.add(b"x")
    assert whole.get_text() == "äöüx"
