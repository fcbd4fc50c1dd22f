"""Conversations on disks of every small size, each filled to the brim and then given room.

Runs in a mount namespace of its own: ``unshare -rm python crash_full_disk.py FOLDER FIRST LAST STEP`` (KB).
Prints a line a size.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crash_check import check_home
from crash_script import Script, State


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)


def fill(place: Path, size: int, seed: int) -> str:
    """One disk: talk until it has refused three times or long enough, then make room; everything must be there."""
    place.mkdir()
    mount(place, f"size={size}k,mode=700")
    told: list[State] = []
    script = Script(place / "home", seed, start="torn", tell=told.append)
    refused = sum(not step() for step in [lambda: script.append(*_words(script))] * 12)
    script.compact()
    script.round()
    mount(place, "remount,size=4m")
    assert script.append(*_words(script)), "there is room again"
    assert not script.session.unsaved
    script.session.close()
    problem = check_home(script.now, place / "home")
    subprocess.run(["umount", str(place)], check=True)
    assert not problem, f"{size} KB: {problem}"
    return f"{size} KB: refused {refused} times"


def _words(script: Script) -> list[object]:
    from orkas.infra.messages import user_message

    return [user_message(script.word("u") + " word" * 600)]


if __name__ == "__main__":
    folder, first, last, step = Path(sys.argv[1]), *map(int, sys.argv[2:])
    for size in range(first, last + 1, step):
        print(fill(folder / str(size), size, size), flush=True)
    os.sync()
