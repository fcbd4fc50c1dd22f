"""``orkas session``: conversations on disk, listed, shown, checked, and never lost."""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from orkas.infra.amounts import counted
from orkas.infra.errors import SessionMissing
from orkas.infra.terminal import is_tty, label, size_text
from orkas.product.cli import compacting, out, parsing

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas session",
        description="Conversations on disk. ID is a session's name, N a number that `show` prints.",
    )
    add = parsing.choose(own)
    add("list", _list, "list the conversations, newest first", example="orkas session list --json")
    for name, do, about in (
        ("show", _show, "print a conversation, a number before each message"),
        ("delete", _delete, "put a conversation into the trash, and say where it is"),
    ):
        one = add(name, do, about, example=f"orkas session {name} trip")
        one.add_argument("id", metavar="ID")
        if name == "show":
            one.add_argument("--full", action="store_true", help="on a terminal: long results whole, too")
    for name, do, about in (
        ("check", _check, "say what is wrong with a session file and what would be sent of it; never writes"),
        ("repair", _repair, "rewrite a damaged session file; the original is kept beside it"),
        ("import", _import, "take a session file in as a new conversation"),
    ):
        add(name, do, about, example=f"orkas session {name} trip.jsonl").add_argument("file", metavar="FILE")
    export = add(
        "export",
        _export,
        "print a conversation for people or programs",
        example="orkas session export trip --format md",
    )
    export.add_argument("id", metavar="ID")
    export.add_argument("--format", choices=("md", "html", "jsonl"), default="md", help="default: md")
    fork = add(
        "fork",
        _fork,
        "begin a new conversation with the messages of an old one",
        example="orkas session fork trip --at 4",
    )
    fork.add_argument("id", metavar="ID")
    fork.add_argument("--at", metavar="N", type=_number, help="the last message taken over (default: all)")
    rewind = add(
        "rewind",
        _rewind,
        "go back to a message; what came after it is kept beside",
        example="orkas session rewind trip --to 4",
    )
    rewind.add_argument("id", metavar="ID")
    rewind.add_argument("--to", metavar="N", type=_number, required=True, help="the last message that stays")
    add(
        "undo", _undo, "take back what the last turn did to files; what changed since is left and named",
        example="orkas session undo trip",
    ).add_argument("id", metavar="ID")  # fmt: skip
    compacting.add_to(add)
    add("search", _search, "find words in all conversations", example="orkas session search parser").add_argument(
        "query", metavar="QUERY"
    )
    return own


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a message; `orkas session show ID` prints them")
    return int(text)


