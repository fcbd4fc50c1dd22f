"""What Orkas costs, measured against a hand-written client in the same run.

    python bench/run.py                 every scenario
    python bench/run.py deltas rounds   only these;  -r 5 repetitions;  --clients raw_httpx,ours

See bench/README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from model import Script  # noqa: E402 - this folder is no package

BASE = "raw_httpx"
CLIENTS = (BASE, "raw_aiohttp", "ours")
NEEDS = {"raw_httpx": ("httpx",), "raw_aiohttp": ("aiohttp",), "ours": ("aiohttp", "msgspec", "platformdirs")}
"""Packages of each client."""
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
CLIENT_CORE, MODEL_CORE = CORES[0], CORES[-1]


@dataclass(frozen=True)
class Limit:
    """``most``: the largest figure that is ok; ``ratio``: it is meant relative to the raw httpx client."""

    most: float
    ratio: bool = True


@dataclass(frozen=True)
class Figure:
    name: str
    unit: str
    limit: Limit | None = None


Figures = dict[str, float]
FAILED = "error"


class Bench:
    """The fake model on its own core, a folder to work in, and how to run one step of one client."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder
        self.count = 0

    def base(self, **fields: Any) -> tuple[str, str]:
        """A base URL whose model follows this script, and the id under which it remembers."""
        self.count += 1
        script = Script(id=str(self.count), **fields)
        path = base64.urlsafe_b64encode(json.dumps(asdict(script)).encode()).decode()
        return f"http://127.0.0.1:{self.port}/s/{path}/v1", script.id

    def seen(self, script_id: str) -> list[dict[str, int]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/seen/{script_id}") as answer:
            return json.load(answer)

    def store(self, name: str) -> Path:
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def step(self, client: str, prefix: tuple[str, ...] = (), **step: Any) -> dict[str, Any]:
        """What the worker measured; ``whole_*``: of its process from start to end.

        Raises:
            RuntimeError: it failed.
        """
        program = [sys.executable, str(HERE / "worker.py"), str(HERE / "clients" / f"{client}.py")]
        done = self.process([*prefix, *program, json.dumps(step)])
        lines = [line for line in done["output"].splitlines() if line.startswith("RESULT ")]
        result = json.loads(lines[-1][7:]) if lines else {"error": done["output"][-300:] or "no result"}
        if FAILED in result:
            raise RuntimeError(result[FAILED])
        return {**result, **done}

    def process(self, command: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
        """Run to its end on the client's core: output, CPU seconds, peak memory, and when it began."""
        began = time.monotonic_ns()
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.env(env or {}), cwd=self.folder,
            preexec_fn=lambda: pin(CLIENT_CORE),
        )  # fmt: skip
        assert child.stdout is not None
        first = child.stdout.read(1)
        first_at = time.monotonic_ns()
        output = (first + child.stdout.read()).decode(errors="replace")
        child.stdout.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return {
            "output": output, "status": child.returncode, "began": began, "first_output": first_at,
            "whole_cpu": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024,
        }  # fmt: skip

    def env(self, more: dict[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("ORKAS_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at every start
        source = str(HERE.parent / "src")
        paths = os.pathsep.join(p for p in (source, kept.get("PYTHONPATH", "")) if p)
        home = str(self.folder / "home")
        return {**kept, "PYTHONPATH": paths, "ORKAS_HOME": home, "NO_PROXY": "*", **more}


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


# ---- scenarios: each measures one client once


def start(bench: Bench, client: str) -> Figures:
    base, _ = bench.base()
    got = bench.step(client, step="turn", base=base)
    return {
        "cpu": got["whole_cpu"] * 1e3, "wall": (got["first"] - got["began"]) / 1e6, "memory": got["peak_mb"],
    }  # fmt: skip


def command(bench: Bench, client: str) -> Figures:
    """`orkas run` as a user starts it; for the others, their process."""
    if client != "ours":
        return start(bench, client)
    base, _ = bench.base()
    env = {"CUSTOM_BASE_URL": base, "CUSTOM_API_KEY": "k"}
    got = bench.process([sys.executable, "-m", "orkas", "run", "--model", "custom/gpt-4o", "--ephemeral", "go"], env)
    if got["status"]:
        raise RuntimeError(got["output"][-300:])
    wall = (got["first_output"] - got["began"]) / 1e6
    return {"cpu": got["whole_cpu"] * 1e3, "wall": wall, "memory": got["peak_mb"]}


def warm(bench: Bench, rounds: int = 0) -> list[str]:
    return [bench.base(deltas=3, rounds=rounds)[0]]


def deltas(bench: Bench, client: str, count: int = 20_000) -> Figures:
    base, _ = bench.base(deltas=count)
    got = bench.step(client, step="turn", base=base, warm=warm(bench))
    expect(got["characters"] == 4 * count, f"{got['characters']} characters came")
    return {"cpu": got["cpu"] / count * 1e6}


def arguments(bench: Bench, client: str, size: int = 200_000) -> Figures:
    used = []
    for length in (size // 4, size):
        base, script = bench.base(rounds=1, arguments=length)
        got = bench.step(client, step="turn", base=base, warm=warm(bench, 1))
        seen = bench.seen(script)
        expect(len(seen) == 2 and seen[1]["size"] > length, "the arguments did not come back whole")
        used.append(got["cpu"] * 1e3)
    return {"cpu": used[1], "growth": used[1] / used[0]}


def rounds(bench: Bench, client: str, *, durable: bool = False, count: int = 200) -> Figures:
    base, script = bench.base(rounds=count, deltas=5)
    place = {"store": str(bench.store(f"rounds-{client}")), "session": "a"} if durable else {}
    got = bench.step(client, step="turn", base=base, warm=warm(bench, 1), result=1000, **place)
    expect(len(bench.seen(script)) == count + 1, f"{len(bench.seen(script))} requests came")
    return {"cpu": got["cpu"] / (count + 1) * 1e3, "late": sum(got["rounds"][-30:]) / 30 * 1e3}


def rounds_durable(bench: Bench, client: str) -> Figures:
    return rounds(bench, client, durable=True)


def reopen(bench: Bench, client: str, messages: int = 2000) -> Figures:
    seeded = bench.folder / f"seed-{client}"
    if not seeded.exists():
        seeded.mkdir()
        bench.step(client, step="seed", base=bench.base()[0], store=str(seeded), session="a", messages=messages)
    store = bench.store(f"open-{client}")
    shutil.copytree(seeded, store, dirs_exist_ok=True)
    base, script = bench.base(deltas=5)
    got = bench.step(client, step="turn", base=base, warm=warm(bench), store=str(store), session="a")
    seen = bench.seen(script)
    expect(seen[-1]["size"] > messages * 1000, f"only {seen[-1]['size']} bytes of history were sent")
    return {"cpu": got["cpu"] * 1e3, "wall": (seen[-1]["at"] - got["started"]) / 1e6}


WRITE = re.compile(r"\b(?:write|pwrite64|writev|pwritev2?)\(\d+<([^>]*)>.*= (\d+)\s*$")
FLUSH = re.compile(r"\b(?:fsync|fdatasync)\(\d+<([^>]*)>")


def writes(bench: Bench, client: str, count: int = 50) -> Figures:
    """Counted by strace; without it from the sizes of the files, which miss what is written twice."""
    store, log = bench.store(f"writes-{client}"), bench.folder / "strace.log"
    base, script = bench.base(rounds=count, deltas=5)
    calls = "trace=write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync"
    traced = shutil.which("strace") is not None
    prefix = ("strace", "-f", "-y", "-qq", "-s", "0", "-o", str(log), "-e", calls) if traced else ()
    bench.step(client, prefix, step="turn", base=base, result=1000, store=str(store), session="a")
    seen = bench.seen(script)
    payload = seen[-1]["size"] - seen[0]["size"]
    if not traced:
        return {"bytes": sum(f.stat().st_size for f in store.rglob("*") if f.is_file()) / payload}
    written = flushes = 0
    for line in log.read_text(errors="replace").splitlines():
        if (match := WRITE.search(line)) and match[1].startswith(str(store)):
            written += int(match[2])
        elif (match := FLUSH.search(line)) and match[1].startswith(str(store)):
            flushes += 1
    return {"bytes": written / payload, "flushes": flushes / (2 * count + 2)}


def many(bench: Bench, client: str, count: int = 100) -> Figures:
    base, _ = bench.base(first_byte_s=0.05, rounds=1, deltas=50)
    got = bench.step(client, step="many", base=base, n=count)
    expect(got["characters"] == 200 * count, f"{got['characters']} characters came")
    return {"cpu": got["cpu"] / count * 1e3, "p95": got["waits"][int(count * 0.95) - 1] * 1e3}


def expect(true: bool, otherwise: str) -> None:
    if not true:
        raise RuntimeError(otherwise)


@dataclass(frozen=True)
class Scenario:
    title: str
    measure: Callable[[Bench, str], Figures]
    figures: dict[str, Figure] = field(default_factory=dict)


SCENARIOS: dict[str, Scenario] = {
    "start": Scenario("process start to the first token, as a library", start, {
        "cpu": Figure("CPU of the process", "ms", Limit(1.5)),
        "wall": Figure("wall to the first token", "ms"),
        "memory": Figure("peak memory", "MB", Limit(40, ratio=False)),
    }),
    "command": Scenario("`orkas run` as a process", command, {
        "cpu": Figure("CPU of the process", "ms", Limit(1.9)),
        "wall": Figure("wall to the first output", "ms"),
        "memory": Figure("peak memory", "MB", Limit(50, ratio=False)),
    }),
    "deltas": Scenario("one answer of 20,000 deltas", deltas, {"cpu": Figure("CPU per delta", "µs", Limit(0.35))}),
    "arguments": Scenario("one call with 200,000 characters of arguments", arguments, {
        "cpu": Figure("CPU", "ms", Limit(0.35)),
        "growth": Figure("growth for 4 times the size", "×", Limit(5, ratio=False)),
    }),
    "rounds": Scenario("200 tool rounds in memory", rounds, {
        "cpu": Figure("CPU per round", "ms", Limit(0.4)),
        "late": Figure("CPU per round, last 30", "ms", Limit(1, ratio=False)),
    }),
    "durable": Scenario("200 tool rounds with a durable session", rounds_durable, {
        "cpu": Figure("CPU per round", "ms", Limit(0.7)),
        "late": Figure("CPU per round, last 30", "ms"),
    }),
    "open": Scenario("open a session of 2,000 messages, next turn", reopen, {
        "cpu": Figure("CPU", "ms", Limit(0.7)),
        "wall": Figure("wall until the request is out", "ms"),
    }),
    "writes": Scenario("50 tool rounds, what reaches the files", writes, {
        "bytes": Figure("bytes written per byte of message", "×", Limit(1.3, ratio=False)),
        "flushes": Figure("flushes per message", ""),
    }),
    "many": Scenario("100 runs at once, first byte after 50 ms", many, {
        "cpu": Figure("CPU per run", "ms", Limit(0.1)),
        "p95": Figure("p95 of a run", "ms", Limit(200, ratio=False)),
    }),
}  # fmt: skip


# ---- the run and its table

Samples = dict[str, list[Figures | str]]
"""Per client one entry a repetition: its figures, or the words of its failure."""


def measure(bench: Bench, scenario: Scenario, clients: list[str], repetitions: int) -> Samples:
    """In turn inside each repetition, so that a slow spell of the machine meets all of them."""
    samples: Samples = {client: [] for client in clients}
    for _ in range(repetitions):
        for client in clients:
            try:
                samples[client].append(scenario.measure(bench, client))
            except (RuntimeError, OSError) as error:
                samples[client].append(f"failed: {error}")
    return samples


def rows(scenario: Scenario, samples: Samples) -> Iterator[tuple[str, ...]]:
    for client, taken in samples.items():
        failures = [sample for sample in taken if isinstance(sample, str)]
        if failures:
            yield client, failures[0].splitlines()[-1][:60], "", "", "", "FAILED"
            continue
        for key, figure in scenario.figures.items():
            values = [s[key] for s in taken if isinstance(s, dict) and key in s]
            if not values:
                continue
            value, ratio = statistics.median(values), relative(key, taken, samples.get(BASE, []))
            yield (
                client, figure.name, f"{value:.3g} {figure.unit}" if value < 1000 else f"{value:.0f} {figure.unit}",
                f"{ratio:.2f}×" if ratio is not None else "–", *verdict(figure.limit, value, ratio, client),
            )  # fmt: skip


def relative(key: str, taken: list[Figures | str], base: list[Figures | str]) -> float | None:
    """The ratio to the base inside each repetition, then the median of the ratios."""
    pairs = [(a[key], b[key]) for a, b in zip(taken, base, strict=False) if isinstance(a, dict) and isinstance(b, dict)
             and key in a and b.get(key)]  # fmt: skip
    return statistics.median(a / b for a, b in pairs) if pairs else None


def verdict(limit: Limit | None, value: float, ratio: float | None, client: str) -> tuple[str, str]:
    """The limit in words, and ok or over: only we are judged."""
    if limit is None:
        return "", ""
    words = f"≤ {limit.most:g}" + ("×" if limit.ratio else "")
    measured = ratio if limit.ratio else value
    if client != "ours" or measured is None:
        return words, ""
    return words, "ok" if measured <= limit.most else "OVER"


def table(parts: dict[str, list[tuple[str, ...]]]) -> str:
    """The rows under their scenario's title, in columns."""
    head = ("client", "figure", "measured", f"÷ {BASE}", "limit", "")
    every = [head, *(line for lines in parts.values() for line in lines)]
    widths = [max(len(line[i]) for line in every) for i in range(len(head))]

    def row(line: tuple[str, ...]) -> str:
        return ("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))).rstrip()

    blocks = ["\n".join([title, *map(row, lines)]) for title, lines in parts.items()]
    return "\n\n".join([row(head), *blocks])


@contextlib.contextmanager
def model() -> Iterator[int]:
    """The fake model in a process of its own; its port."""
    program = [sys.executable, str(HERE / "model.py")]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(MODEL_CORE))
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    given = parser.parse_args()
    if unknown := [name for name in given.scenarios if name not in SCENARIOS]:
        parser.error(f"no such scenario: {', '.join(unknown)} (there are {', '.join(SCENARIOS)})")
    clients = given.clients.split(",")
    if missing := [package for client in clients for package in NEEDS.get(client, ()) if find_spec(package) is None]:
        sys.exit(f"bench: {sys.executable} lacks {' and '.join(missing)}; see the first lines of bench/README.md")
    parts: dict[str, list[tuple[str, ...]]] = {}
    everything: dict[str, Samples] = {}
    with tempfile.TemporaryDirectory(prefix="orkas-bench-") as folder, model() as port:
        bench = Bench(port, Path(folder))
        for name in given.scenarios or SCENARIOS:
            print(f"{name} …", file=sys.stderr, flush=True)
            everything[name] = measure(bench, SCENARIOS[name], clients, given.repetitions)
            parts[SCENARIOS[name].title] = list(rows(SCENARIOS[name], everything[name]))
    print(table(parts))
    if given.json:
        given.json.write_text(json.dumps(everything, indent=1))
    return int(any(line[-1] in ("OVER", "FAILED") for lines in parts.values() for line in lines))


if __name__ == "__main__":
    sys.exit(main())
