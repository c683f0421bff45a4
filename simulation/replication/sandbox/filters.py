"""The seccomp filter of a sandbox: a program for the kernel that refuses system calls which no experiment needs.

The program is classic BPF over `struct seccomp_data` (linux/seccomp.h): number at offset 0, architecture at 4, arguments of
8 bytes from 16 on. System call numbers are from asm/unistd_64.h (x86-64) and asm-generic/unistd.h (arm64).
"""

import errno
import platform
import struct
from typing import NamedTuple

from simulation.replication.sandbox.base import SandboxUnavailable

# Name -> number on x86-64, number on arm64. None: the machine does not have it.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "unshare": (272, 97),
    "setns": (308, 268),
    # large parts of the kernel with a history of errors
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "vmsplice": (278, 75),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "modify_ldt": (154, None),
    # memory that neither a memory file system nor the sum of resident memory contains
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    # the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "sysfs": (139, None),
    "ustat": (136, None),
    "_sysctl": (156, None),
}
LAST_KNOWN = 467  # calls that a later kernel adds do not exist in a sandbox
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _ABOVE_OR_EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (linux/sched.h)
_NAMESPACE_FLAGS = 0x7E020000
_UNIX, _INET, _INET6 = 1, 2, 10
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # put characters into a terminal's input
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20


class Machine(NamedTuple):
    """What differs between processors."""

    column: int  # in REFUSED
    architecture: int  # AUDIT_ARCH_... (linux/audit.h)
    clone: int
    clone3: int
    socket: int
    socketpair: int
    ioctl: int
    mmap: int
    has_x32: bool


MACHINES = {
    "x86_64": Machine(0, 0xC000003E, 56, 435, 41, 53, 16, 9, True),
    "aarch64": Machine(1, 0xC00000B7, 220, 435, 198, 199, 29, 222, False),
}


def build_filter(machine: str | None = None) -> bytes:
    """Return the filter for a machine of MACHINES, by default this processor. Raises SandboxUnavailable for any other."""
    name = machine or platform.machine()
    if name not in MACHINES:
        raise SandboxUnavailable(
            f"there is no system call filter for {name}; sandboxes run on {' and '.join(MACHINES)}"
        )
    processor = MACHINES[name]
    denied = _ERRNO | errno.EPERM
    missing = _ERRNO | errno.ENOSYS
    no_family = _ERRNO | errno.EAFNOSUPPORT
    program = [
        _step(_LOAD, 4),
        _step(_EQUAL, processor.architecture, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, 0),
    ]
    if processor.has_x32:
        program += [_step(_ABOVE_OR_EQUAL, 0x40000000, 0, 1), _step(_RETURN, denied)]
    program += [_step(_ABOVE_OR_EQUAL, LAST_KNOWN + 1, 0, 1), _step(_RETURN, missing)]
    for number in sorted(row[processor.column] or -1 for row in REFUSED.values()):
        if number >= 0:
            program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, denied)]
    # clone3 hides its flags in memory, which no filter can read: without it, libraries use clone.
    program += [_step(_EQUAL, processor.clone3, 0, 1), _step(_RETURN, missing)]
    program += _check_argument(processor.clone, 0, [_step(_ANY_BIT, _NAMESPACE_FLAGS, 0, 1), _step(_RETURN, denied)])
    # A network namespace does not isolate AF_VSOCK. Netlink and packet sockets are of no use to an experiment.
    families = [
        step for family in (_UNIX, _INET, _INET6) for step in (_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW))
    ]
    program += _check_argument(processor.socket, 0, [*families, _step(_RETURN, no_family)])
    program += _check_argument(processor.socketpair, 0, [_step(_EQUAL, _UNIX, 1, 0), _step(_RETURN, no_family)])
    terminal = [
        step for request in (_TIOCSTI, _TIOCLINUX) for step in (_step(_EQUAL, request, 0, 1), _step(_RETURN, denied))
    ]
    program += _check_argument(processor.ioctl, 1, terminal)
    # Shared anonymous memory stays allocated after MADV_DONTNEED, when it no longer counts as resident.
    # MAP_SHARED is 1 and MAP_SHARED_VALIDATE is 3, MAP_PRIVATE is 2: bit 0 distinguishes them.
    shared = [
        _step(_AND, _MAP_SHARED | _MAP_ANONYMOUS),
        _step(_EQUAL, _MAP_SHARED | _MAP_ANONYMOUS, 0, 1),
        _step(_RETURN, denied),
    ]
    program += _check_argument(processor.mmap, 3, shared)
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction (`struct sock_filter`). Jumps are relative to the next instruction."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _check_argument(number: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """Return instructions that apply `steps` to the low 32 bits of an argument of system call `number`; else they allow it.

    The kernel reads these arguments as 32-bit values, so the high half has no effect. After the load, the number is gone: the
    block ends with a return.
    """
    block = [_step(_LOAD, 16 + 8 * argument), *steps, _step(_RETURN, _ALLOW)]
    return [_step(_EQUAL, number, 0, len(block)), *block]
