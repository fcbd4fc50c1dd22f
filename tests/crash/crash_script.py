"""Random conversations through the public surface, on a disk that writes down; what was promised when is kept beside."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from crash_disk import Disk, Op
from msgspec.structs import replace

from orkas.harness.pairing import cut_points
from orkas.harness.sessions import shelf
from orkas.harness.sessions.session import Session
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    UserMessage,
    encode,
    tool_result,
    user_message,
)

TORN = encode(user_message("zero")) + b"\n" + encode(AssistantMessage([ToolCall(id="z", name="t", arguments={})], starts="z"))
STARTS = {
    "new": None,
    "torn": TORN + b'\n{"role":"tool","tool_ca',
    "torn in its words": TORN + b"\n" + encode(tool_result("z", "half of it"))[:70],
    "no newline": encode(user_message("zero")),
    "bad middle": encode(user_message("zero")) + b"\n{bad\n" + encode(user_message("half")) + b"\n",
}
"""What the session's file holds before the script begins."""


class State(msgspec.Struct):
    """What holds at one moment of a script."""

    acked: dict[str, list[str]] = {}
    """By session: all words and real results that were promised to be there."""
    coming: dict[str, list[str]] = {}
    """By session: the same once what is under way is done."""
    arriving: list[str] = []
    """The words of a session that is being made and whose name nobody knows yet."""
    ever: dict[str, list[str]] = {}
    """By session: all that was ever promised; it may not be in the history any more, but must be somewhere."""
    begun: list[str] = []
    """Calls that were let begin."""
    finished: list[str] = []
    """Calls whose result was given to the session, saved or not."""


def texts(messages: Sequence[Message]) -> list[str]:
    """All words and real results, long ones by their beginning."""
    return [
        b.text[:20] for m in messages if not getattr(m, "synthetic", False) for b in m.content if isinstance(b, Text)
    ]  # fmt: skip


