"""The seccomp filter, evaluated instruction by instruction for both machines. The kernel evaluates it in test_escapes.py."""

import errno
import struct

import pytest

from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.sandbox.filters import MACHINES, REFUSED, build_filter

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def evaluate(program, architecture, number, arguments=()):
    """Return what a seccomp program returns for one system call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", program))
    position, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = steps[position]
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        else:
            test = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += if_true if test else if_false


@pytest.fixture(params=sorted(MACHINES))
def machine(request):
    name = request.param
    program = build_filter(name)
    return MACHINES[name], lambda number, *arguments: evaluate(program, MACHINES[name].architecture, number, arguments)


def test_filter_refuses_every_named_call_and_allows_the_others(machine):
    entry, call = machine
    refused = {row[entry.column] for row in REFUSED.values()} - {None}
    assert {call(number) for number in refused} == {ERRNO | errno.EPERM}
    special = {entry.clone, entry.clone3, entry.socket, entry.socketpair, entry.ioctl, entry.mmap}
    assert {call(number) for number in set(range(468)) - refused - special} == {ALLOW}


def test_filter_checks_arguments_of_clone_sockets_terminals_and_mappings(machine):
    entry, call = machine
    no_family = ERRNO | errno.EAFNOSUPPORT
    assert call(entry.clone, 0x01200011) == ALLOW  # what fork() uses
    assert {call(entry.clone, flag) for flag in (0x20000, 0x10000000, 0x40000000)} == {ERRNO | errno.EPERM}
    assert call(entry.clone3) == ERRNO | errno.ENOSYS
    assert [call(entry.socket, family) for family in (1, 2, 10, 16, 17, 40)] == [ALLOW] * 3 + [no_family] * 3
    assert [call(entry.socketpair, family) for family in (1, 2)] == [ALLOW, no_family]
    # The kernel ignores the high half of these arguments.
    assert call(entry.ioctl, 0, (1 << 32) | 0x5412) == ERRNO | errno.EPERM
    assert call(entry.ioctl, 0, 0x5401) == ALLOW
    assert [call(entry.mmap, 0, 0, 0, flags) for flags in (0x22, 0x01, 0x02)] == [ALLOW] * 3
    assert [call(entry.mmap, 0, 0, 0, flags) for flags in (0x21, 0x23, 0x4021)] == [ERRNO | errno.EPERM] * 3


def test_filter_stops_foreign_architectures_and_calls_of_later_kernels(machine):
    entry, call = machine
    name = next(name for name, value in MACHINES.items() if value == entry)
    assert evaluate(build_filter(name), 0x40000003, 1) == KILL  # 32-bit x86
    assert call(468) == ERRNO | errno.ENOSYS
    assert call(0x40000000 + 1) == ERRNO | (errno.EPERM if entry.has_x32 else errno.ENOSYS)


def test_filter_for_another_machine_makes_sandboxes_unavailable():
    with pytest.raises(SandboxUnavailable, match="no system call filter for riscv64"):
        build_filter("riscv64")
