"""The history of one conversation, in memory and, if it has a name, on disk.

What is appended is durable when the call returns, and memory and disk never tell different stories: after a failed
save the unsaved messages wait in memory, in order, and go first with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from orkas.harness.outcome import mark
from orkas.harness.pairing import cut_points, is_paired, repair, speaks, turn_start
from orkas.harness.sessions.archive import Compacted, mark_of, restored, summary_of
from orkas.harness.sessions.attachments import Attachments
from orkas.harness.sessions.backlog import Backlog, in_writer, line_of
from orkas.harness.sessions.draft import Draft, Round, place
from orkas.harness.sessions.healing import heal
from orkas.harness.sessions.inbox import Inbox
from orkas.harness.sessions.loading import Loaded, open_at_tail, warnings_of
from orkas.harness.sessions.names import find, locate, missing, sessions_folder, valid_id
from orkas.harness.sessions.recovery import Record
from orkas.harness.sessions.store import JsonlStore, Stored, files_of
from orkas.infra import files
from orkas.infra.errors import UsageError
from orkas.infra.messages import (
    Image,
    Message,
    Text,
    ToolCall,
    encode,
    new_name,
    to_record,
)  # fmt: skip

__all__ = ["Loaded", "Session", "sessions_folder", "valid_id"]


class Session:
    """A history whose tool calls are always paired, but for the open ones of the running round.

    ``Session()`` lives in memory, ``Session.open(name)`` on disk, ``Session.read(…)`` only looks. Use it from one
    task or thread at a time. ``messages`` is live: read it, never change it.
    """

    id: str
    path: Path | None
    messages: list[Message]
    warnings: list[str]
    """What the user should know of the loading, in plain sentences."""
    loaded: Loaded
    inbox: Inbox
    """What the user sent and no turn has taken yet."""

    def __init__(self, id: str | None = None) -> None:
        self.id = new_name() if id is None else id
        self.path = None
        self.messages = []
        self.warnings = []
        self.loaded = Loaded()
        self.inbox = Inbox()
        self._store: JsonlStore | None = None
        self._lock: files.Lock | None = None
        self._attachments = Attachments(None)
        self._backlog = Backlog()
        self._healed: list[Message] = []  # results made up on load that the file should get with the next message
        self._round: Round | None = Round()
        self._refusal = ""
        self._levels: list[tuple[Compacted, list[Message]]] = []  # compactions that only memory knows of

    @classmethod
    def open(cls, name: str, *, create: bool = True, ops: files.Ops = files.OPS) -> Session:
        """The persistent session of that name. Its file is made by the first message, not by opening.

        ``ops``: the file operations, replaceable to test what happens when they fail.

        Raises:
            UsageError: no session can have this name.
            SessionMissing: there is none and ``create`` is false.
            SessionUnreadable: its file cannot be read; it is left alone.
            SessionLocked: it is open already, here or in another process.
        """
        path, exists = find(name)
        if not exists and not create:
            raise missing(name)
        lock = files.Lock(path.with_name(f"{name}.lock"), name)
        lock.acquire()
        try:
            session = cls(name)
            session._lock = lock
            session._attachments = Attachments(files_of(path), ops)
            session._load(path, JsonlStore(path, id=name, ops=ops), missing_ok=create)
            session.inbox.settle()
        except BaseException:
            lock.release()
            raise
        return session

    @classmethod
    def read(cls, where: str | Path) -> Session:
        """A session as it is on disk now, by name or path. Takes no lock and never writes.

        Raises:
            UsageError: no session can have this name.
            SessionMissing, SessionUnreadable: as for ``open``.
        """
        path = locate(where)
        session = cls(path.name.removesuffix(".jsonl"))
        session._refusal = "was opened for reading only"
        session._attachments = Attachments(files_of(path))
        session._load(path, JsonlStore(path, id=session.id), missing_ok=False)
        session.inbox.refusal = session._refusal
        return session

    def _load(self, path: Path, store: JsonlStore, *, missing_ok: bool) -> None:
        found = store.load(missing_ok=missing_ok)
        repaired = heal(found, path)
        self.path = path
        self._store = store
        self._backlog = Backlog(store, self._attachments)
        self.messages = repaired.messages
        self.loaded = Loaded.of(found, repaired)
        self.inbox = store.inbox()
        self.warnings = [*warnings_of(self.id, found), *self.inbox.warnings]
        self._round = None
        if repaired.synthesized and not repaired.renamed:
            self._healed = open_at_tail(repaired.messages, found.messages)

    @property
    def files(self) -> Path | None:
        """Folder of spilled results and pictures, not made before something is put there; None in memory."""
        return self._attachments.folder

    @property
    def unsaved(self) -> int:
        """How many messages wait because saving failed."""
        return sum(1 for message, _ in self._backlog.waiting if message is not None)

    def append(self, *messages: Message) -> list[Message]:
        """Add messages; durable when it returns. All of them go in one write. Returns them as stored.

        A user or assistant message closes the calls that are still open with "interrupted" results. A call whose id
        is empty or was used before gets one of its own, and its result may name either. Large results and pictures
        are stored as preview and file.

        Raises:
            ValueError: a result answers no open call. Nothing was added.
            StorageError: they are in memory and ``unsaved``, and are written before anything that comes later.
        """
        added = self._take(messages)
        self._backlog.flush()
        return added

    async def commit(self, *messages: Message) -> list[Message]:
        """``append`` that does not hold up the event loop: a disk that is slow to flush is waited for in a thread.

        If the waiting task is cancelled the messages stay, and are written by that thread or before the next ones.
        """
        added = self._take(messages)
        await self._backlog.save()
        return added

    async def start(self, call: ToolCall) -> None:
        """Make durable that this call begins now: for one that had to wait for somebody, which no record could name in
        ``starts``. Should its result never be saved, the history says that its outcome is unknown.

        Raises:
            StorageError: it is not durable, so the call must not begin.
        """
        self._check_open()
        with self._backlog.lock:
            if self._round is not None:
                self._round.marks.append((-1, call.id, 0))
            if self._store is not None:
                begins = mark(call)
                self._backlog.waiting.append((begins, line_of(begins, encode(begins))))
        await self._backlog.save()

    async def note(self, record: dict[str, Any]) -> None:
        """Make a record durable that is no message: ``type`` says what it is. In memory it is kept nowhere.

        Raises:
            StorageError: it is not durable yet; it is written before anything that comes later.
        """
        self._check_open()
        if self._store is None:
            return
        with self._backlog.lock:
            self._backlog.waiting.append((None, msgspec.json.encode(record) + b"\n"))
        await self._backlog.save()

    def rewrite(self, messages: Sequence[Message], *, summary: str = "") -> None:
        """Make ``messages`` the whole history, in the file and in memory; what is left out is kept in an archive.

        ``summary``: record id of the message that stands for what is left out; ``uncompact`` can then take it back.
        A file of a newer version is left as it is: then only memory changes, and ``warnings`` says so.

        Raises:
            ValueError: they are not paired.
            StorageError: nothing has changed.
        """
        if not is_paired(messages):
            raise ValueError("a history must be paired before it replaces another")
        messages = list(messages)
        self._check_open()
        with self._backlog.lock:
            filed = self._store is not None and self._rewrite_file(self._store, messages, summary)
            if summary and not filed:
                self._levels.append((mark_of(self.messages, messages, summary), list(self.messages)))
            self.messages[:] = messages
            self._round = None

    async def compact(self, messages: Sequence[Message], summary: str) -> None:
        """``rewrite`` that does not hold up the event loop."""
        await in_writer(lambda: self.rewrite(messages, summary=summary))

    def uncompact(self) -> int:
        """Take the newest compaction back: what it replaced stands where it stood, what came since behind it.

        Returns how many messages came back. Once more takes back the compaction before it.

        Raises:
            UsageError: this history holds no summary whose messages are kept here.
            StorageError: nothing has changed.
        """
        self._check_open()
        with self._backlog.lock:
            summary = summary_of(self.messages)
            before = len(self.messages)
            messages = None
            if summary is not None and self._levels:
                messages = self._from_memory(summary.id)
            elif summary is not None and self._store is not None:
                self._backlog.flush()
                messages = self._store.uncompact(summary.id)
            if messages is None:
                raise UsageError(
                    f"session {self.id!r} has no compaction to take back", hint="nothing was changed"
                )
            self.messages[:] = repair(messages).messages
            self._round = None
            return len(self.messages) - before + 1

    def trim(self, keep: int) -> int:
        """Drop the oldest messages so that about ``keep`` stay: never a part of the newest turn or of a round, and
        never the summary of older ones. A persistent session keeps what is dropped in its archive.

        Returns how many were dropped.

        Raises:
            UsageError: ``keep`` is no whole number, 0 or more.
            StorageError: nothing has changed.
        """
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
            raise UsageError(f"keep must be a whole number of messages, 0 or more, not {keep!r}")
        messages = self.messages
        first = 1 if summary_of(messages) else 0
        newest = turn_start(messages)
        starts = [i for i in cut_points(messages[:newest]) if i > first and i < newest and speaks(messages[i])]
        at = next((i for i in [*starts, newest] if len(messages) - i + first <= keep), newest)
        if at <= first or len(messages) <= keep:
            return 0
        self.rewrite([*messages[:first], *messages[at:]])
        return at - first

    def stored(self) -> list[Stored]:
        """The records of the file as it was loaded, header left out, each with the one of ``messages`` that it holds.

        Raises:
            StorageError: it was rewritten since.
        """
        return [] if self._store is None else self._store.stored()

    def fill(self, messages: Sequence[Message], records: Sequence[Stored] = ()) -> None:
        """``append`` for a session that has no messages yet: after a crash all of them are there, or no session.

        ``records``: those of the session they come from; what stands there goes into the file byte for byte.

        Raises:
            StorageError: it still has none, and no file.
        """
        self._take(messages)
        self._backlog.waiting.clear()  # they go into the file as a whole, not one after another
        try:
            if self._store is None:
                return
            self._attachments.flush()
            self._store.fill(self.messages, records)
            self._round = None
        except BaseException:  # whatever ends it: all of them, or no session
            self.messages.clear()
            self._backlog.waiting.clear()
            self._round = None
            raise

    def check_version(self) -> None:
        """Raise StorageError when the file is of a newer version, which ``rewrite`` leaves as it is."""
        if self._store is not None:
            self._store.check_version()

    def records(self) -> list[dict[str, Any]]:
        """The history in the form of the session file, the header left out."""
        return [to_record(m) for m in self.messages]

    def keep(self, text: str, *, name: str) -> str | None:
        """Save a text of any length as a file of this session; returns its name, None in memory or on a full disk."""
        return self._attachments.keep(text, name)

    def spill(self, text: str, *, name: str) -> Text:
        """A text of any length as a block; above ``SPILL_CAP`` characters the whole is saved and previewed.

        In memory, or when it cannot be saved, the preview says that the rest is lost.
        """
        return self._attachments.spill(text, name)

    def store_image(self, image: Image) -> Image:
        """The picture with its bytes in ``files`` if they are many and the session is persistent.

        Raises:
            StorageError: they cannot be saved.
        """
        image = self._attachments.store_image(image)
        self._attachments.flush()
        return image

    def media(self, file: str) -> bytes:
        """The bytes of a picture or spilled result, by the ``file`` of its block.

        Raises:
            StorageError: there is no such file in this session.
        """
        return self._attachments.read(file)

    def close(self) -> None:
        """Write what is unsaved and let the session go. Idempotent.

        Raises:
            StorageError: the unsaved messages could not be written and are lost with this object. It is closed.
        """
        try:
            if self._backlog.waiting and not self._refusal:
                self._backlog.flush()
        finally:
            self._refusal = self._refusal or "is closed"
            self.inbox.close(self._refusal)
            self._let_go()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self._let_go()

    def _let_go(self) -> None:
        with self._backlog.lock:
            if self._store is not None:
                self._store.close()
            if self._lock is not None:
                self._lock.release()

    def _check_open(self) -> None:
        if self._refusal:
            raise UsageError(f"session {self.id!r} {self._refusal}", hint="open it with Session.open")

    def _take(self, messages: Sequence[Message]) -> list[Message]:
        """Check everything, then put it in memory and in line for the file."""
        self._check_open()
        with self._backlog.lock:
            draft = Draft(self._round or Round.after(self.messages), self._attachments)
            try:
                for message in messages:
                    draft.add(message)
                lines = self._lines(draft)
            except BaseException:
                draft.undo()
                raise
            self._backlog.waiting += lines
            self._round = draft.round
            for message, _ in draft.lines:
                place(self.messages, message)
            return draft.given

    def _lines(self, draft: Draft) -> list[tuple[Message, bytes]]:
        """What the file will get: with the first message after loading also the results made up on load."""
        if self._store is None or not draft.lines:
            return []
        healed = [(m, encode(m)) for m in self._healed]
        lines = [(m, line_of(m, line)) for m, line in (*healed, *draft.lines)]
        draft.check_sizes(lines)
        self._healed = []
        return lines

    def _rewrite_file(self, store: JsonlStore, messages: list[Message], summary: str) -> bool:
        """Whether the file has the new history too."""
        self._backlog.flush()
        if store.found.newer:
            note = f"session {self.id!r} is of a newer release: its file keeps the whole history"
            self.warnings += [] if note in self.warnings else [note]
            return False
        self._attachments.flush()
        if original := store.rewrite(messages, summary=summary):
            self.warnings.append(f"the damaged file of session {self.id!r} was kept as {str(original)!r}")
        self._healed = []
        return True

    def _from_memory(self, summary: str) -> list[Message] | None:
        """The history before that compaction, by the archive that memory is."""
        if self._levels[-1][0].summary != summary:
            return None
        mark, old = self._levels.pop()
        kept = {place for place, _ in mark.kept}
        archived = [Record(b"", m) for place, m in enumerate(old) if place not in kept]
        records = restored(mark, archived, [Record(b"", m) for m in self.messages])
        return [r.message for r in records if r.message is not None]
