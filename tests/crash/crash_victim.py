"""One conversation in a process of its own, to be killed or refused by the system at any call.

``python crash_victim.py HOME SEED STEPS``: prints each ``State`` as a line of JSON, the moment it holds.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
from crash_script import Script, State


def tell(state: State) -> None:
    with suppress(OSError):  # a refusal may hit this write too
        os.write(1, msgspec.json.encode(state) + b"\n")


if __name__ == "__main__":
    script = Script(Path(sys.argv[1]), int(sys.argv[2]), start="torn", tell=tell)
    for step in (script.speak, script.round, script.compact, script.fork):
        step()
    script.run(int(sys.argv[3]))
