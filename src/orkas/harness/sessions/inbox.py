"""What the user sends while a turn runs: durable before it is acknowledged, taken exactly once.

Beside a session on disk lies ``<id>.jsonl.inbox``, one record a line:
``{"type":"steer"|"queue","id":…,"ts":…,"text":…}``. A message is forgotten here only after it is durable in the
session, under the same id; what the session already holds is dropped on load. So a crash at any point neither loses it
nor sends it twice. The file is written by the process that holds the session's lock, and is gone when nothing waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from orkas.infra import files
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.known import hide
from orkas.infra.messages import Text, UserMessage, encode, new_id, now, well_formed

__all__ = ["LONGEST", "Inbox"]

_log = logging.getLogger("orkas.sessions")

LONGEST = 1_000_000
"""Characters of one message: what is longer, a session does not keep as it is."""
_LARGEST = 4_000_000
"""Bytes of its record. One that no session could hold would stand in the way of every turn."""

Kind: TypeAlias = Literal["steer", "queue"]


class _Record(msgspec.Struct):
    type: Kind
    id: str
    ts: str
    text: str

    def message(self) -> UserMessage:
        return UserMessage([Text(text=self.text)], id=self.id, ts=self.ts)


_decode = msgspec.json.Decoder(_Record).decode


class Inbox:
    """One for each session. ``steer`` and ``queue`` from any task or thread; the rest by the runner.

    ``path``: None for a session in memory. ``held``: ids of the messages that the session holds already.
    """

    def __init__(self, path: Path | None = None, held: Iterable[str] = (), *, ops: files.Ops = files.OPS) -> None:
        self.warnings: list[str] = []
        """What the user should know of the loading, in plain sentences."""
        self.refusal = ""
        """Why nothing can be put in any more."""
        self._path = path
        self._ops = ops
        self._lock = threading.Lock()  # guards memory and file together
        self._records: tuple[_Record, ...] = ()  # replaced as a whole, so that looking needs no lock
        self._damaged: list[bytes] = []
        self._stale = False  # the file holds what is not to be sent
        if path is not None:
            self._load(path, held)

    def steer(self, text: str) -> str:
        """A message for the running turn: it goes out with the next request. Returns its id; durable by then.

        Raises:
            UsageError: it is empty, too long, or the session is closed.
            StorageError: it could not be saved; nothing of it is kept.
        """
        return self._put("steer", text)

    def queue(self, text: str) -> str:
        """A message for when the turn would end. Returns its id; durable by then. Raises as ``steer`` does."""
        return self._put("queue", text)

    def waiting(self) -> list[UserMessage]:
        """All that was sent to a turn which ended before it could take it, in order."""
        return [r.message() for r in self._records]

    def steered(self) -> list[UserMessage]:
        """What waits for the next request, in order. Nothing is forgotten before ``taken``."""
        return [r.message() for r in self._records if r.type == "steer"] if self._records else []

    def queued(self) -> list[UserMessage]:
        """The next message that waits for the end of the turn: none or one."""
        return [r.message() for r in self._records if r.type == "queue"][:1]

    def taken(self, messages: Sequence[UserMessage]) -> None:
        """They are durable in the session: forget them here.

        A file that cannot be written now is brought up to date later; until then their ids tell that they were taken.
        """
        ids = {m.id for m in messages}
        with self._lock:
            self._records = tuple(r for r in self._records if r.id not in ids)
            self._stale = self._path is not None
            self._tidy_quietly()

    def settle(self) -> None:
        """Bring the file up to date with what was found on load: damage set aside, what was sent dropped."""
        with self._lock:
            self._tidy_quietly()

    def close(self, refusal: str) -> None:
        """Nothing can be put in from now on; what waits stays on disk."""
        with self._lock:
            if not self.refusal:
                self._tidy_quietly()
            self.refusal = self.refusal or refusal

    def _put(self, kind: Kind, text: str) -> str:
        text = hide(_checked(text))
        with self._lock:
            if self.refusal:
                raise UsageError(f"this session {self.refusal}", hint="open it with Session.open")
            record = _Record(kind, new_id(), now(), text)
            if self._path is not None:
                self._tidy(self._path)
                files.append(self._path, encode(record) + b"\n", ops=self._ops)
            self._records = (*self._records, record)
        return record.id

    def _load(self, path: Path, held: Iterable[str]) -> None:
        try:
            data = files.read(path)
        except FileNotFoundError:
            return
        except OSError as error:
            self.warnings.append(f"what waits in {path.name!r} cannot be read ({error.strerror}) and is not sent")
            self.refusal = f"has an inbox that cannot be read: {path.name!r}"
            return
        sent = set(held)
        records: dict[str, _Record] = {}
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            try:
                record = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._damaged.append(line)
                continue
            if not _sendable(record, line):
                self._damaged.append(line)
            elif record.id in sent or record.id in records:
                self._stale = True
            else:
                records[record.id] = record
        self._records = tuple(records.values())
        if self._damaged:
            number = len(self._damaged)
            lines = "one line" if number == 1 else f"{number} lines"
            self.warnings.append(
                f"{lines} of {path.name!r}, messages that waited to be sent, cannot be used and are not sent; "
                f"what is left of them is set aside in {_aside(path).name!r}"
            )

    def _tidy_quietly(self) -> None:
        if self._path is None:
            return
        try:
            self._tidy(self._path)
        except StorageError as problem:
            _log.error("the inbox of the session is not up to date yet: %s", problem)

    def _tidy(self, path: Path) -> None:
        """Make the file hold what waits and nothing else."""
        if self._damaged:
            note = encode({"set_aside": now(), "from": path.name, "text": [_readable(line) for line in self._damaged]})
            files.append(_aside(path), note + b"\n", ops=self._ops)
            self._damaged, self._stale = [], True
        if not self._stale:
            return
        if self._records:
            files.replace(path, b"".join(encode(r) + b"\n" for r in self._records), ops=self._ops)
        else:
            files.remove(path, ops=self._ops)
        self._stale = False


def _sendable(record: _Record, line: bytes) -> bool:
    """Whether ``steer`` or ``queue`` could have written it."""
    return bool(record.id and record.text.strip()) and len(record.text) <= LONGEST and len(line) <= 2 * _LARGEST


def _checked(text: str) -> str:
    if not isinstance(text, str):
        raise UsageError(f"a message must be a string, not {text!r}", hint="give a text")
    if not text.strip():
        raise UsageError("there is nothing to send: the message is empty", hint="give a text")
    if len(text) > LONGEST or len(encode(text)) > _LARGEST:
        raise UsageError(
            f"a message of {len(text):,} characters is too long; {LONGEST:,} are allowed",
            hint="put the material into a file and name the file in the message",
        )
    return well_formed(text)


def _aside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".inbox") + ".damaged")


def _readable(line: bytes) -> str:
    return line.decode(errors="backslashreplace")
