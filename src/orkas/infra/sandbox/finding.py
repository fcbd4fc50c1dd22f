"""Which backend works here: tried for real, not read off a version."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from orkas.infra.errors import OrkasError
from orkas.infra.sandbox import landlock, seccomp
from orkas.infra.sandbox.bubblewrap import Bubblewrap, program
from orkas.infra.sandbox.landlock import Landlock
from orkas.infra.sandbox.profile import Profile, Wrapping
from orkas.infra.sandbox.seatbelt import PROGRAM, Seatbelt

__all__ = ["Backend", "Found", "find", "named", "trial"]

_TRIAL_S = 10


class Backend(Protocol):
    """One way to put walls around a command."""

    name: str
    after: bool
    """Protected paths that are there cannot be held during the command; they are put back after it."""

    def wrap(self, profile: Profile) -> Wrapping:
        """How a command of this profile is started."""
        ...


class Found(Struct, frozen=True):
    """The backend in force; ``why`` there is none, or why none better, as one clause. Empty: the best there is."""

    backend: Backend | None
    why: str = ""


_found: Found | None = None
_lock = threading.Lock()


def find() -> Found:
    """The best backend that works here. One that was found stays; that there is none is looked at anew each time.

    Takes about 50 ms the first time: call it in a thread.
    """
    global _found
    with _lock:
        if _found is None or _found.backend is None:
            _found = _looked()
        return _found


def named(name: str) -> Backend | None:
    """The backend of this name, whether it works here or not; None: there is nothing to try."""
    makes = {"bubblewrap": _bubblewrap, "landlock": _landlock, "seatbelt": _seatbelt}
    made = makes[name]() if name in makes else "unknown"
    return None if isinstance(made, str) else made


def _looked() -> Found:
    missing: list[str] = []
    if not sys.executable or getattr(sys, "frozen", False):
        return Found(None, "this program has no Python interpreter to start commands with")
    for make in (_bubblewrap, _landlock) if sys.platform.startswith("linux") else (_seatbelt,):
        made = make()
        if not isinstance(made, str):
            problem = trial(made)
            if isinstance(made, Bubblewrap) and "nknown option" in problem and seccomp.supported():
                made = Bubblewrap(made.path, old=True)
                problem = trial(made)
            if not problem:
                return Found(made, "; ".join(missing))
            made = f"{made.name} does not work here ({problem})"
        missing.append(made)
    return Found(None, "; ".join(missing))


def _bubblewrap() -> Backend | str:
    found = program()
    return Bubblewrap(found) if found else "bubblewrap is not installed"


def _landlock() -> Backend | str:
    if not seccomp.supported():
        return "the system calls of this machine are not known"
    return Landlock() if landlock.abi() >= 3 else "the kernel has no Landlock, or one before Linux 6.2"


def _seatbelt() -> Backend | str:
    return Seatbelt() if os.access(PROGRAM, os.X_OK) else f"there is no sandbox for {sys.platform}"


def trial(backend: Backend) -> str:
    """Run nothing at all inside; why that failed, empty when it did not."""
    import tempfile

    from orkas.infra.process import attempt, launch
    from orkas.infra.sandbox.making import profile

    try:
        with tempfile.TemporaryDirectory(prefix=f"orkas-tmp-{os.getpid()}-trial-") as folder:
            cwd = Path(os.path.realpath(folder))
            code, said = attempt(launch(":", cwd=cwd, wrapping=backend.wrap(profile(cwd))), _TRIAL_S)
    except (OSError, OrkasError) as error:
        return str(error)
    lines = said.decode(errors="replace").strip().splitlines()
    return "" if code == 0 else lines[-1] if lines else "it did not start"
