"""What a command may: values, and how they come from a working folder."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from orkas.infra.sandbox.repositories import Repositories

__all__ = ["Limits", "Profile", "Wrapping"]

_GIB = 1 << 30


def _memory() -> int:
    """Three quarters of the machine's memory, at least 1 GiB."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        whole = 8 * _GIB
    return max(_GIB, whole * 3 // 4)


class Limits(Struct, frozen=True):
    """What one command may use; each is far above what work needs, so that only an accident meets it."""

    processes: int = 2_048
    """Processes and threads of the command (of the user, on top of all that run, where there is no user namespace)."""
    memory: int = 0
    """Bytes of memory the whole command may hold; 0: three quarters of the machine's. Looked at by the launcher: a
    limit of the kernel would count what programs only reserve, which some do by the terabyte."""
    file: int = 16 * _GIB
    """Bytes a file may grow to."""
    cpu_s: int = 3_600
    """Seconds of processor time of one process."""
    files: int = 8_192
    """Open files of one process."""

    @property
    def memory_bytes(self) -> int:
        return self.memory or _memory()


class Profile(Struct, frozen=True):
    """What a command may reach. All paths are absolute and resolved; of two, the deeper one counts.

    ``cwd`` and ``temp`` can be written, and nothing else; where there are namespaces its folders ``tmp`` and ``home0``
    are seen as ``/tmp`` and as the home. All else can be read, but for what is hidden.
    """

    cwd: Path
    temp: Path
    hidden: tuple[Path, ...] = ()
    """Not there for the command. Those below the working folder also cannot be replaced."""
    shown: tuple[Path, ...] = ()
    """Read-only, though they lie below what is hidden."""
    protected: tuple[Path, ...] = ()
    """Below ``cwd``, there or not: what other programs obey (hooks, configurations). Read-only, safe from being
    renamed away; what cannot be held during the command is put back after it (``orkas.infra.sandbox.restorer``)."""
    held: tuple[tuple[Path, int, int], ...] = ()
    """The working folder, what mounts hold of what is protected, and the folders between: each with the device and
    number that it had when it was looked at."""
    repositories: Repositories = Repositories()
    """The git folders that are there."""
    network: bool = False
    limits: Limits = Limits()


class Wrapping(Struct):
    """How a backend starts a command."""

    argv: list[str]
    """Words in front of the launcher. A word ``{0}``, ``{1}`` … stands for a descriptor of ``inputs``."""
    inputs: list[bytes] = []
    """Contents that the child finds open."""
    plan: dict[str, object] = {}
    """What the launcher does to the command before it starts it (``orkas.infra.launcher``)."""
    env: dict[str, str] = {}
    """Variables of the command that are others inside."""
    namespace: bool = False
    """The launcher is the first process of a namespace of its own: it dies, and everybody in it dies."""
    launcher: bool = True
    """False: the wrapped command is started without the launcher."""
