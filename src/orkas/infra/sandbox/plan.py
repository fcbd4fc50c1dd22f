"""What the launcher does to a command before it becomes one: limits, rules of the kernel, a filter of system calls."""

from __future__ import annotations

import os
import sys

from orkas.infra.sandbox.profile import Limits, Profile

__all__ = ["plan", "threads"]


def plan(profile: Profile, *, namespace: bool) -> dict[str, object]:
    """The part that every backend shares; plain values, for ``marshal``."""
    return {
        "namespace": namespace,
        "limits": _limits(profile.limits, namespace),
        "most": profile.limits.processes if _uncounted() else 0,
        "memory": profile.limits.memory_bytes,
    }


def _uncounted() -> bool:
    """The kernel does not count the processes of root, so the launcher does."""
    return os.geteuid() == 0


def _limits(limits: Limits, namespace: bool) -> list[tuple[int, int]]:
    if not sys.platform.startswith("linux"):
        return []
    import resource as r

    processes = limits.processes + (0 if namespace else threads())
    return [
        (r.RLIMIT_CORE, 1),  # 1 and not 0: with 0 the kernel still pipes a dump to a program outside
        (r.RLIMIT_NPROC, processes),
        (r.RLIMIT_FSIZE, limits.file),
        (r.RLIMIT_CPU, limits.cpu_s),
        (r.RLIMIT_NOFILE, limits.files),
        (r.RLIMIT_MSGQUEUE, 819_200),
        (r.RLIMIT_MEMLOCK, 8 << 20),
    ]


def threads() -> int:
    """Threads of the whole machine: at least as many as those of this user."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 4_096
