"""Landlock: rules of the kernel on files, TCP, signals and abstract sockets, for where there are no namespaces.

Rules only ever allow, and hold for whole folders. So what is hidden is left out and everything beside it is listed;
and what lies in the working folder cannot be made read-only: protected paths are put back after the command. The
kernel offers no rule for the owner, mode and times of files, so those of the user's files outside can be changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from orkas.infra.sandbox import seccomp
from orkas.infra.sandbox.folders import is_below
from orkas.infra.sandbox.plan import plan
from orkas.infra.sandbox.profile import Profile, Wrapping

__all__ = ["Landlock", "abi", "scope"]

_CREATE_RULESET = 444
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READING = _EXECUTE | _READ | _READ_DIR
_DEVICE_NODES = 1 << 6 | 1 << 11
_SCOPES = 0b11
"""LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and LANDLOCK_SCOPE_SIGNAL (linux/landlock.h), from version 6 on."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@cache
def abi() -> int:
    """The kernel's version of Landlock; 0: it has none."""
    import ctypes

    try:
        version = ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1)
    except (OSError, AttributeError):
        return 0
    return max(0, int(version))


def scope() -> dict[str, object]:
    """Rules that forbid signals and abstract sockets beyond the command, and nothing else; empty: too old a kernel."""
    return {"fs": 0, "net": 0, "scoped": _SCOPES, "rules": []} if abi() >= 6 else {}


class Landlock:
    """Commands under rules that they cannot take off again."""

    name = "landlock"
    after = True
    """Protected paths are put back afterwards."""

    def wrap(self, profile: Profile) -> Wrapping:
        """What the launcher sets in force; ``profile.cwd`` and ``profile.temp`` exist."""
        told = plan(profile, namespace=False)
        told["places"] = [(os.fspath(path), *numbers) for path, *numbers in profile.held if path == profile.cwd]
        told["landlock"] = {
            "fs": _all_rights(abi()),
            "net": 0,
            "scoped": _SCOPES if abi() >= 6 else 0,
            "rules": list(_rules(profile)),
        }
        told["seccomp"] = seccomp.program(network=profile.network, alone=True)
        told["powerless"] = True
        temp = str(profile.temp / "tmp")
        env = {"TMPDIR": temp, "TMP": temp, "TEMP": temp, "XDG_CACHE_HOME": str(profile.temp / "home0")}
        return Wrapping([], [], told, env)


def _all_rights(version: int) -> int:
    rights = (1 << 13) - 1
    for needed, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        rights |= right if version >= needed else 0
    return rights


def _rules(profile: Profile) -> Iterator[tuple[str, int]]:
    everything = _all_rights(abi())
    writing = everything & ~(_IOCTL | _DEVICE_NODES)
    devices = Path("/dev")
    for path in _beside([*profile.hidden, devices, Path("/sys")]):
        yield path, _READING
    yield "/sys/devices/system/cpu", _READING
    for folder in profile.shown:
        if is_below(folder, profile.hidden):
            yield str(folder), _READING
    for name in _DEVICES:
        yield str(devices / name), (_WRITE | _READ | _READ_DIR | _IOCTL) & everything
    yield str(profile.temp), writing
    inside = [path for path in profile.hidden if profile.cwd in path.parents]
    if inside:
        for name in _beside(inside, profile.cwd):
            yield name, writing
    else:
        yield str(profile.cwd), writing


def _beside(hidden: Iterable[Path], root: Path = Path("/")) -> Iterator[str]:
    """Everything below ``root`` that is neither hidden nor holds something hidden, in as few paths as possible."""
    hidden = list(hidden)
    try:
        with os.scandir(root) as entries:
            found = [Path(entry.path) for entry in entries if not entry.is_symlink()]
    except OSError:
        return
    for path in found:
        if path in hidden:
            continue
        if any(path in other.parents for other in hidden):
            yield from _beside(hidden, path)
        else:
            yield str(path)
