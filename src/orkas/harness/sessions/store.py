"""The file half of a session: one JSONL file that grows by whole records and is rewritten only as a whole.

Beside ``<id>.jsonl`` may lie ``<id>.jsonl.damaged`` (fragments that were cut away), ``<id>.jsonl.original`` (a damaged
file as it was before its first rewrite), ``<id>.jsonl.archive`` (records that a rewrite left out) and ``<id>.files``.
"""

from __future__ import annotations

import base64
import itertools
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from orkas.harness.sessions import archive
from orkas.harness.sessions.inbox import Inbox
from orkas.harness.sessions.recovery import VERSION, Record, Recovered, records_of, recover, sound
from orkas.infra import files
from orkas.infra.errors import SessionMissing, SessionUnreadable, StorageError
from orkas.infra.messages import Message, Text, ToolMessage, encode, loads, now

__all__ = ["HEAD", "LINE_CAP", "SPILL_CAP", "JsonlStore", "Stored", "clip", "files_of", "read_bytes", "woven"]

LINE_CAP = 4 * 1024 * 1024
"""No line that we write is longer, in bytes. A model's longest answer is far below it."""
SPILL_CAP = 50_000
"""A tool result longer than this, in characters, is kept in a file of its own and previewed in its record."""
HEAD, _TAIL = 8_000, 4_000
"""Characters of a clipped text that stay: at its beginning, at its end."""


def clip(text: str, where: str) -> str:
    """Head and tail of a long text with one line between them that says what is missing and where it is."""
    left_out = len(text) - HEAD - _TAIL
    note = f"[… {left_out:,} of {len(text):,} characters left out here; {where} …]"
    return f"{text[:HEAD]}\n{note}\n{text[-_TAIL:]}"


def files_of(path: Path) -> Path:
    """The folder of spilled results and pictures that belongs to a session file."""
    return path.with_name(path.name.removesuffix(".jsonl") + ".files")


def read_bytes(path: Path) -> bytes:
    """The whole session file.

    Raises:
        SessionMissing: there is nothing of that name.
        SessionUnreadable: there is, and it is no file or cannot be read.
    """
    with _reading(path) as file:
        return file.readall()


@contextmanager
def _reading(path: Path) -> Iterator[FileIO]:
    """The session file, open to be read. Raises as ``read_bytes`` does."""
    name = path.name.removesuffix(".jsonl")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SessionUnreadable(
                f"session {name!r} cannot be read: {str(path)!r} is not a file",
                hint="move it away, or use another session name",
            )
        with files.opened(path) as file:
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise SessionMissing(f"there is no session {name!r}", hint="list them with: orkas session list") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SessionUnreadable(
            f"session {name!r} cannot be read: {reason}",
            hint=f"check the owner and the mode of {str(path)!r}; nothing was changed",
        ) from error


Stored: TypeAlias = tuple[Record, Message | None]
"""A record of the file, and the object in memory that stands for the message it holds."""


