"""What a compaction took out of a history, and how it comes back.

Before the session file is replaced, the records that leave it are appended to ``<id>.jsonl.archive`` behind a mark.
The mark of a compaction says where they stood, so that the newest compaction can be taken back exactly. A block whose
summary is not in the session file (the process died in between, or the block was taken back) is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from orkas.harness.sessions.recovery import Record
from orkas.infra.errors import StorageError
from orkas.infra.messages import Message, UserMessage, decode_message, encode, now

__all__ = ["Compacted", "block", "find", "mark_of", "restored", "summary_of"]


class Compacted(msgspec.Struct, frozen=True):
    """The mark of one compaction."""

    summary: str
    """Record id of the message that stands for those left out."""
    before: int
    """Messages the file had."""
    kept: list[tuple[int, str]]
    """Place in the old file and record id of each message that stayed."""
    made: list[str]
    """Record ids of what was new, the summary included."""


def summary_of(messages: Sequence[Message]) -> UserMessage | None:
    """The summary that a history begins with."""
    first = messages[0] if messages else None
    return first if type(first) is UserMessage and first.origin == "summary" and first.id else None


def mark_of(old: Sequence[Message], new: Sequence[Message], summary: str) -> Compacted:
    """What is to be remembered of replacing ``old`` by ``new``; the same object means the same message."""
    staying, known = {id(m) for m in new}, {id(m) for m in old}
    return Compacted(
        summary,
        len(old),
        [(place, m.id) for place, m in enumerate(old) if id(m) in staying],
        [m.id for m in new if id(m) not in known],
    )


def block(raws: Sequence[bytes], mark: Compacted | None) -> bytes:
    """The lines that the archive gets for records which leave the file."""
    head: dict[str, Any] = {"type": "archived", "ts": now(), "records": len(raws)}
    if mark is not None:
        head["compacted"] = mark
    return b"\n".join([encode(head), *raws, b""])


def find(data: bytes, summary: str) -> tuple[Compacted, list[Record]] | None:
    """The newest whole block of that summary, with the records it holds.

    Raises:
        StorageError: there is such a block and it is damaged.
    """
    found = None
    for mark, lines in _blocks(data):
        if mark.get("compacted", {}).get("summary") == summary:
            found = mark, lines
    if found is None:
        return None
    damaged = StorageError("the archive of this session is damaged", hint="the session itself is whole and unchanged")
    try:
        mark = msgspec.convert(found[0]["compacted"], Compacted)
        records = [Record(line, decode_message(line)) for line in found[1]]
    except (ValueError, RecursionError):
        raise damaged from None
    kept = {place for place, _ in mark.kept if 0 <= place < mark.before}
    if len(kept) != len(mark.kept) or len(records) != mark.before - len(kept) or any(not r.message for r in records):
        raise damaged
    return mark, records


def restored(mark: Compacted, archived: Sequence[Record], present: Sequence[Record]) -> list[Record]:
    """The records before that compaction, followed by those that came since. What was rewound since stays away."""
    made = set(mark.made)
    current = [r for r in present if r.message is not None and r.message.id not in made]
    by_id = {r.message.id: r for r in current if r.message is not None and r.message.id}
    nameless = iter([r for r in current if r.message is not None and not r.message.id])
    kept = {place: by_id.get(name) if name else next(nameless, None) for place, name in mark.kept}
    taken = {id(r) for r in kept.values()}
    left = iter(archived)
    old = [kept[place] if place in kept else next(left) for place in range(mark.before)]
    return [r for r in old if r is not None] + [r for r in current if id(r) not in taken]


def _blocks(data: bytes) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Each mark with the lines behind it, oldest first; a block that was cut short has fewer than it promises."""
    mark: dict[str, Any] | None = None
    lines: list[bytes] = []
    for line in data.split(b"\n"):
        if line.startswith(b'{"type":"archived"'):
            if mark is not None:
                yield mark, lines
            mark, lines = _mark(line), []
        elif mark is not None and line:
            lines.append(line)
    if mark is not None:
        yield mark, lines


def _mark(line: bytes) -> dict[str, Any] | None:
    try:
        mark = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return mark if isinstance(mark, dict) and isinstance(mark.get("compacted", {}), dict) else None
