"""Eight faults of a model's server, each met with the defaults: does the turn come through, and how long does it take?

    python bench/faults.py              all, at the same time: about 50 seconds
    python bench/faults.py 429 cut      only these

Ends with status 1 when one is not passed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from orkas import Agent, Session, tool
from orkas.harness import pairing
from orkas.infra.messages import ToolMessage, text_of
from orkas.testing import Cut, FakeVendor, Refuse, Say, call

WHOLE = Say([f"word {n} " for n in range(20)])
TEXT = "".join(p for p in WHOLE.pieces if isinstance(p, str))


@dataclass
class Met:
    """How one fault was met."""

    passed: bool
    seconds: float
    waits: list[float] = field(default_factory=list)
    why: str = ""


def busy(status: int, wait_s: int | None = None) -> Refuse:
    return Refuse(status, headers={} if wait_s is None else {"retry-after": str(wait_s)})


FAULTS: dict[str, tuple[list[Any], Callable[[Met], bool]]] = {
    "429": ([busy(429, 2)], lambda met: met.waits[0] >= 2),
    "429 long": ([busy(429, 7)], lambda met: met.waits[0] >= 7),
    "503 twice": ([busy(503)] * 2, lambda met: len(met.waits) == 2),
    "503 four times": ([busy(503)] * 4, lambda met: len(met.waits) == 4),
    "cut": ([Cut(WHOLE, 1_000)], lambda met: len(met.waits) == 1),
    "early end": ([Cut(WHOLE, 1_000, "end")], lambda met: len(met.waits) == 1),
    "stall": ([Cut(WHOLE, 1_000, "stall")], lambda met: met.seconds < 58),
}
"""The server's replies before the whole one, and what must be true of the turn beside its text."""


async def meet(name: str) -> Met:
    replies, holds = FAULTS[name]
    shown, waits, began = "", [], time.monotonic()
    with FakeVendor([*replies, WHOLE]) as vendor:
        agent = Agent("custom/m", base_url=vendor.base_url, api_key="k", tools=[])
        async with agent, aclosing(agent.stream("Say twenty words.")) as events:
            async for event in events:
                if event.type == "text_delta":
                    shown += event.text
                elif event.type == "retry":
                    shown = shown[: len(shown) - event.discard]
                    waits.append(event.wait_s)
                elif event.type == "done":
                    done = event
    met = Met(False, time.monotonic() - began, waits, done.error.message if done.error else "")
    met.passed = done.outcome == "completed" and done.text == shown == TEXT and holds(met)
    return met


async def killed() -> Met:
    """kill -9 in the third round of tools; the session is gone on with in another process."""
    began = time.monotonic()
    rounds = [Say([call("bump", id=f"r{n}", x=f"{n}")]) for n in range(2)]
    last = Say([call("bump", id="r2", x="slow")])
    with FakeVendor([*rounds, last, "Gone on."]) as vendor, tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "ORKAS_HOME": home}
        command = [sys.executable, __file__, "--turn", vendor.base_url]
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE)
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
        os.environ["ORKAS_HOME"] = home
        with Session.open("killed") as session:
            async with Agent("custom/m", base_url=vendor.base_url, api_key="k", tools=[], session=session) as agent:
                done = await agent.run("Go on.")
        kept = [text_of(m) for m in session.messages if isinstance(m, ToolMessage)]
    passed = done.text == "Gone on." and kept[:2] == ["bumped 0", "bumped 1"] and len(kept) == 3
    return Met(passed and pairing.is_paired(session.messages), time.monotonic() - began, why=f"kept: {kept}")


async def doomed(base_url: str) -> None:
    """The turn that is killed: says on stdout when its last tool runs."""

    @tool
    async def bump(x: str) -> str:
        """Bump."""
        if x == "slow":
            print("running", flush=True)
            await asyncio.sleep(60)
        return f"bumped {x}"

    agent = Agent("custom/m", base_url=base_url, api_key="k", tools=[bump], session=Session.open("killed"))
    await agent.run("Bump three times.")


async def main(names: list[str]) -> int:
    cases = {name: killed() if name == "kill -9" else meet(name) for name in names}
    rows = dict(zip(cases, await asyncio.gather(*cases.values()), strict=True))
    for name, met in rows.items():
        waits = f"waits {', '.join(f'{w:.1f}' for w in met.waits)} s" if met.waits else ""
        print(f"{name:16}{'passed' if met.passed else 'FAILED':8}{met.seconds:6.1f} s  {waits or met.why}")
    passed = sum(met.passed for met in rows.values())
    print(f"{passed} of {len(rows)} passed")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turn"]:
        asyncio.run(doomed(sys.argv[2]))
    else:
        sys.exit(asyncio.run(main(sys.argv[1:] or [*FAULTS, "kill -9"])))
