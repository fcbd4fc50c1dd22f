"""What the sandbox adds to a command: pairs with and without, in turn, through the shell tool.

python bench/sandbox.py [--pairs 60] [--command ':']
Prints medians of the wall time of each way, and of the differences of the pairs, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from orkas.harness.tool import ToolContext
from orkas.infra.sandbox.finding import named, trial
from orkas.tools.shell import Shell


async def timed(shell: Shell, context: ToolContext, command: str) -> float:
    began = time.perf_counter()
    result = await shell.run({"command": command}, context)
    assert not result.is_error, result.text
    return (time.perf_counter() - began) * 1000


async def measure(name: str, pairs: int, command: str, cwd: Path) -> dict[str, Any]:
    walls = named(name)
    if walls is None or trial(walls):
        return {"backend": name, "skipped": "it does not work here"}
    shell = Shell()
    inside, outside = ToolContext(cwd, sandbox=walls), ToolContext(cwd, sandbox="off")
    for context in (inside, outside):
        await timed(shell, context, command)
    rows = [(await timed(shell, outside, command), await timed(shell, inside, command)) for _ in range(pairs)]
    added = sorted(within - without for without, within in rows)
    return {
        "backend": name,
        "pairs": pairs,
        "without_ms": round(statistics.median(row[0] for row in rows), 1),
        "inside_ms": round(statistics.median(row[1] for row in rows), 1),
        "added_ms": round(statistics.median(added), 1),
        "added_ms_p90": round(added[len(added) * 9 // 10], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--command", default=":")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orkas-bench-") as folder:
        for name in ("bubblewrap", "landlock"):
            print(json.dumps(asyncio.run(measure(name, options.pairs, options.command, Path(folder).resolve()))))


if __name__ == "__main__":
    main()
