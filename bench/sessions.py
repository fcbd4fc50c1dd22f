"""What a long session on disk costs: loading and healing it, adding a record, rewriting it.

    python bench/sessions.py [--mb 10] [--repeat 5]

Prints medians of processor time, and of an append, which waits for the disk, the time by the clock. Ends with status 1
when loading takes more than ``LIMIT_S``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from orkas import Session
from orkas.infra.messages import AssistantMessage, Block, Message, Text, ToolCall, ToolMessage, encode, user_message

LIMIT_S = 0.2
"""Loading 10 MB, healing included: what a person does not notice as waiting."""
WORDS = "It was the best of times, it was the worst of times, “it” was the age of wisdom.\n"


def history(size: int) -> list[Message]:
    """Rounds of two calls until the records have that many bytes."""
    made: list[Message] = [user_message("go")]
    done = n = 0
    while done < size:
        ids = [f"call_{n}_{i}" for i in range(2)]
        calls = [ToolCall(id=i, name="read_file", arguments={"path": f"src/{i}.py", "offset": n}) for i in ids]
        made.append(_says(f"a{n}", "tool_use", Text(text=WORDS), *calls, starts=ids[0]))
        results = zip(ids, (ids[1], None), strict=True)
        made += [ToolMessage(i, [Text(text=WORDS * 12)], id=f"r{i}", starts=s) for i, s in results]
        made.append(_says(f"b{n}", "stop", Text(text=WORDS * 4)))
        made.append(user_message(f"and {n}?"))
        done += sum(len(encode(m)) + 1 for m in made[-5:])
        n += 1
    return made


def _says(id: str, stop: str, *blocks: Block, starts: str | None = None) -> AssistantMessage:
    return AssistantMessage(list(blocks), "v/m", "openai_chat", stop, id=id, starts=starts)


def times(do: Callable[[], object], repeat: int, clock: Callable[[], float]) -> list[float]:
    taken = []
    for _ in range(repeat):
        began = clock()
        do()
        taken.append(clock() - began)
    return sorted(taken)


def median(do: Callable[[], object], repeat: int) -> float:
    return times(do, repeat, time.process_time)[repeat // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=float, default=10.0)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["ORKAS_HOME"] = home
        return measure(Path(home), int(given.mb * 1e6), given.repeat)


def measure(home: Path, size: int, repeat: int) -> int:
    with Session.open("long") as session:
        session.append(*history(size))
        path = session.path
    assert path is not None
    sound = path.read_bytes()
    print(f"{len(session.messages):,} messages, {len(sound) / 1e6:.1f} MB")
    lines = sound.split(b"\n")
    half = len(lines) // 2 - len(lines) // 2 % 5 + 3
    files = {
        "sound": sound,
        "open calls at the end": b"\n".join([*lines[:-5], b""]),
        "a record cut short at the end": b"\n".join([*lines[:-5], lines[-5][:60]]),
        "a bad line in the middle": b"\n".join([*lines[:half], b"{bad", *lines[half + 1 :]]),
        "a result lost in the middle": b"\n".join([*lines[:half], *lines[half + 1 :]]),
    }
    slow = False
    for name, data in files.items():
        path.write_bytes(data)
        seconds = median(lambda: Session.read("long"), repeat)
        slow = slow or seconds > LIMIT_S * size / 10e6
        print(f"load, {name:32s} {seconds * 1e3:7.0f} ms")
    path.write_bytes(sound)
    with Session.open("long") as session:
        session.append(user_message("first"))
        appends = times(lambda: session.append(user_message("more " * 100)), 100, time.perf_counter)
        print(f"append, median {appends[50] * 1e3:.1f} ms, 95 of 100 within {appends[95] * 1e3:.1f} ms")
        print(f"rewrite, nothing left out {median(lambda: session.rewrite(session.messages), repeat) * 1e3:16.0f} ms")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
