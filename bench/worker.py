"""One step of one client in a process of its own; prints one line: RESULT {json}.

    python bench/worker.py bench/clients/raw_httpx.py '{"step": "turn", "base": "http://…/v1"}'

Only what is imported by the client counts as its start, so nothing else is imported here.
"""

import asyncio
import json
import os
import resource
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise

STAMPS: list[float] = []
"""CPU seconds of this process at each tool call."""


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def make_tool(size: int):
    async def bump(x: str) -> str:
        """Bump a value.

        Args:
            x: the value to bump.
        """
        STAMPS.append(cpu())
        return (x + " ok " + "lorem ipsum dolor sit amet " * (size // 27 + 1))[:size]

    return bump


def load(path: str):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = spec_from_file_location("client", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Heard:
    def __init__(self) -> None:
        self.deltas = self.characters = self.first = 0

    def text(self, piece: str) -> None:
        if not self.deltas:
            self.first = time.monotonic_ns()
        self.deltas += 1
        self.characters += len(piece)


async def turn(module, step: dict) -> dict:
    store, bump = step.get("store"), make_tool(step.get("result", 16))
    for warm in step.get("warm", []):
        client = module.Client(warm, bump, store)
        await client.turn("warm up", None, lambda _piece: None)
        await client.close()
    heard = Heard()
    STAMPS.clear()
    client = module.Client(step["base"], bump, store)
    began, wall = cpu(), time.monotonic_ns()
    await client.turn("go", step.get("session"), heard.text)
    used, ended = cpu() - began, time.monotonic_ns()
    await client.close()
    rounds = [after - before for before, after in pairwise(STAMPS)]
    return {"cpu": used, "wall": (ended - wall) / 1e9, "started": wall, "rounds": rounds, **vars(heard)}


async def many(module, step: dict) -> dict:
    client, heard, waits = module.Client(step["base"], make_tool(16), None), Heard(), []

    async def one(i: int) -> None:
        began = time.monotonic()
        await client.turn(f"go {i}", None, heard.text)
        waits.append(time.monotonic() - began)

    await one(-1)
    waits.clear()
    heard = Heard()
    began = cpu()
    await asyncio.gather(*(one(i) for i in range(step["n"])))
    used = cpu() - began
    await client.close()
    return {"cpu": used, "waits": sorted(waits), **vars(heard)}


async def seed(module, step: dict) -> dict:
    filler = "The quick brown fox jumps over the lazy dog near the river bank. " * 20
    pairs = [(f"q{i} {filler}"[:1000], f"a{i} {filler}"[:1000]) for i in range(step["messages"] // 2)]
    client = module.Client(step["base"], make_tool(16), step["store"])
    await client.seed(step["session"], pairs)
    await client.close()
    return {}


def main() -> None:
    step = json.loads(sys.argv[2])
    try:
        module = load(sys.argv[1])
        result = asyncio.run({"turn": turn, "many": many, "seed": seed}[step["step"]](module, step))
    except BaseException as error:  # a client's failure is a result
        result = {"error": f"{type(error).__name__}: {error}"[:300]}
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
