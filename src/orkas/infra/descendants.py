"""Who is left of a command: its group, its session, its descendants, and whoever still carries its mark.

On Linux ``/proc`` is read; elsewhere only the process group can be seen.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["MARK", "alive", "children_of", "send"]

MARK = "ORKAS_RUN"
"""Environment variable that every child of a command inherits, with a value of its own for each command."""

_PROC = Path("/proc")


def alive(leader: int, mark: str, *, command: int | None = None, everywhere: bool) -> set[int]:
    """Processes of the command that still run, the leader included; zombies do not run.

    ``leader``: our direct child; ``command``: the child that leads the command's own session, when it is another.
    ``everywhere`` False looks only at process numbers given out after the leader's: exact as long as the counter has
    not gone round once, which takes seconds at least.
    """
    if not sys.platform.startswith("linux"):
        return _alive_group(leader)
    needle = f"{MARK}={mark}".encode()
    found: set[int] = set()
    parents: dict[int, int] = {}
    leaders = {leader, command or leader}
    seen = _last_number() or 0
    numbers = _numbers(leader, everywhere)
    while numbers:
        for pid in numbers:
            if (stat := _stat(pid)) is None:
                continue
            parent, group, session = stat
            parents[pid] = parent
            if leaders & {pid, group, session} or _carries(pid, needle):
                found.add(pid)
        last = _last_number() or 0  # whoever was started while we looked is looked at too
        numbers, seen = range(seen + 1, last + 1) if seen < last < seen + 2_000 else range(0), last
    return _with_children(found, parents)


def children_of(pid: int) -> set[int]:
    """Direct children of a process, on Linux."""
    return {int(child) for child in _read(f"/proc/{pid}/task/{pid}/children").split()}


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each; whoever is gone meanwhile does not matter."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _alive_group(leader: int) -> set[int]:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return set()
    return {leader}


def _numbers(leader: int, everywhere: bool) -> Sequence[int]:
    last = _last_number()
    if not everywhere and last is not None and leader <= last < leader + 2_000:
        return range(leader, last + 1)
    own = os.getpid()
    return [int(name) for name in os.listdir(_PROC) if name.isdigit() and int(name) != own]  # noqa: PTH208 - speed


def _last_number() -> int | None:
    try:
        return int((_PROC / "loadavg").read_bytes().rsplit(None, 1)[-1])
    except (OSError, ValueError, IndexError):
        return None


def _stat(pid: int) -> tuple[int, int, int] | None:
    """Parent, group and session; None when the process is gone or a zombie."""
    data = _read(f"/proc/{pid}/stat")
    fields = data[data.rfind(b")") + 2 :].split(None, 4)
    if len(fields) < 5 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[1]), int(fields[2]), int(fields[3])


def _carries(pid: int, needle: bytes) -> bool:
    for _ in range(4):
        if environ := _read(f"/proc/{pid}/environ"):
            return needle in environ.split(b"\0")
        stat = _stat(pid)
        if stat is None or stat[0] in (0, 2):  # gone, or a thread of the kernel, which has no environment
            return False
        time.sleep(0.0005)  # in the middle of an exec the kernel shows nothing for a moment
    return False


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(descriptor, 65_536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _with_children(found: set[int], parents: dict[int, int]) -> set[int]:
    """Also the children of those found, however deep: they may have dropped the mark."""
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return found
