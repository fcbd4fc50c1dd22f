"""What the estimate costs: megabytes a second of text, and microseconds that the meter adds to one tool round.

    python bench/tokens/meter.py                      # no packages needed

Processor time, the best of five. A round is two messages: a reply that calls a tool, with the vendor's report, and a
result of 1,000 characters. It must cost the same behind 20 messages and behind 2,000.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from orkas.harness.context.budget import Meter  # noqa: E402
from orkas.infra.messages import (  # noqa: E402
    AssistantMessage,
    Message,
    ToolCall,
    Usage,
    tool_result,
    user_message,
)
from orkas.infra.tokens import estimate  # noqa: E402
from orkas.providers.base import CompletionParams, ModelInfo  # noqa: E402

TEXTS = {
    "English": "The file was read and every line of it was checked. ",
    "Chinese": "文件已经保存到磁盘,下次打开会话时可以继续之前的工作。",
    "code": "    def total(self, rows):\n        return sum(r.size for r in rows)\n",
    "base64": "d2hhdCBpcyB3cml0dGVuIGhlcmUgaXMgb2Ygbm8gY29uc2VxdWVuY2U",
}
LIMIT_US = 15.0
SLOWEST = 100.0


def cpu(work: Callable[[], object]) -> float:
    """Seconds, the best of five."""
    found = []
    for _ in range(5):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def rate(unit: str) -> float:
    text = unit * (1_000_000 // len(unit.encode()))
    return len(text.encode()) / cpu(lambda: estimate(text)) / 1e6


def per_round(before: int, rounds: int = 200) -> tuple[float, float]:
    """Microseconds of ``load`` and ``heard`` in one round, and those of the estimate of its result alone."""
    info = ModelInfo(context_window=200_000, max_output=8_000)
    best = []
    for _ in range(5):
        history: list[Message] = [user_message("hello") for _ in range(before)]
        params = CompletionParams(model="m", messages=history, system="Be brief.", max_output=8_000)
        meter = Meter()
        meter.vendor = "v"
        told = meter.load(params, info).messages
        steps = [_step(n, told) for n in range(rounds)]
        began = time.process_time()
        for reply, result in steps:
            meter.heard(params, reply)
            history += (reply, result)
            meter.load(params, info)
        best.append((time.process_time() - began) / rounds * 1e6)
    text = "The file was read; line 17 differs. " * 28
    return min(best), cpu(lambda: [estimate(text) for _ in range(1_000)]) * 1e3


def _step(n: int, told: int) -> tuple[AssistantMessage, Message]:
    """The n-th reply and result; a vendor that counts about as we do."""
    call = ToolCall(id=str(n), name="t", arguments={"n": n})
    reply = AssistantMessage([call], "v/m", usage=Usage(told + 270 * n, 20))
    return reply, tool_result(str(n), f"{n:06d} " + "The file was read; line 17 differs. " * 27 + "...........")


def main() -> int:
    rates = {kind: rate(unit) for kind, unit in TEXTS.items()}
    print("  ".join(f"{kind} {found:.0f} MB/s" for kind, found in rates.items()))
    rounds = {before: per_round(before) for before in (20, 2_000)}
    for before, (whole, text) in rounds.items():
        print(f"behind {before:,} messages: {whole:.1f} us a round, of which {text:.1f} us are the text of the result")
    return min(rates.values()) < SLOWEST or max(whole for whole, _ in rounds.values()) > LIMIT_US


if __name__ == "__main__":
    sys.exit(main())
