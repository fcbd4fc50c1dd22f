"""Is this machine able to hold and run the model? Each lack is one sentence."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "size"]


def size(count: int) -> str:
    """Bytes for people: ``1.1 GB``, ``47 MB``."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1_000_000 else f"{count:,} bytes"


@dataclass(frozen=True, slots=True)
class Machine:
    """What counts of a machine. Sizes in bytes; None: could not be told, and is not held against it."""

    free_disk: int | None
    free_memory: int | None
    avx2: bool | None
    pip: bool

    @classmethod
    def look(cls, folder: Path) -> Machine:
        """This machine, and the disk that ``folder`` is or will be on."""
        return cls(_free_disk(folder), _free_memory(), _avx2(), importlib.util.find_spec("pip") is not None)

    def lacks_for_running(self, memory: int) -> list[str]:
        lacks = []
        if self.free_memory is not None and self.free_memory < memory:
            lacks.append(f"it needs {size(memory)} of available memory, and {size(self.free_memory)} are available")
        if self.avx2 is False:
            lacks.append("it needs a processor with AVX2, which this one does not have")
        return lacks

    def lacks_for_disk(self, disk: int, folder: Path) -> list[str]:
        if self.free_disk is not None and self.free_disk < disk:
            return [f"it needs {size(disk)} of free disk space for {folder}, and {size(self.free_disk)} are free"]
        return []


def _free_disk(folder: Path) -> int | None:
    for place in (folder, *folder.parents):
        if place.is_dir():
            return shutil.disk_usage(place).free
    return None


def _free_memory() -> int | None:
    """Memory the kernel would give without swapping, or what the control group leaves, whichever is less."""
    found = [n for n in (_available(), _group_room()) if n is not None]
    return min(found) if found else None


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _group_room() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:
        return None
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None


def _avx2() -> bool | None:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text().replace("\n", " ")
    except OSError:
        return None
