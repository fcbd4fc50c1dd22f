"""Background jobs that outlived us: written down while they run, ended at the next start.

A job dies with its launcher when we are killed. Where it has none, or has killed it, its record is found by the next
program that looks. Only what is surely of the job is ended: the process of that number that began in that boot at that
moment, what came of it, and whoever carries the job's own mark in its environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from orkas.infra import files
from orkas.infra.descendants import alive, send
from orkas.infra.errors import StorageError
from orkas.infra.home import home

__all__ = ["folder", "forget", "note", "reap"]

_GIVE_UP_S = 5.0
_LINUX = sys.platform.startswith("linux")


class _Record(msgspec.Struct):
    owner: int
    """The program that started the job, and when that began."""
    owner_began: str
    pid: int
    began: str
    boot: str
    mark: str


def folder() -> Path:
    """Where the records lie."""
    return home() / "jobs"


def note(pid: int, mark: str) -> Path | None:
    """Write down a job that has just been started; None: it cannot be, and only its launcher watches over it."""
    record = _Record(os.getpid(), _began(os.getpid()), pid, _began(pid), _boot(), mark)
    path = folder() / f"{mark}.json"
    try:
        files.put(path, msgspec.json.encode(record))
    except StorageError:
        return None
    return path


def forget(path: Path | None) -> None:
    """The job has ended."""
    if path is not None:
        with suppress(OSError):
            path.unlink()


def reap() -> int:
    """End the jobs whose program is gone; returns how many still ran. Blocks."""
    try:
        paths = sorted(folder().glob("*.json"))
    except OSError:
        return 0
    return sum(_reaped(path) for path in paths)


def _reaped(path: Path) -> bool:
    try:
        record = msgspec.json.decode(files.read(path, most=4_096), type=_Record)
    except (OSError, msgspec.DecodeError):  # half-written, or not ours: nothing that could be ended by it
        forget(path)
        return False
    if record.boot == _boot() and _is(record.owner, record.owner_began):
        return False
    found = record.boot == _boot() and _end(record)
    forget(path)
    return found


def _end(record: _Record) -> bool:
    give_up = time.monotonic() + _GIVE_UP_S
    found = False
    while left := _left(record):
        found = True
        send(left, signal.SIGKILL)
        if time.monotonic() > give_up:
            break
        time.sleep(0.01)
    return found


def _left(record: _Record) -> set[int]:
    leader = record.pid if _is(record.pid, record.began) else 0
    if not leader and not _LINUX:
        return set()
    return alive(leader or -1, record.mark, everywhere=True) - {os.getpid()}


def _is(pid: int, began: str) -> bool:
    """It is that very process, and not another that was given its number."""
    return bool(began) and _began(pid) == began


def _began(pid: int) -> str:
    """When a process began, in the system's own words; empty: it is gone, or a zombie."""
    if _LINUX:
        try:
            data = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return ""
        fields = data[data.rfind(b")") + 2 :].split()
        return fields[19].decode() if len(fields) > 19 and fields[0] not in (b"Z", b"X") else ""
    told = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False)
    return told.stdout.decode(errors="replace").strip()


def _boot() -> str:
    """Which start of the machine this is. Where the system does not say, the moments themselves hold the date."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "-"
