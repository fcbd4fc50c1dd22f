"""What is shown of a turn, and how it is chosen how to show it.

``Screen`` tells events apart and remembers results; its two kinds draw: ``RichScreen`` with Markdown, colours and a
changing last part, ``PlainScreen`` line after line without a single escape code.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TextIO, assert_never

from orkas.infra.amounts import counted
from orkas.infra.events import (
    Approval,
    Compaction,
    Done,
    Event,
    Fallback,
    Notice,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    UserInput,
)
from orkas.infra.terminal import inert
from orkas.product.chat import asking
from orkas.product.chat.words import (
    Marks,
    Tone,
    call_summary,
    cells,
    clip,
    done_line,
    duration,
    failure,
    fold,
    one_line,
)  # fmt: skip

__all__ = ["PlainScreen", "Result", "Screen"]


KEPT = 100
"""Tool results that ``/expand`` can still show."""


@dataclass(slots=True)
class Result:
    """A tool call that ended; ``number`` counts from 1 in this chat."""

    number: int
    title: str
    text: str
    is_error: bool


@dataclass(slots=True)
class Call:
    """A tool call that runs."""

    name: str
    about: str
    begun: float
    progress: str = ""


class Screen(ABC):
    """One per chat. A terminal that went away is noted in ``gone`` and never raises."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.gone = False
        self.marks = Marks.of(out.encoding)
        self.asking = False
        """A question waits for the user's answer."""
        self.whole_thinking = False
        """Show the model's reasoning in full instead of a line."""
        self.results: deque[Result] = deque(maxlen=KEPT)
        self._count = 0
        self._calls: dict[str, Call] = {}
        self._sent: dict[str, tuple[str, str]] = {}
        """What the user said to the running turn and the model has not got yet, by id: text, and when it gets it."""
        self._held: list[str] = []
        """Inputs that are for after the turn."""
        self._thinking: list[str] = []
        self._thinking_since = self._begun = 0.0

    def begin(self) -> None:
        """A turn begins."""
        self._begun = time.monotonic()

    def tick(self) -> None:  # noqa: B027 - a screen without clocks has nothing to do
        """Called some times a second while a turn runs: bring clocks up to date."""

    def end(self) -> None:
        """The turn is over, however it ended; nothing that still changes is left on the screen."""
        self._thought()
        self.asking = False
        self._calls.clear()
        self._held.clear()
        if self._sent:
            self._sent = {}
            self.say("Your last words did not reach the model; they go first with the next message.", "warning")

    def typed(self, text: str) -> None:  # noqa: B027 - where the terminal itself shows what is typed
        """The message under way that the user types while a turn runs."""

    def sent(self, id: str, text: str, when: str) -> None:
        """The user has sent it; ``when`` the model gets it, in words. It waits for its ``user_input`` event."""
        self._sent[id] = (text, when)

    def hold(self, text: str) -> None:
        """The user has sent a command: it is for after the turn."""
        self._held.append(text)

    @abstractmethod
    def say(self, text: str, tone: Tone = "plain") -> None:
        """A line or more of our own; foreign parts of it are made inert here."""

    @abstractmethod
    def reply(self, text: str) -> None:
        """Text of the model, as it arrives."""

    @abstractmethod
    def settle(self) -> None:
        """The model's text has ended for now: show all of it."""

    @abstractmethod
    def take_back(self, count: int) -> None:
        """The last ``count`` characters given to ``reply`` do not hold any more."""

    def expand(self, number: int | None = None) -> None:
        """Show the whole of a result, the last one by default."""
        found = [r for r in self.results if number in (None, r.number)]
        if not found:
            kept = [str(r.number) for r in self.results] or ["none yet"]
            self.say(f"There is no such tool result; there is {clip(', '.join(kept), 60)}.", "warning")
            return
        self.say(self.joined(str(found[-1].number), found[-1].title), "bold")
        self.say(found[-1].text.rstrip("\n"))

    def show(self, event: Event) -> None:
        if not isinstance(event, ThinkingDelta):
            self._thought()
        match event:
            case TextDelta():
                self.reply(event.text)
            case ThinkingDelta():
                self._think(event.text)
            case Approval():
                self.settle()
                self.asking = True
                for text, tone in asking.shown(event, self.joined):
                    self.say(text, tone)
            case ToolStart():
                self.settle()
                self._calls[event.id] = Call(one_line(event.name, 80), call_summary(event.input), time.monotonic())
                self._started(self._calls[event.id])
            case ToolProgress():
                if call := self._calls.get(event.id):
                    call.progress = one_line(event.text.strip().rpartition("\n")[2][-500:])
            case ToolEnd():
                self._ended(event)
            case Compaction():
                sizes = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
                how = "was summarised" if event.method == "summary" else "was folded without a summary"
                self.say(f"The conversation {how}: {sizes}.", "dim")
            case UserInput():
                self._sent.pop(event.id, None)
                self.settle()
                self.say(f"> {event.text}", "bold")
            case Retry():
                self.take_back(event.discard)
                wait = f" in {duration(event.wait_s)}" if event.wait_s else ""
                self.say(f"Asking again{wait} (attempt {event.attempt}): {event.reason}", "warning")
            case Fallback():
                pass  # `retry` and `notice` say so in words
            case Notice():
                self.say(event.text, "dim" if event.level == "info" else event.level)
            case Done():
                self._done(event)
            case _:
                assert_never(event)

    def _think(self, text: str) -> None:
        if not self._thinking:
            self.settle()
            self._thinking_since = time.monotonic()
        self._thinking.append(text)

    def _thought(self) -> None:
        """Reasoning is over: all of it, or a line."""
        if self._thinking:
            text, self._thinking = "".join(self._thinking).strip(), []
            if self.whole_thinking and text:
                self.say(text, "dim")
            self.say(f"thought for {duration(time.monotonic() - self._thinking_since)}", "dim")

    @abstractmethod
    def _started(self, call: Call) -> None: ...

    def _ended(self, event: ToolEnd) -> None:
        self.settle()
        call = self._calls.pop(event.id, None) or Call(one_line(event.name, 80), "", time.monotonic())
        self._count += 1
        title = f"{call.name}  {call.about}".rstrip()
        self.results.append(Result(self._count, title, event.result, event.is_error))
        took = duration(time.monotonic() - call.begun)
        lines, more = fold(event.result)
        head = f"{self.marks.bad if event.is_error else self.marks.ok} "
        width = self.width
        tone: Tone = "error" if event.is_error else "good"
        if len(lines) == 1 and not more:
            self._line(head, tone, self._with_result(title, took, lines[0], width - len(head)))
            return
        self._line(head, tone, f"{clip(title, width - 2 - len(took) - 3, self.marks.more)} {self.marks.dot} {took}")
        for line in lines:
            self.say("  " + clip(line, width - 2, self.marks.more), "dim")
        if more:
            self.say(f"  {self.marks.more} {counted(more, 'more line')} {self.marks.dot} /expand {self._count}", "dim")

    def _with_result(self, title: str, took: str, line: str, width: int) -> str:
        """Title, time and a result of one line, sharing the width."""
        dot = f" {self.marks.dot} "
        title = clip(title, max(12, width - len(took) - len(line) - 6, width // 2), self.marks.more)
        return clip(dot.join((title, took, line)), max(8, width), self.marks.more)

    @abstractmethod
    def _line(self, head: str, tone: Tone, rest: str) -> None:
        """A line whose head has a tone of its own."""

    def _done(self, done: Done) -> None:
        self.settle()
        if done.outcome == "aborted":
            self.say("stopped", "warning")
        elif done.error is not None:
            self.say(failure(done.error), "error")
        self.say(done_line(done, time.monotonic() - self._begun, self.marks.dot), "dim")

    def joined(self, *parts: str) -> str:
        """Parts of a line with a dot between them."""
        return f" {self.marks.dot} ".join(part for part in parts if part)

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self.size().columns

    def size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self.out.fileno())
        except (OSError, ValueError):
            size = os.terminal_size((0, 0))
        return size if size.columns > 0 and size.lines > 0 else os.terminal_size((80, 24))

    def write(self, text: str) -> None:
        """To the terminal, at once. One that is gone is noted, not raised: the turn must end in order."""
        if self.gone:
            return
        try:
            self.out.write(text)
            self.out.flush()
        except (OSError, ValueError):
            self.gone = True


class PlainScreen(Screen):
    """For pipes, dumb terminals, ``NO_COLOR`` and an install without rich."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._mid_line = False
        self._column = 0
        """Columns of the line under way that are taken."""
        self._spaced = False
        """What was written last is a space: a line may be broken here."""
        self._return = ""
        """A carriage return whose line feed may still come."""

    def say(self, text: str, tone: Tone = "plain") -> None:
        self.settle()
        label = "error: " if tone == "error" else ""
        self.write(label + inert(text) + "\n")

    def sent(self, id: str, text: str, when: str) -> None:
        super().sent(id, text, when)
        self.say(f"({when})", "dim")

    def hold(self, text: str) -> None:
        super().hold(text)
        self.say("(after this turn)", "dim")

    def reply(self, text: str) -> None:
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        if text:
            self.write(self._wrapped(inert(text)))
            self._mid_line = not text.endswith("\n")

    def _wrapped(self, text: str) -> str:
        """On a terminal, lines broken before a word that has no room, as far as it is here; elsewhere as it is."""
        if not self.out.isatty():
            return text
        out, width = [], self.width
        for part in re.findall(r"\n|[^\S\n]+|\S+", text):
            size = cells(part.expandtabs(8))
            if part == "\n":
                self._column = 0
            elif self._column + size > width and self._column and not part.isspace() and size <= width:
                if self._spaced:
                    out.append("\n")
                    self._column = 0
                self._column += size
            else:
                self._column = (self._column + size) % width if size > width else self._column + size
            self._spaced = part.isspace()
            out.append(part)
        return "".join(out)

    def settle(self) -> None:
        if self._mid_line:
            self.write("\n")
        self._mid_line, self._return, self._column = False, "", 0

    def take_back(self, count: int) -> None:
        if count:
            self.settle()
            self.write(f"[taken back: the last {counted(count, 'character')} above]\n")

    def _line(self, head: str, tone: Tone, rest: str) -> None:
        self.say(head + rest)

    def _started(self, call: Call) -> None:
        self.say(f"{self.marks.run} {call.name}  {call.about}".rstrip())