def _list(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    found = shelf.list_sessions()
    if options.json:
        out.data(found)
    elif not found:
        out.note("there are no conversations yet; `orkas run` begins one")
    else:
        out.table(
            [
                (str(i.id), str(i.updated)[:16].replace("T", " "), size_text(i.bytes), i.model or "-", i.title or "")
                for i in found
            ]
        )
    return 0


def _undo(options: argparse.Namespace) -> int:
    from orkas.harness.sessions.session import Session
    from orkas.harness.undo.restore import undo
    from orkas.infra.errors import SessionLocked
    from orkas.infra.files import holder
    from orkas.tools.changeset import heal

    session = Session.read(options.id)
    if session.path is not None and (owner := holder(session.path.with_suffix(".lock"))):
        raise SessionLocked(session.id, owner)
    for text in heal():
        out.warning(text)
    done = undo(session.id)
    if options.json:
        out.data(done)
    else:
        out.lines(done.lines)
    return int(bool(done.refused))


def _show(options: argparse.Namespace) -> int:
    from orkas.harness.sessions.session import Session

    session = Session.read(options.id)
    for text in session.warnings:
        out.warning(str(text))
    if options.json:
        out.data([{"n": n, **record} for n, record in enumerate(session.records(), FIRST)])
        return 0
    for n, message in enumerate(session.messages, FIRST):
        _show_message(n, message, folded=is_tty(sys.stdout) and not options.full)
    return 0


FOLDED = 40
"""Lines of a tool's result that a terminal is shown unless all are asked for."""


_LINE_END = re.compile(r"\r\n|\r|\n")
"""Also a lone carriage return: all that was said stays behind the indent, and none of it looks like a message."""
_WHOLE = 1 << 30


FIRST = 1
"""The number of the first message, as the shelf counts."""


def _show_message(n: int, message: Any, *, folded: bool) -> None:
    from orkas.infra.messages import Image, Text, ToolCall, ToolMessage

    who = "tool, failed" if isinstance(message, ToolMessage) and message.is_error else _role(message)
    out.line(f"[{n}] {who}")
    for block in message.content:
        match block:
            case Text():
                lines = _LINE_END.split(block.text.rstrip("\r\n"))
                most = FOLDED if folded and isinstance(message, ToolMessage) else len(lines)
                out.lines(f"    {line}" for line in lines[:most])
                if len(lines) > most:
                    out.line(f"    … {counted(len(lines) - most, 'more line')}; --full shows them")
            case ToolCall():
                from orkas.infra.messages import encode

                given = block.arguments_raw if block.arguments is None else encode(block.arguments).decode()
                out.line(f"    → {label(block.name)} {label(given or '', _WHOLE)}".rstrip())
            case Image():
                out.line(f"    ({label(block.media_type)})")


def _role(message: Any) -> str:
    if getattr(message, "origin", None) == "summary":
        return "summary of earlier messages"
    return {"UserMessage": "user", "AssistantMessage": "assistant", "ToolMessage": "tool"}[type(message).__name__]


def _check(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    found = shelf.check(_file(options.file))
    if options.json:
        out.data(found)
        return 0
    damaged = found["damaged_lines"]
    repaired = ", ".join(f"{count} {what}" for what, count in found["repaired"].items() if count)
    lines = f"{len(damaged)} damaged (line {_numbers(damaged)})" if damaged else "no damage"
    out.line(f"{counted(len(found['messages']), 'message')}; {lines}; {repaired or 'every call has its result'}")
    for text in found["warnings"]:
        out.warning(str(text))
    return 0


def _numbers(lines: list[int]) -> str:
    return ", ".join(map(str, lines)) if lines else "none"


def _repair(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    done = shelf.repair(_file(options.file))
    if options.json:
        out.data(done)
    else:
        out.line(f"rewritten; the file as it was is kept in {done.original}" if done.rewritten else "nothing to repair")
    return 0


def _file(given: str) -> Path | str:
    """What the user means by FILE: a path, or the name of a session.

    Raises:
        SessionMissing: it is a path, and no file is there.
    """
    from orkas.harness.sessions.names import locate

    path = Path(given)
    way = "give a session file, or a name from `orkas session list`"
    with suppress(OSError, ValueError):  # too long for a path, or a NUL in it: what reads it says so
        if path.is_dir() and given != path.name:
            raise SessionMissing(f"{given!r} is a folder", hint=way)
        if path.exists():
            return path
    if path.name != given or (given.endswith(".jsonl") and locate(given) == path):
        raise SessionMissing(f"there is no file {given!r}", hint=way)
    return given


def _export(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    text = shelf.export(options.id, options.format)
    if options.json:
        out.data({"id": options.id, "format": options.format, "text": text})
    elif options.format == "md":
        out.line(text.removesuffix("\n"))
    else:  # data: as it is, in UTF-8
        sys.stdout.buffer.write(text.removesuffix("\n").encode() + b"\n")
    return 0


def _import(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    path = _file(options.file)
    for text in shelf.check(path)["warnings"]:
        out.warning(f"the file that was given: {text}")
    return _say_id(shelf.import_file(path), options)


def _fork(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    return _say_id(shelf.fork(options.id, at=options.at), options)


def _say_id(id: str, options: argparse.Namespace) -> int:
    out.data({"id": id}) if options.json else out.line(id)
    return 0


def _rewind(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    shelf.rewind(options.id, options.to)
    if options.json:
        out.data({"id": options.id, "to": options.to})
    else:
        now = f"ends with message {options.to}" if options.to else "is empty"
        out.line(f"{options.id} {now} now; what was taken out is kept, and `orkas session search` finds it")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    kept = shelf.delete(options.id)
    out.data({"id": options.id, "kept": str(kept)}) if options.json else out.line(f"deleted; it lies in {kept}")
    return 0


def _search(options: argparse.Namespace) -> int:
    from orkas.harness.sessions import shelf

    hits = list(shelf.search(parsing.plain(options.query)))
    if options.json:
        out.data(
            [
                {"id": h.session, "n": h.message or None, "role": h.role, "text": h.text, "archived": h.archived}
                for h in hits
            ]
        )
    elif not hits:
        out.note(f"no conversation holds {options.query!r}")
    else:
        out.table([(h.session, "[archived]" if h.archived else f"[{h.message}]", h.text) for h in hits])
    return 0
