"""Finding a pattern in the pieces of files: as functions, and as a program of its own.

Python's ``re`` cannot be interrupted and holds the interpreter while it looks: one unlucky pattern would freeze the
whole process. So a pattern with regular-expression syntax runs in a child that can be killed. Uses the standard
library only: the child starts without site packages. Wire form: a line with the pattern and flags as JSON, then for
each piece its length (4 bytes) and UTF-8 text; back comes a length and JSON ``[[line, text], …]``.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from typing import IO

MAX_SHOWN = 240
"""Characters of a line that is shown."""
_LENGTH = struct.Struct(">I")
_WHOLE_PIECE_DIFFERS = re.compile(r"\(\?[=!<]|\\[AZz]")


def compile_pattern(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """Raises re.error (and OverflowError, RecursionError for monsters)."""
    return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))


def matches(pattern: re.Pattern[str], text: str, limit: int) -> list[tuple[int, str]]:
    """Lines with a match: number within the text, counted from 0, and the line, cut around the match."""
    text = text.replace("\r\n", "\n")
    if not _WHOLE_PIECE_DIFFERS.search(pattern.pattern) and not pattern.search(text):
        return []
    found = []
    for number, line in enumerate(text.removesuffix("\n").split("\n")):  # after the last line end is no line
        if match := pattern.search(line):
            found.append((number, _cut(line, match)))
            if len(found) >= limit:
                break
    return found


def _cut(line: str, match: re.Match[str]) -> str:
    if len(line) <= MAX_SHOWN:
        return line
    start = max(0, min(match.start() - 60, len(line) - MAX_SHOWN))
    end = start + MAX_SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    head = pipe.read(4)
    return pipe.read(_LENGTH.unpack(head)[0]) if len(head) == 4 else None


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    order = json.loads(source.readline())
    pattern = compile_pattern(order["pattern"], ignore_case=order["ignore_case"])
    while (piece := receive(source)) is not None:
        send(sink, json.dumps(matches(pattern, piece.decode("utf-8", "surrogatepass"), order["limit"])).encode())


if __name__ == "__main__":
    main()
