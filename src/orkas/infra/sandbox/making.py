"""From a working folder to a profile, and the private folder for temporary files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from orkas.infra.errors import ToolFailed
from orkas.infra.home import home
from orkas.infra.sandbox import folders
from orkas.infra.sandbox.profile import Limits, Profile
from orkas.infra.sandbox.protected import held, protected
from orkas.infra.sandbox.repositories import search

__all__ = ["profile", "temporary"]

_PREFIX = "orkas-tmp-"
_made: dict[Path, Path] = {}
_lock = threading.Lock()


def profile(
    cwd: Path, *, network: bool = False, env: Mapping[str, str] | None = None, limits: Limits | None = None
) -> Profile:
    """What a command in ``cwd`` may. Looks at the disk: made anew for each command.

    Raises:
        OSError: there is no place for temporary files, or the working folder cannot be opened.
        ToolFailed: it is a folder around which there can be no walls.
    """
    cwd = Path(os.path.realpath(cwd))
    if cwd == Path("/") or folders.is_below(cwd, [Path("/proc"), Path("/sys"), Path("/dev")]):
        raise ToolFailed(f"there can be no walls around commands that work in {cwd}; work in a folder of your own")
    if folders.is_below(Path(os.path.realpath(home())), [cwd]):
        home().mkdir(mode=0o700, parents=True, exist_ok=True)  # what is missing cannot be hidden, and would be made
    hidden = folders.hidden(cwd)
    found = search(cwd)
    guarded = protected(cwd, found)
    return Profile(
        cwd,
        temporary(cwd),
        hidden=tuple(hidden),
        shown=tuple(folders.shown(cwd, os.environ if env is None else env)),
        protected=tuple(guarded),
        held=tuple(held(cwd, guarded, hidden)),
        repositories=found,
        network=network,
        limits=limits or Limits(),
    )


def temporary(cwd: Path) -> Path:
    """The folder for temporary files of all commands in ``cwd``, for us alone; it goes when this program ends."""
    with _lock:
        found = _made.get(cwd)
        if found is None or not os.path.isdir(found) or os.path.islink(found):
            if not _made:
                _sweep(Path(tempfile.gettempdir()))
            found = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")))
            for name in ("tmp", *(f"home{n}" for n in range(len(folders.homes())))):
                (found / name).mkdir()
            _hold(found)  # until this program ends
            _made[cwd] = found
        return found


def _sweep(folder: Path) -> None:
    """Remove what programs left that were killed: folders of ours whose process is gone, and that nobody holds."""
    for path in folder.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not _runs(int(owner)) and (held := _hold(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def _hold(folder: Path) -> int | None:
    """Hold a folder of ours as long as the descriptor is open; None: somebody does, or it is not ours. A process may
    be unseen, in a container that shares the folder for temporary files."""
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@atexit.register
def _remove() -> None:
    for path in _made.values():
        if path.name.startswith(f"{_PREFIX}{os.getpid()}-"):  # not in a fork of the process that made it
            shutil.rmtree(path, ignore_errors=True)