class JsonlStore:
    """One session file. ``load`` before anything else; hold the session's lock before ``append`` or ``rewrite``."""

    def __init__(self, path: Path, *, id: str, ops: files.Ops = files.OPS) -> None:
        self.path = path
        self._id = id
        self._ops = ops
        self.found = Recovered()
        self._loaded = 0  # bytes of the file
        self._file = files.AppendFile(path, ops=ops)
        self._stored: list[Message] = []  # one for each message record of the file, in its order

    def load(self, *, missing_ok: bool = False) -> Recovered:
        """Read the file. Nothing is written, whatever is found.

        Raises:
            SessionMissing, SessionUnreadable: see ``read_bytes``.
        """
        try:
            with _reading(self.path) as file:
                found = sound(file)
                if found is None:
                    file.seek(0)
                    found = recover(file.readall())
        except SessionMissing:
            if not missing_ok:
                raise
            found = Recovered()
        self.found = found
        self._loaded = found.end + len(found.torn)
        if self._loaded > LINE_CAP:
            found.messages = [_bounded(m) for m in found.messages]
        self._stored = list(found.messages)
        self._file = files.AppendFile(self.path, end=found.end, stray=len(found.torn), ops=self._ops)
        return found

    def inbox(self) -> Inbox:
        """What waits beside the file as it was loaded, without what is in it already."""
        return Inbox(self._beside(".inbox"), (m.id for m in self._stored if m.id), ops=self._ops)

    def append(self, messages: Sequence[Message], lines: Sequence[bytes]) -> None:
        """Add records in one write; ``lines`` are the messages encoded, newline included. Durable when it returns.

        A fragment at the end of the file is first set aside, a missing newline is put in.

        Raises:
            StorageError: none of them was saved; the call may be repeated.
        """
        self._set_aside()
        start = b"" if self.found.complete else b"\n"
        if self._file.end == 0:
            start = self._header()
        self._file.append(b"".join((start, *lines)))
        self.found.complete = True
        self._stored.extend(messages)

    def rewrite(self, messages: Sequence[Message], *, keep: bool = True, summary: str = "") -> Path | None:
        """Make ``messages`` the whole history. Records we do not know stay; kept messages keep their very bytes.

        What is left out goes to the archive first, if ``keep``. ``summary``: record id of the message that stands for
        it; ``uncompact`` can then take it back. Of a damaged file a copy is kept; its path is returned.

        Raises:
            StorageError: the file is as it was. Always so for a file of a newer version.
        """
        self.check_version()
        records = self._records()
        data = self._compose(records, messages)
        original = self.keep_original() if self.found.damaged else None
        if keep:
            self._archive(records, messages, summary)
        self._replace(data, messages)
        return original

    def uncompact(self, summary: str) -> list[Message] | None:
        """Put back what that summary stands for, byte for byte, with what was added since behind it.

        Returns the new history, not yet paired; None: nothing is known of that summary.

        Raises:
            StorageError: the file is as it was. Always so for a file of a newer version.
        """
        self.check_version()
        try:
            found = archive.find(files.read(self._beside(".archive")), summary)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise StorageError(f"the archive cannot be read: {error.strerror}", hint="nothing was changed") from error
        if found is None:
            return None
        records = self._records()
        present = [Record(r.raw, m) for r, m in records if m is not None]
        old = archive.restored(*found, present)
        messages = [r.message for r in old if r.message is not None]
        data = self._compose(records, messages, {id(r.message): r.raw for r in old})
        self._archive(records, messages)
        self._replace(data, messages)
        return messages

    def fill(self, messages: Sequence[Message], records: Sequence[Stored]) -> None:
        """Make the file of a new session: ``messages``, with the very bytes of those that ``records`` hold, and the
        records of other types among them.

        Raises:
            StorageError: there still is no file.
        """
        self._replace(b"\n".join([self._header().rstrip(), *woven(records, messages), b""]), messages)

    def stored(self) -> list[Stored]:
        """The records of the file as it was loaded, without its header.

        Raises:
            StorageError: it was rewritten since.
        """
        records = self._paired(records_of(read_bytes(self.path)[: self._loaded]))
        return [(r, m) for r, m in records if m is not None or loads(r.raw)["type"] != "session"]

    def _replace(self, data: bytes, messages: Sequence[Message]) -> None:
        self._file.close()  # Windows does not replace an open file
        files.replace(self.path, data, ops=self._ops)
        self._file = files.AppendFile(self.path, end=len(data), ops=self._ops)
        self.found = Recovered(header=self.found.header, end=len(data))
        self._stored = list(messages)

    def check_version(self) -> None:
        """Raise StorageError for a file of a newer version: it is added to, never rewritten."""
        if self.found.newer:
            raise StorageError(
                f"session {self._id!r} was written by a newer release and is not rewritten",
                hint="update Orkas, or continue in a fork of the session",
            )

    def keep_original(self) -> Path:
        """A copy of the file as it is, beside it; made once for the same bytes. Returns its path.

        Raises:
            StorageError: it cannot be made.
        """
        data = read_bytes(self.path)
        for n in itertools.count(1):
            path = self._beside(".original" + (f"-{n}" if n > 1 else ""))
            if not path.exists():
                files.replace(path, data, ops=self._ops)
                return path
            if read_bytes(path) == data:
                return path
        raise AssertionError

    def close(self) -> None:
        self._file.close()

    def _header(self) -> bytes:
        header = {"type": "session", "version": VERSION, "id": self._id, "created": now()}
        self.found.header = header
        return encode(header) + b"\n"

    def _set_aside(self) -> None:
        """Keep the fragment that the next append will cut away."""
        if not (torn := self.found.torn):
            return
        note: dict[str, Any] = {"line": self.found.damaged[-1], "set_aside": now()}
        try:
            note["text"] = torn.decode()
        except UnicodeDecodeError:
            note["base64"] = base64.b64encode(torn).decode()
        files.append(self._beside(".damaged"), encode(note) + b"\n", ops=self._ops)
        self.found.torn = b""

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _records(self) -> list[Stored]:
        """The records of the file, each with the object that stands for it in memory."""
        return self._paired(records_of(read_bytes(self.path)) if self._file.end or self.found.torn else [])

    def _paired(self, records: Sequence[Record]) -> list[Stored]:
        mine = iter(self._stored)
        if sum(r.message is not None for r in records) != len(self._stored):
            raise StorageError(
                f"{self.path.name!r} was changed by another program while it was open here",
                hint="close it here and open it again",
            )
        return [(r, None if r.message is None else next(mine)) for r in records]

    def _compose(
        self,
        records: Sequence[Stored],
        messages: Sequence[Message],
        raws: Mapping[int, bytes] = MappingProxyType({}),
    ) -> bytes:
        """The new content, as ``woven``, behind the header of the old one."""
        heads = (n for n, (r, m) in enumerate(records) if m is None and loads(r.raw)["type"] == "session")
        head = next(heads, None)
        first = self._header().rstrip() if head is None else records[head][0].raw
        rest = [record for n, record in enumerate(records) if n != head]
        return b"\n".join([first, *woven(rest, messages, raws), b""])

    def _archive(self, records: Sequence[Stored], messages: Sequence[Message], summary: str = "") -> None:
        """Save what is about to leave the file."""
        staying = {id(m) for m in messages}
        leaving = [r.raw for r, m in records if m is not None and id(m) not in staying]
        mark = archive.mark_of([m for _, m in records if m is not None], messages, summary) if summary else None
        if leaving:
            files.append(self._beside(".archive"), archive.block(leaving, mark), ops=self._ops)


def woven(
    records: Sequence[Stored], messages: Sequence[Message], raws: Mapping[int, bytes] = MappingProxyType({})
) -> list[bytes]:
    """The lines of a history: messages that ``records`` hold keep their very bytes, and other records their place
    among them.

    ``raws``: the bytes of messages that come from elsewhere, by identity.
    """
    place = {id(m): i for i, (_, m) in enumerate(records) if m is not None}
    others = deque((i, r.raw) for i, (r, m) in enumerate(records) if m is None)
    lines: list[bytes] = []
    for message in messages:
        i = place.get(id(message))
        while others and i is not None and others[0][0] < i:
            lines.append(others.popleft()[1])
        lines.append(records[i][0].raw if i is not None else raws.get(id(message)) or encode(message))
    return lines + [raw for _, raw in others]


def _bounded(message: Message) -> Message:
    """A result of a size that we would never write, as a preview; everything else as it is."""
    if type(message) is not ToolMessage or sum(len(b.text) for b in message.content if type(b) is Text) <= LINE_CAP:
        return message
    where = "the whole result is in the session file"
    return replace(
        message,
        content=[
            replace(b, text=clip(b.text, where)) if type(b) is Text and len(b.text) > SPILL_CAP else b
            for b in message.content
        ],
    )
