"""Read a line, run a turn, show it, again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from orkas.harness.sessions.session import Session
from orkas.infra.amounts import counted
from orkas.infra.errors import OrkasError
from orkas.infra.events import Approval, Done, Event, TextDelta
from orkas.infra.messages import well_formed
from orkas.product.chat import asking
from orkas.product.chat.editor import Editor, LineEditor, PromptEditor, quiet
from orkas.product.chat.history import History
from orkas.product.chat.recap import recap, tell_cut_off
from orkas.product.chat.screen import PlainScreen, Screen
from orkas.product.chat.signals import Leave, Signals
from orkas.product.chat.typed import Typed
from orkas.product.chat.words import plain_names

if TYPE_CHECKING:
    from orkas.app import Agent

__all__ = ["Chat", "Commands"]

_log = logging.getLogger("orkas.chat")

_TICK = 0.1
"""Seconds between two looks at the clock while a turn runs."""
_SLICE = 2048
"""Characters of a reply that are drawn at once: some milliseconds of work."""
_NEVER = float("-inf")
_TWICE = 1.5
"""Seconds in which a second Ctrl-C belongs to the first, although the turn has ended meanwhile."""


class Commands(Protocol):
    """What lines that begin with a slash do."""

    @property
    def about(self) -> dict[str, str]:
        """Their names, with a few words each."""

    def values(self, command: str) -> list[str]:
        """What may follow a command."""

    async def run(self, chat: Chat, line: str) -> None:
        """Run one line. What goes wrong is told and the conversation goes on."""


class Chat:
    """One conversation at a terminal, from its first prompt to its end."""

    def __init__(
        self,
        agent: Agent,
        screen: Screen,
        history: History,
        commands: Commands,
        *,
        images: Sequence[str] = (),
        debug: bool = False,
    ) -> None:
        self.agent = agent
        self.screen = screen
        self._commands = commands
        self.leaving: int | None = None
        """The exit status, once it is decided to leave."""
        self._images: Sequence[str] = images
        self._debug = debug
        self._running = False
        self._asked = 0
        """How often Ctrl-C was pressed since the last input."""
        self._stopped = _NEVER
        """When Ctrl-C stopped a turn."""
        self._question: Approval | None = None
        """What the agent waits for an answer to."""
        self._deaf = False
        """What is typed cannot be read while a turn runs."""
        self._hears = False
        """The running turn still takes what the user says."""
        self._typed = Typed()
        self._later: list[str] = []
        """Inputs that were typed while a turn ran and are for after it."""
        self._history = history
        self._told_history = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signals = Signals(self._on_interrupt, self._on_end)
        self._editor: Editor = self._choose_editor()

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The keys that work here, for the help."""
        common = [("Ctrl-C", "stop the running turn; twice at the prompt: leave"), ("Ctrl-D", "leave")]
        if isinstance(self._editor, PromptEditor):
            more = [("Alt+Enter, Ctrl-J", "go on in a new line, as \\ at the end does"), ("Ctrl-O", "as /expand")]
        else:
            more = [("\\ at the end", "go on in a new line")]
        running = ("Enter, in a turn", "tell the model with its next step; /queue TEXT: when it has ended")
        return [*more, ("@ Tab", "names of files"), running, *common]

    async def run(self, first: str = "") -> int:
        """Until the user leaves; returns the exit status. ``first``: an input that was typed already."""
        self._loop = asyncio.get_running_loop()
        self._signals.take()
        warming = asyncio.ensure_future(self.agent.warm())
        try:
            if first:
                await self._input(first)
            while self.leaving is None and not self.screen.gone:
                await self._once()
        finally:
            self._signals.give_back()
            warming.cancel()
            await asyncio.wait({warming})
            await self.agent.aclose()
            self.agent.session.close()
            self._tell_way_back()
        return self.leaving if self.leaving is not None else 129

    def _tell_way_back(self) -> None:
        session = self.agent.session
        if session.path is not None and session.messages and not self.screen.gone:
            self.screen.say(f"Go on with this conversation: orkas --session {session.id}", "dim")

    def open_session(self, name: str, *, create: bool = True) -> None:
        """Go to another session; the present one is closed. Nothing changes when it cannot be opened."""
        if name == self.agent.session.id:
            self.screen.say(f"This is session {name} already.")
            return
        old, self.agent.session = self.agent.session, Session.open(name, create=create)
        session = self.agent.session
        try:
            old.close()
        except OrkasError as error:
            self.screen.say(str(error), "error")
        self.screen.say(f"session {session.id}")
        self.tell_session()

    def tell_session(self) -> None:
        """Damage and other news of the session, then where it stands."""
        for warning in self.agent.session.warnings:
            self.screen.say(str(warning), "warning")
        tell_cut_off(self.agent.session, self.screen)
        recap(self.agent.session, self.screen)

    async def _once(self) -> None:
        if self._later:
            text = self._later.pop(0)
            self.screen.say(f"> {text}", "bold")
            await self._input(text)
            return
        try:
            text = await self._editor.read("> ", self._typed.take())
        except KeyboardInterrupt:
            self._interrupted()
        except EOFError:
            self.leaving = 0
        except Leave as going:
            self.leaving = going.status
        except OSError:  # the terminal went away
            self.leaving = 129
        else:
            await self._input(text)

    async def _input(self, text: str) -> None:
        self._asked, self._stopped = 0, _NEVER
        self._tell_history()
        if not text.strip():
            return
        if text.strip() in ("exit", "quit"):
            self.leaving = 0
        elif text.startswith("/") and not text.startswith("//"):
            await self._commands.run(self, text)
        else:
            await self.turn(plain_names(text[1:] if text.startswith("//") else text, self.agent.cwd))

    async def turn(self, text: str) -> None:
        """One turn, shown. Whatever ends it, the screen is settled and the prompt can come back."""
        images, self._images = self._images, ()
        await self.tell(self.agent.stream(text, images, headless=not sys.stdin.isatty()))

    async def tell(self, events: AsyncGenerator[Event, None]) -> None:
        """Show what the agent does until it is done; Ctrl-C stops it."""
        ticking = asyncio.ensure_future(self._tick())
        self._running = self._hears = True
        self.screen.begin()
        try:
            with self._keys_heard():
                async with aclosing(events):
                    async for event in events:
                        self._question = event if isinstance(event, Approval) else None
                        self.screen.asking = False
                        await self._show(event)
                        if self._question is not None and self._deaf:
                            self._reply("no", "The user cannot be asked at this terminal.")
                        self._hears = not isinstance(event, Done)
                        if self._asked or self.screen.gone:
                            self.agent.stop()
        except OrkasError as error:
            self.screen.say(str(error), "error")
        except Exception as error:
            if self._debug:
                raise
            # a fault of ours ends the turn, not the conversation: what was said is on disk
            _log.exception("internal fault")
            self.screen.say(f"Internal fault: {type(error).__name__}: {error}. `orkas --debug` shows where.", "error")
        finally:
            self._running = False
            self._question = None
            ticking.cancel()
            self.screen.end()
        self.screen.say("")
        self._asked = 0

    async def _show(self, event: Event) -> None:
        """Show one event; a long text in slices, between which Ctrl-C is heard."""
        if not isinstance(event, TextDelta) or len(event.text) <= _SLICE:
            self.screen.show(event)
            return
        text = event.text
        for start in range(0, len(text), _SLICE):
            self.screen.show(msgspec.structs.replace(event, text=text[start : start + _SLICE]))
            await asyncio.sleep(0)
            rest = len(text) - start - _SLICE
            if rest > 0 and (self._asked or self.screen.gone):
                self.screen.say(f"not shown: {counted(rest, 'more character')} that had come", "dim")
                return

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.screen.tick()
            if self.screen.gone:
                self.agent.stop()

    @contextlib.contextmanager
    def _keys_heard(self) -> Iterator[None]:
        """What is typed while the turn runs is for it. Where it cannot be read meanwhile it waits for the prompt."""
        if not sys.stdin.isatty():
            yield
            return
        descriptor = sys.stdin.fileno()
        plain = isinstance(self.screen, PlainScreen)  # its terminal echoes, and gives whole lines
        with contextlib.nullcontext() if plain else quiet(descriptor), self._reading(descriptor):
            yield

    @contextlib.contextmanager
    def _reading(self, descriptor: int) -> Iterator[None]:
        assert self._loop is not None
        try:
            self._loop.add_reader(descriptor, self._on_keys, descriptor)
        except (NotImplementedError, OSError):  # Windows, or a terminal that cannot be waited for
            self._deaf = True
            yield
            return
        try:
            yield
        finally:
            self._loop.remove_reader(descriptor)
            self.screen.typed("")

    def _on_keys(self, descriptor: int) -> None:
        data = None
        with contextlib.suppress(OSError):  # the terminal went away, which a signal tells
            data = os.read(descriptor, 65_536)
        if not data:
            assert self._loop is not None
            self._loop.remove_reader(descriptor)
            self._typed.ended = data == b""  # Ctrl-D where the terminal gives lines
            data = b""
        for text in self._typed.feed(data):
            self._entered(text)
        if self._typed.ended and self.leaving is None:
            self.leaving = 0  # once the turn has ended
        if self._typed.ended and self._question is not None:
            self.agent.stop()
        self.screen.typed(self._typed.text)

    def _entered(self, text: str) -> None:
        """An input that was typed while a turn runs, or has just ended."""
        text = well_formed(text)
        if not text.strip():
            return
        if self._question is not None and (found := asking.answer_of(text, self._question)):
            self._reply(*found)
            return
        if self._question is not None and asking.is_answer(text):
            self.screen.say(f"{text.strip()} is no answer to this question; y or n is", "warning")
            return
        command, _, rest = text.strip().partition(" ")
        queued = command == "/queue" and bool(rest.strip())
        ours = text.strip() in ("exit", "quit") or (text.startswith("/") and not text.startswith("//"))
        if not self._hears:
            self._later.append(rest.strip() if queued else text)
            return
        if ours and not queued:
            self._later.append(text)
            self.screen.hold(text)
            return
        self._editor.remember(text)
        words = plain_names(
            (rest.strip() if queued else text).removeprefix("/" if text.startswith("//") else ""), self.agent.cwd
        )
        try:
            if queued:
                self.screen.sent(self.agent.queue(words), words, "when this turn has ended")
            else:
                self.screen.sent(self.agent.steer(words), words, "with the model's next step")
        except OrkasError as error:
            self.screen.say(str(error), "error")
            self._typed.text = text + self._typed.text

    def _reply(self, answer: asking.Answer, note: str = "") -> None:
        """Answer the open question."""
        question, self._question = self._question, None
        assert question is not None, "a question is open"
        self.screen.asking = False
        try:
            self.agent.answer(question.id, answer, note)
            self.screen.say(f"> {answer}{f': {note}' if note else ''}", "bold")
        except OrkasError as error:
            self.screen.say(str(error), "error")

    def _interrupted(self) -> None:
        """Ctrl-C: once stops the turn, twice leaves; at the prompt the first only says so."""
        self._asked += 1
        if self._asked > 1 or time.monotonic() - self._stopped < _TWICE:
            self.leaving = 130
        if self._running:
            self._stopped = time.monotonic()
            self.agent.stop()
        elif self.leaving is not None:
            return
        else:
            self.screen.say("Press Ctrl-C again to leave.", "dim")

    def _on_interrupt(self) -> None:
        if self._running:
            self._interrupted()
        else:
            self._editor.leave(KeyboardInterrupt())

    def _on_end(self, number: int) -> None:
        """The system, or the terminal that was closed, ends us: the turn is stopped and saved first."""
        self.leaving = 128 + number
        if self._running:
            self.agent.stop()
        else:
            self._editor.leave(Leave(self.leaving))

    def _choose_editor(self) -> Editor:
        rich = not isinstance(self.screen, PlainScreen)
        about = self._commands.about
        names = list(about)
        if rich and sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                values = cache(self._commands.values)
                return PromptEditor(self._history, lambda: self.agent.cwd, names, self.screen.expand, values, about)
        return LineEditor(self._history, lambda: self.agent.cwd, names, self._signals.raised)

    def _tell_history(self) -> None:
        if self._history.problem and not self._told_history:
            self._told_history = True
            self.screen.say(f"What you type is not kept in {self._history.path}: {self._history.problem}.", "warning")
