"""Which system calls a command may not make: a small assembler for the kernel's filter programs.

Everything is allowed but what is listed: a list of what programs need would break them with each new C library. What
is listed reaches past the other walls (tracing, mounting, new namespaces, kernel keys, io_uring) or has been the door
of kernel exploits. A refused call says "operation not permitted", or "not implemented" where libraries then take an
older call.
"""

from __future__ import annotations

import platform
import struct
from functools import cache

__all__ = ["CALLS", "program", "supported"]

_LOAD, _EQUAL, _ABOVE, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_JMP|JSET|K, BPF_RET|K (linux/bpf_common.h)."""
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
"""Offsets in ``struct seccomp_data``; arguments are 8 bytes each, the low half first on both machines."""

_ARCHES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 (linux/audit.h)."""

CALLS: dict[str, tuple[int | None, int | None]] = {
    # name: number on x86_64, on aarch64 (None: that machine has no such call)
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    "setns": (308, 268), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "lookup_dcookie": (212, 18),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "syslog": (103, 116),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58), "nfsservctl": (180, 42),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
}  # fmt: skip
_ALONE: dict[str, tuple[int | None, int | None]] = {
    "inotify_init": (253, None), "inotify_init1": (294, 26), "fanotify_mark": (301, 263),
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180),
}  # fmt: skip
"""Refused where there are no namespaces: what they would have kept apart."""
_CLONE, _CLONE3, _UNSHARE, _IOCTL, _SOCKET, _PRLIMIT = (56, 220), (435, 435), (272, 97), (16, 29), (41, 198), (302, 261)
_SOCKETPAIR = (53, 199)
_NEW_NAMESPACES = 0x7E02_0080
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET, TIME (linux/sched.h; TIME shares its bit with the exit signal of
``clone``, where it cannot be asked for)."""
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_UNIX, _INET, _INET6 = 1, 2, 10
_DATAGRAM, _RAW, _PACKET = 2, 3, 10


def supported() -> bool:
    """The numbers of this machine's system calls are known."""
    return platform.machine() in _ARCHES


@cache
def program(*, network: bool = True, alone: bool = False, machine: str | None = None) -> bytes:
    """The filter as the kernel takes it: 8 bytes an instruction.

    ``alone``: there are no namespaces below it, so sockets of the machine, shared memory and file watches are refused
    too; ``network`` counts only then (a network namespace is the better answer).
    """
    machine = machine or platform.machine()
    column = list(_ARCHES).index(machine)
    build = _Builder()
    build.load(_ARCH)
    build.unless_equal(_ARCHES[machine], _ENOSYS)
    build.load(_NUMBER)
    if machine == "x86_64":
        build.refuse_from(0x4000_0000, _ENOSYS)  # the x32 numbers, a second door to every call
    denied = [*CALLS.values(), *(_ALONE.values() if alone else ())]
    for number in sorted(row[column] for row in denied if row[column] is not None):
        build.refuse(number, _EPERM)
    build.refuse(_CLONE3[column], _ENOSYS)  # its flags lie in memory; the C library goes on with clone
    build.on(_CLONE[column], lambda b: b.refuse_bits(0, _NEW_NAMESPACES & ~0x80, _EPERM))
    build.on(_UNSHARE[column], lambda b: b.refuse_bits(0, _NEW_NAMESPACES, _EPERM))
    build.on(_IOCTL[column], _terminal)
    families = [_INET, _INET6] if network or not alone else []
    build.on(_SOCKET[column], lambda b: _sockets(b, families if alone else [_UNIX, *families]))
    if alone:
        build.on(_SOCKETPAIR[column], _pairs)
        build.on(_PRLIMIT[column], lambda b: b.refuse_unless_zero(0, _EPERM))
    build.answer(_ALLOW)
    return build.bytes()


def _terminal(build: _Builder) -> None:
    build.load(_ARGUMENT + 8)
    for request in (_TIOCSTI, _TIOCLINUX, _TIOCSETD):
        build.refuse(request, _EPERM)
    build.answer(_ALLOW)


def _sockets(build: _Builder, families: list[int]) -> None:
    build.load(_ARGUMENT + 8)
    build.mask(0xF)
    build.refuse(_RAW, _EPERM)
    build.refuse(_PACKET, _EPERM)
    build.load(_ARGUMENT)
    for family in families:
        build.accept(family)
    build.answer(_ERRNO | _EAFNOSUPPORT)


def _pairs(build: _Builder) -> None:
    """No datagrams: one end of such a pair can send to any path."""
    build.load(_ARGUMENT + 8)
    build.mask(0xF)
    build.refuse(_DATAGRAM, _EPERM)
    build.answer(_ALLOW)


class _Builder:
    """Instructions in order. Every jump is short: forward over one answer, or over a section of its own."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int]] = []

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, 0, 0, offset))

    def mask(self, bits: int) -> None:
        self._code.append((0x54, 0, 0, bits))  # BPF_ALU|AND|K

    def answer(self, value: int) -> None:
        self._code.append((_RETURN, 0, 0, value))

    def refuse(self, value: int, error: int) -> None:
        self._code.append((_EQUAL, 0, 1, value))
        self.answer(_ERRNO | error)

    def unless_equal(self, value: int, error: int) -> None:
        self._code.append((_EQUAL, 1, 0, value))
        self.answer(_ERRNO | error)

    def accept(self, value: int) -> None:
        self._code.append((_EQUAL, 0, 1, value))
        self.answer(_ALLOW)

    def refuse_from(self, value: int, error: int) -> None:
        self._code.append((_ABOVE, 0, 1, value))
        self.answer(_ERRNO | error)

    def refuse_bits(self, argument: int, bits: int, error: int) -> None:
        self.load(_ARGUMENT + 8 * argument)
        self._code.append((_BITS, 0, 1, bits))
        self.answer(_ERRNO | error)
        self.answer(_ALLOW)

    def refuse_unless_zero(self, argument: int, error: int) -> None:
        self.load(_ARGUMENT + 8 * argument)
        self.accept(0)
        self.answer(_ERRNO | error)

    def on(self, number: int, section: object) -> None:
        """A section for one call, which answers in every case. The number is loaded before and after."""
        inner = _Builder()
        section(inner)  # type: ignore[operator]
        self._code.append((_EQUAL, 0, len(inner._code), number))
        self._code += inner._code

    def bytes(self) -> bytes:
        return b"".join(struct.pack("<HBBI", *one) for one in self._code)
