"""The folder of all sessions: what can be done with a session that nobody is talking in.

A message is named by its number: its place, from 1, in the paired history.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from orkas.harness.pairing import cut_points, is_clean_cut
from orkas.harness.sessions.healing import heal
from orkas.harness.sessions.names import fresh_name, locate, path_of, sessions_folder, usable
from orkas.harness.sessions.page import to_html
from orkas.harness.sessions.recovery import recover
from orkas.harness.sessions.session import Session
from orkas.harness.sessions.store import JsonlStore, Stored, files_of, woven
from orkas.harness.sessions.transcript import to_markdown
from orkas.infra import files
from orkas.infra.errors import SessionUnreadable, StorageError, UsageError
from orkas.infra.home import home
from orkas.infra.known import hide
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    UserMessage,
    encode,
    new_name,
    now,
    seconds,
    text_of,
    well_formed,
)

__all__ = [
    "Hit", "Repair", "SessionInfo", "check", "delete", "export", "fork", "import_file", "last", "list_sessions",
    "owner_of", "repair", "rewind", "search",
]  # fmt: skip

_HEAD_BYTES, _TAIL_BYTES = 32 * 1024, 16 * 1024
_SKEW = 60.0  # seconds by which a time may lie in the future and still be believed
_TRIES = 3
_TITLE = 80
_BESIDE = re.compile(r"(.+?)\.(?:jsonl\.(?:damaged|archive|inbox|original(?:-\d+)?)|inbox)", re.DOTALL)


class SessionInfo(msgspec.Struct):
    """One line of the list."""

    id: str
    title: str
    """The beginning of the first thing the user said, or why the file cannot be read or used; empty if the user spoke
    far from the start of the file."""
    updated: str
    """UTC, ISO 8601. Empty when neither the records nor the file tell a believable time."""
    bytes: int
    model: str
    """The model that wrote last, as far as the end of the file tells."""


class Hit(msgspec.Struct):
    """A message in which a search found its words."""

    session: str
    message: int
    """Its number; 0 for an archived one, which has none any more."""
    role: str
    text: str
    """The words with some of what stands around them, on one line."""
    archived: bool = False
    """A compaction or a rewind took the message out of the history; it is kept in the archive beside it."""


class Repair(msgspec.Struct):
    """What ``repair`` did. ``original``: where the file as it was is kept; None when nothing had to be done."""

    path: str
    rewritten: bool
    original: str | None
    repaired: dict[str, int]
    damaged_lines: list[int]


def list_sessions() -> list[SessionInfo]:
    """All sessions, newest first. Reads only the head and the tail of each file."""
    now_s = time.time()
    try:
        with os.scandir(sessions_folder()) as entries:
            paths = [Path(e.path) for e in entries if e.name.endswith(".jsonl") and e.name[0] != "." and _is_file(e)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"the sessions cannot be listed: {error.strerror}", hint="check ORKAS_HOME") from error
    found = [item for path in paths if (item := _info(path, now_s)) is not None]
    found.sort(key=lambda item: (-item[0], -item[1], item[2].id))
    return [info for _, _, info in found]


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


def last() -> str | None:
    """The id of the newest session, the one to continue; None if there is none."""
    return next((info.id for info in list_sessions() if usable(info.id)), None)


def check(path: str | Path) -> dict[str, Any]:
    """What a session file holds and what is wrong with it, as plain data; never writes.

    Raises:
        SessionMissing, SessionUnreadable: there is nothing to check, or it is a file of another kind.
    """
    session = Session.read(path)
    _must_be_session(session)
    loaded = session.loaded
    names = ("role", "content", "tool_call_id", "is_error", "synthetic")
    return {
        "messages": [{k: r[k] for k in names if k in r} for r in session.records()],
        "damaged_lines": loaded.damaged,
        "repaired": {"synthesized": loaded.synthesized, "dropped": loaded.dropped, "reordered": loaded.reordered},
        "warnings": session.warnings,
    }


def _must_be_session(session: Session) -> None:
    """A file without a single message that does not begin as JSON lines do was never one of ours."""
    if session.messages or session.path is None:
        return
    with session.path.open("rb") as file:
        start = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip(b"\0 \t\r\n")
    if start and not start.startswith(b"{"):
        raise SessionUnreadable(f"{str(session.path)!r} is no session file", hint="a session file holds JSON lines")


def repair(path: str | Path) -> Repair:
    """Rewrite a session file as it reads, paired and without damage; a copy of what it was is kept beside it.

    Raises:
        SessionLocked: it is open.
        StorageError: it was written by a newer release, or cannot be written. It is unchanged.
    """
    path = locate(path)
    name = path.name.removesuffix(".jsonl")
    with files.Lock(path.with_name(f"{name}.lock"), name):
        store = JsonlStore(path, id=name)
        found = store.load()
        healed = heal(found, path)
        counts = {"synthesized": healed.synthesized, "dropped": healed.dropped, "reordered": healed.reordered}
        done = Repair(str(path), False, None, counts, found.damaged)
        if healed.changed or found.damaged or found.duplicates:
            store.check_version()
            done.original = str(store.keep_original())
            store.rewrite(healed.messages, keep=False)
            done.rewritten = True
    return done


def export(name: str | Path, format: Literal["md", "html", "jsonl"]) -> str:
    """The whole conversation as one text, without the secrets that this process knows. ``html`` is one file that loads
    nothing from anywhere.

    Raises:
        UsageError: there is no such format.
        SessionMissing, SessionUnreadable: there is no such session.
    """
    if format not in ("md", "html", "jsonl"):
        raise UsageError(f"there is no export format {format!r}", hint="use md, html or jsonl")
    if format == "jsonl":
        session, records = _with_records(name)
        header = {"type": "session", "version": 1, "id": session.id, "created": now()}
        return hide(b"\n".join([encode(header), *woven(records, session.messages), b""]).decode(errors="replace"))
    session = Session.read(name)
    if format == "md":
        return hide(to_markdown(session.id, session.messages))
    return hide(to_html(session.id, session.messages, session.media))


def _with_records(where: str | Path) -> tuple[Session, list[Stored]]:
    """A session, and the records of its file at the same moment."""
    for _ in range(_TRIES):
        session = Session.read(where)
        with suppress(StorageError):  # rewritten in between by the one who has it open
            return session, session.stored()
    session = Session.read(where)
    return session, session.stored()


def import_file(path: str | Path, *, ops: files.Ops = files.OPS) -> str:
    """A session file from elsewhere as a new session, repaired. Returns its id. ``ops``: as for ``Session.open``.

    Raises:
        SessionMissing, SessionUnreadable: there is no such file.
        UsageError: it holds not a single message, or its folder of files is a link.
    """
    folder = files_of(Path(path))
    if folder.is_symlink():  # it could lead to any file of this machine
        raise UsageError(
            f"{folder.name!r}, the files of the session, is a link, which an import does not follow",
            hint="put a copy of the folder in its place, or move the link away",
        )
    source, records = _with_records(Path(path))
    if not source.messages:
        raise UsageError(f"{str(path)!r} holds no messages", hint="give the path of a session file (JSON lines)")
    return _copy(source, records, source.messages, ops)


def fork(name: str, at: int | None = None, *, ops: files.Ops = files.OPS) -> str:
    """A new session with the messages 1 to ``at`` (default: all). Returns its id. ``ops``: as for ``Session.open``.

    Raises:
        UsageError: there is no such message, or a tool round would be cut in two.
        SessionMissing, SessionUnreadable: there is no such session.
    """
    source, records = _with_records(path_of(name))
    messages = source.messages[: _cut(source, at)]
    if len(messages) < len(source.messages):
        records = _up_to(records, messages)
    return _copy(source, records, messages, ops)


def rewind(name: str, to: int, *, ops: files.Ops = files.OPS) -> None:
    """Drop all messages after number ``to``; they are kept in the archive beside the session. 0 drops all.

    Raises:
        UsageError: there is no such message, or a tool round would be cut in two.
        SessionMissing, SessionUnreadable, SessionLocked, StorageError: the session is as it was.
    """
    with Session.open(name, create=False, ops=ops) as session:
        at = _cut(session, to)
        session.check_version()
        session.rewrite(session.messages[:at])


def delete(name: str) -> Path:
    """Move a session with all that belongs to it into the trash under the home folder; returns the place.

    Raises:
        SessionMissing: there is none.
        SessionLocked: it is open.
        StorageError: it cannot be moved.
    """
    path = path_of(name)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    place = home() / "trash" / f"{name}-{stamp}-{new_name()[:4]}"
    with files.Lock(path.with_name(f"{name}.lock"), name):
        files.make_folder(place)
        try:
            for item in [*_belongings(path), path]:  # the session itself last: until then it is still there
                shutil.move(item, place / item.name)
        except OSError as error:
            raise StorageError(
                f"session {name!r} could not be moved to the trash: {error.strerror}",
                hint=f"see what is in {str(place)!r}",
            ) from error
    return place


def search(query: str) -> Iterator[Hit]:
    """All messages of all sessions that hold the words, in any case; newest session first, then in order.

    What is archived comes behind what is still in the history of its session.

    Raises:
        UsageError: there is nothing to look for.
    """
    wanted = query.casefold()
    if not wanted.strip():
        raise UsageError("there is nothing to search for", hint="give a word or two")
    return (hit for info in list_sessions() for hit in _hits(info.id, wanted))


def _hits(name: str, wanted: str) -> Iterator[Hit]:
    try:
        path = path_of(name)
        messages = Session.read(path).messages
    except Exception:  # noqa: BLE001 - gone or unreadable, as the list tells: the others can still be searched
        return
    for number, message in enumerate(messages, 1):
        if found := _around(message, wanted):
            yield Hit(name, number, _role(message), found)
    there = {m.id for m in messages if m.id}
    for message in _archived(path):
        if message.id not in there and (found := _around(message, wanted)):
            yield Hit(name, 0, _role(message), found, archived=True)


def _archived(path: Path) -> list[Message]:
    """What was taken out of a history, as far as it can be read."""
    with suppress(OSError):
        return recover(files.read(path.with_name(path.name + ".archive"))).messages
    return []


def _around(message: Message, wanted: str) -> str:
    """Where the words stand in a message; empty: nowhere."""
    text = text_of(message)
    if (at := text.casefold().find(wanted)) < 0:
        return ""
    start = max(0, at - 60)
    return " ".join(text[start : at + len(wanted) + 100].split())


def _role(message: Message) -> str:
    if isinstance(message, UserMessage):
        return "user"
    return "assistant" if isinstance(message, AssistantMessage) else "tool"


def _cut(session: Session, number: int | None) -> int:
    """The number as a clean boundary of the history."""
    messages = session.messages
    if number is None:
        return len(messages)
    if not 0 <= number <= len(messages):
        raise UsageError(
            f"session {session.id!r} has no message {number}", hint=f"the messages are numbered 1 to {len(messages)}"
        )
    if not is_clean_cut(messages, number):
        points = cut_points(messages)
        before = max(p for p in points if p < number)
        after = min(p for p in points if p > number)
        raise UsageError(
            f"message {number} lies inside a round of tool calls, which stays whole", hint=f"use {before} or {after}"
        )
    return number


def _up_to(records: list[Stored], messages: list[Message]) -> list[Stored]:
    """The records up to the last of these messages."""
    kept = {id(m) for m in messages}
    last = max((n for n, (_, m) in enumerate(records, 1) if id(m) in kept), default=0)
    return records[:last]


def _copy(source: Session, records: list[Stored], messages: list[Message], ops: files.Ops) -> str:
    """A new session with these messages and the files they name."""
    with Session.open(fresh_name(), ops=ops) as copy:
        for file in _files_named(messages):
            _copy_file(source, copy, file, ops)
        if messages:
            copy.fill(messages, records)
        return copy.id


def _files_named(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        for block in message.content:
            if isinstance(block, Text | Image) and block.file:
                yield block.file


def _copy_file(source: Session, copy: Session, file: str, ops: files.Ops) -> None:
    try:
        data = source.media(file)
    except StorageError:
        return  # it is missing in the source too, and reading it will say so
    assert copy.files is not None
    files.replace(copy.files / file, data, ops=ops)


def owner_of(name: str) -> str | None:
    """The id of the session to which a file of this name, beside its own, belongs; None: it is no such file."""
    found = _BESIDE.fullmatch(name)
    return found[1] if found else None


def _belongings(path: Path) -> list[Path]:
    """What lies beside a session file and belongs to it."""
    beside = [p for p in path.parent.iterdir() if owner_of(p.name) == _id(path)]
    return beside + ([files_of(path)] if files_of(path).exists() else [])


_Line = tuple[float, int, SessionInfo]
"""Believable time, time of the file in ns, the line of the list."""


def _info(path: Path, now_s: float) -> _Line | None:
    """What is known of a session; None when its file is gone. One bad file never hides the others."""
    try:
        return _look(path, now_s)
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever is wrong with this file, the other sessions are to be listed
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        size, changed_ns = 0, 0
        with suppress(OSError):
            status = path.stat()
            size, changed_ns = status.st_size, status.st_mtime_ns
        updated = _believable([changed_ns / 1e9], now_s)
        title = _shown(f"(cannot be read: {reason})")
        return updated, changed_ns, SessionInfo(_id(path), title, _stamp(updated), size, "")


def _look(path: Path, now_s: float) -> _Line:
    with os.fdopen(files.OPS.open(path, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        head = file.read(_HEAD_BYTES)
        tail = b""
        if status.st_size > len(head):
            file.seek(max(len(head), status.st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    end = head.rfind(b"\n") + 1 if tail else len(head)
    first = recover(head[:end]).messages
    newest = recover(tail[tail.find(b"\n") + 1 :]).messages if tail else first
    updated = _believable([seconds(newest[-1].ts) if newest else 0.0, status.st_mtime], now_s)
    model = next((m.model for m in reversed(newest or first) if isinstance(m, AssistantMessage) and m.model), "")
    title = _title(first) or _title_of_cut(head[end:])
    if not usable(_id(path)):
        title = f"(cannot be used under this name: rename the file) {title}".rstrip()
    return updated, status.st_mtime_ns, SessionInfo(_id(path), title, _stamp(updated), status.st_size, model)


def _id(path: Path) -> str:
    return path.name.removesuffix(".jsonl")


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else ""


def _believable(times: list[float], now_s: float) -> float:
    """The first time that does not lie in the future. No single clock or field is trusted."""
    return next((t for t in times if 0 < t <= now_s + _SKEW), 0.0)


def _title(messages: list[Message]) -> str:
    for message in messages:
        if isinstance(message, UserMessage) and message.origin is None and (text := text_of(message).strip()):
            return _shown(text)
    return ""


def _title_of_cut(record: bytes) -> str:
    """The beginning of what the user said in a record of which only the beginning was read."""
    found = _SPEAKING.match(record) and _SAID.search(record)
    if not found:
        return ""
    said = found[1].decode("utf-8", "ignore")
    with suppress(ValueError):
        return _shown(well_formed(json.loads(f'"{said}"', strict=False)))
    return ""


_SPEAKING = re.compile(rb'\s*\{\s*"role"\s*:\s*"user"')
_SAID = re.compile(rb'"(?:text|content)"\s*:\s*"((?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u]){1,4000})')


def _shown(text: str) -> str:
    """The beginning of a text on one line."""
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return line if len(line) <= _TITLE else line[: _TITLE - 1] + "…"
