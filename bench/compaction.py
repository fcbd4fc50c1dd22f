"""What a compaction costs without the model: taking the facts out, notes on the messages, the archive, the way back.

    python bench/compaction.py            1 MB and 10 MB of history
    python bench/compaction.py 5          5 MB

Wall and processor time of one process, in seconds; the session lies on the disk of the temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from orkas import Agent, Session
from orkas.harness.context.facts import collect
from orkas.infra.messages import AssistantMessage, Text, ToolCall, tool_result, user_message
from orkas.infra.tokens import estimate
from orkas.providers.base import ModelInfo
from orkas.testing import ScriptedProvider

WORDS = [f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400)]


def fill(session: Session, megabytes: float) -> int:
    """Rounds of tools with results like listings and logs; returns how many."""
    dice = random.Random(7)
    session.append(user_message("Sort the archive of 2026 and tell me what is missing."))
    size = rounds = 0
    while size < megabytes * 1e6:
        lines = [
            f"src/{dice.choice(WORDS)}/{dice.choice(WORDS)}.py:{dice.randint(1, 900)}: "
            f"{dice.choice(WORDS)} = {dice.random():.4f}"
            for _ in range(60)
        ]
        text = "\n".join(lines)
        call = ToolCall(id=f"c{rounds}", name="read_file", arguments={"path": f"src/{dice.choice(WORDS)}.py"})
        session.append(AssistantMessage([Text(text=f"Step {rounds}."), call]), tool_result(call.id, text))
        size += len(text)
        rounds += 1
    return rounds


def measured(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def figures(megabytes: float) -> Iterator[tuple[str, float, float]]:
    """Each step with its wall and processor time."""
    with Session.open(f"bench-{megabytes:g}") as session:
        fill(session, megabytes)
        summary = "## Goal\nSort the archive.\n## Done\nMost of it.\n## Next step\nThe rest."
        info = ModelInfo(context_window=int(megabytes * 1e6), max_output=8_000)
        agent = Agent(ScriptedProvider([summary, "Done."], info=info), tools=[], session=session)
        yield "facts alone", *measured(lambda: collect([], session.messages, tokens=8_000, size=estimate))
        yield "summary from a scripted model, archived and rewritten", *measured(lambda: asyncio.run(agent.compact()))
        yield "taken back", *measured(lambda: asyncio.run(agent.uncompact()))
        small = ModelInfo(context_window=60_000, max_output=8_000)
        broken = Agent(ScriptedProvider(["Done."] * 20, info=small), tools=[], session=session)
        broken.session.append(user_message("Go on."))
        wall, cpu = measured(lambda: asyncio.run(broken.run("Go on.")))
        yield "one turn whose history is many windows long, no summary to be had", wall, cpu


def main() -> None:
    sizes = [float(word) for word in sys.argv[1:]] or [1.0, 10.0]
    with tempfile.TemporaryDirectory() as home:
        os.environ["ORKAS_HOME"] = home
        print(f"{'history':>8}  {'step':<66}  {'wall s':>7}  {'cpu s':>7}")
        for size in sizes:
            for step, wall, cpu in figures(size):
                print(f"{size:>5g} MB  {step:<66}  {wall:>7.2f}  {cpu:>7.2f}")


if __name__ == "__main__":
    main()