class Script:
    """One conversation. With ``tell`` it works on the real disk and tells each state; else on a ``Disk`` that writes down
    what is done to it, and "state" entries there number ``states``.
    """

    def __init__(
        self, home: Path, seed: int, *, start: str | None = None, tell: Callable[[State], object] | None = None
    ) -> None:
        os.environ["ORKAS_HOME"] = str(home)
        (home / "sessions").mkdir(parents=True)
        self.dice = random.Random(seed)
        self.disk = Disk(home)
        self.states: list[State] = []
        self.now = State()
        self.name = "s"
        self._tell = tell
        self._ops = files.OPS if tell else self.disk
        self._count = 0
        self._foreign = home / "foreign.jsonl"
        if (content := STARTS[start or self.dice.choice([*STARTS])]) is not None:
            _put(home / "sessions/s.jsonl", content)
        self.disk.adopt(home / "sessions")
        self._open()
        self._settle(texts(self.session.messages))

    def run(self, steps: int) -> None:
        kinds: list[Callable[[], None]] = [
            self.speak, self.speak, self.round, self.round, self.round, self.waited, self.compact, self.rewind,
            self.fork, self.fetch, self.reopen, self.hiccup,
        ]  # fmt: skip
        for _ in range(steps):
            self.dice.choice(kinds)()
        self.reopen()
        self.session.close()

    # --- steps --------------------------------------------------------------------------------------------------------

    def word(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}."

    def speak(self) -> None:
        self.append(*[user_message(self.word("u") * self.dice.choice([1, 1, 30])) for _ in range(self.dice.randint(1, 2))])

    def round(self) -> None:
        """Some calls and their results, one record each as the runner does it; maybe left open."""
        ids = [self.word("c") for _ in range(self.dice.randint(1, 3))]
        calls = [ToolCall(id=i, name="t", arguments={}) for i in ids]
        begins = self.append(AssistantMessage([Text(text=self.word("a")), *calls], starts=ids[0]))
        for place, call_id in enumerate(ids):
            if not begins:
                return  # a record that is not saved lets nothing begin
            self.now.begun.append(call_id)
            if self.dice.random() < 0.15:
                return
            following = ids[place + 1] if place + 1 < len(ids) else None
            self.now.finished.append(call_id)
            words = self.word("r") + " long" * self.dice.choice([0, 0, 0, 0, 11_000])
            begins = self.append(replace(tool_result(call_id, words), starts=following))
        if self.dice.random() < 0.3:
            self.append(_picture(ids[-1], self.dice.choice([10, 26_000])))

    def waited(self) -> None:
        """A call that begins only after somebody has answered."""
        call = ToolCall(id=self.word("c"), name="t", arguments={})
        self.append(AssistantMessage([call], starts=""))
        if not self._step(self.now.coming[self.name], lambda: asyncio.run(self.session.start(call))):
            return
        self.now.begun.append(call.id)
        if self.dice.random() < 0.7:
            self.now.finished.append(call.id)
            self.append(tool_result(call.id, self.word("r")))

    def compact(self) -> None:
        keep = self.dice.choice(cut_points(self.session.messages)[-4:])
        self.append(user_message(self.word("u")))  # closes open calls
        new = [replace(user_message(self.word("sum")), origin="summary"), *self.session.messages[keep:]]
        self._step(texts(new), lambda: self.session.rewrite(new))

    def rewind(self) -> None:
        self.reopen()
        if not self.acked:
            return
        self.session.close()
        messages = Session.read(self.name).messages
        to = self.dice.choice(cut_points(messages)[-4:])
        self._step(texts(messages[:to]), lambda: shelf.rewind(self.name, to, ops=self._ops))
        self._open()

    def fork(self) -> None:
        self.reopen()
        if self.acked:
            self._arrive(self.acked, lambda: shelf.fork(self.name, ops=self._ops))

    def fetch(self) -> None:
        """A damaged file from elsewhere as a new session."""
        _put(self._foreign, self.dice.choice([c for c in STARTS.values() if c]))
        words = texts(Session.read(self._foreign).messages)
        self._arrive(words, lambda: shelf.import_file(self._foreign, ops=self._ops))

    def reopen(self) -> None:
        saved = self._step(self.now.coming[self.name], self.session.close)  # writes what is unsaved
        self._open()
        found = texts(self.session.messages)
        assert found == self.acked if saved else found[: len(self.acked)] == self.acked
        self._settle(found)

    def hiccup(self) -> None:
        self.disk.hiccup()
        self.append(user_message(self.word("h")))
        self.disk.short = False

    def _open(self) -> None:
        self.session = Session.open(self.name, ops=self._ops)

    # --- what is promised ---------------------------------------------------------------------------------------------

    @property
    def acked(self) -> list[str]:
        return self.now.acked[self.name]

    def append(self, *messages: Message) -> bool:
        return self._step(self.now.coming[self.name] + texts(messages), lambda: self.session.append(*messages))

    def _step(self, coming: list[str], do: Callable[[], object]) -> bool:
        """Do something that leads to these words. False: it failed and said so; what memory holds is tried again."""
        self.now.coming[self.name] = coming
        self._note()
        try:
            do()
        except StorageError:
            self.now.coming[self.name] = texts(self.session.messages)
            self._note()
            return False
        self._settle(coming)
        return True

    def _arrive(self, words: list[str], make: Callable[[], str]) -> None:
        """A session of its own comes from ``make``; maybe go on in that one."""
        self.now.arriving = words
        self._note()
        try:
            name = make()
        except StorageError:
            return
        self.now.arriving = []
        here, self.name = self.name, name
        self._settle(words)
        if self.dice.random() < 0.5:
            self.name = here
        else:
            self.session.close()
            self._open()

    def _settle(self, words: list[str]) -> None:
        self.now.acked[self.name] = self.now.coming[self.name] = words
        ever = self.now.ever.setdefault(self.name, [])
        ever += [w for w in words if w not in ever]
        self._note()

    def _note(self) -> None:
        if self._tell:
            self._tell(self.now)
        else:
            self.disk.log.append(Op("state", size=len(self.states)))
            self.states.append(msgspec.msgpack.decode(msgspec.msgpack.encode(self.now), type=State))


def _put(path: Path, data: bytes) -> None:
    """A file that the script needs: a refusal of the system is not meant for it."""
    while not path.exists() or path.read_bytes() != data:
        with suppress(OSError):
            path.write_bytes(data)


def _picture(call_id: str, size: int) -> UserMessage:
    data = base64.b64encode(os.urandom(8) + bytes(size)).decode()
    return UserMessage([Image(media_type="image/png", data=data)], origin="tool_image", tool_call_id=call_id)
